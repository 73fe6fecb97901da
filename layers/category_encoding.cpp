#include "layers/category_encoding.h"

#include <memory>
#include <utility>

#include "layers/layer_of.h"
#include "layers/spatial.h"
#include "runtime/graph/operations/category_encoding.h"

namespace meshwork {

template <class Visitor>
void describe(CategoryEncodingOptions& options, Visitor& option) {
  option.about("numbers of categories as vectors of zeros and ones");
  describe_name(options, option);
  // Larger numbers are not exact in float32.
  option.required("num_tokens", options.num_tokens, length, "number of categories");
  option.choice("output_mode", options.output_mode,
                {{"one_hot", CategoryOutput::one_hot},
                 {"multi_hot", CategoryOutput::multi_hot},
                 {"count", CategoryOutput::count}},
                "a vector for each number (one_hot), or one for the last dimension, with ones "
                "(multi_hot) or counts (count) of its categories");
}

SharedLayer CategoryEncoding(CategoryEncodingOptions options) {
  return layer_of(
      "CategoryEncoding", std::move(options),
      [](const CategoryEncodingOptions& of, LayerBuilder& builder, TensorId x) {
        const Shape& shape = builder.shape(x);
        const bool one_hot = of.output_mode == CategoryOutput::one_hot;
        return builder.apply(
            std::make_unique<CategoryEncodingOperation>(
                of.num_tokens, one_hot && (shape.size() < 2 || shape.back() != 1),
                of.output_mode != CategoryOutput::multi_hot,
                builder.type(x) == ElementType::int32 ? ElementType::int32 : ElementType::float32),
            {x});
      });
}

void add_category_encoding(Catalog& catalog) {
  catalog.add<SharedLayer, CategoryEncodingOptions>("CategoryEncoding", {}, CategoryEncoding);
}

}  // namespace meshwork
