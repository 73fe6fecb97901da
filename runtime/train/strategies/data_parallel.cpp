// DataParallel: every rank has every weight, and a part of each batch. What a run does by itself.
#include "runtime/config/options.h"
#include "runtime/train/strategies/strategy.h"

namespace meshwork {
namespace {

struct DataParallelOptions {};

class DataParallelStrategy final : public Strategy {
 public:
  std::string name() const override { return "DataParallel"; }
  LayoutMap layouts(const Graph&, const MeshShape& mesh, std::optional<Axis>) const override {
    return LayoutMap(mesh);
  }
};

template <class Visitor>
void describe(DataParallelOptions&, Visitor& option) {
  option.about("every rank has every weight, and a part of each batch");
}

}  // namespace

void add_data_parallel(Catalog& catalog) {
  catalog.add<SharedStrategy, DataParallelOptions>(
      "DataParallel", {},
      [](const DataParallelOptions&) { return std::make_shared<const DataParallelStrategy>(); });
}

}  // namespace meshwork
