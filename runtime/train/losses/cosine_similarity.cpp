#include "runtime/train/losses/cosine_similarity.h"

#include "runtime/train/from_config.h"
#include "runtime/train/losses/function_loss.h"

namespace meshwork {

SharedLoss CosineSimilarity(const CosineSimilarityOptions& options) {
  return make_row_loss(options.name, "cosine_similarity", CosineFunction{});
}

void add_cosine_similarity(Catalog& catalog) {
  catalog.add<SharedLoss, CosineSimilarityOptions>("CosineSimilarity", {"cosine_similarity"},
                                                   CosineSimilarity);
}

}  // namespace meshwork
