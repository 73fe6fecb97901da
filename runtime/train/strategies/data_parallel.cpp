// DataParallel: every rank has every weight, and a part of each batch. What a run does by itself.
#include "runtime/config/options.h"
#include "runtime/train/strategies/strategy.h"

namespace meshwork {
namespace {

struct DataParallelOptions {};

template <class Visitor>
void describe(DataParallelOptions&, Visitor& option) {
  option.about("every rank has every weight, and a part of each batch");
}

}  // namespace

void add_data_parallel(Catalog& catalog) {
  catalog.add<SharedStrategy, DataParallelOptions>(
      "DataParallel", {}, [](const DataParallelOptions&) { return SharedStrategy(); });
}

}  // namespace meshwork
