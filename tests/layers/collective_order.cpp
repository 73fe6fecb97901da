// Ranks whose blocks ask for other kernels, because some hold whole groups of filters or rows of a
// kernel side by side and others do not, make the same collectives in the same order: else a job
// would end before its first step.
//
// Every layout of what the layer takes, stores and gives, on meshes that need not be there.
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/flatten.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "tests/support/layer_spread.h"
#include "tests/support/plans.h"

namespace meshwork::collective_order_test {

using namespace meshwork::test;

namespace {

struct Laid {
  std::string path;
  std::size_t dimensions;
};

void check_order(const Trained& training, const std::vector<MeshAxis>& axes,
                 const std::vector<Laid>& laid) {
  const MeshShape mesh = mesh_of(axes);
  std::vector<std::vector<TensorLayout>> layouts;
  std::vector<std::size_t> counts;
  for (const Laid& tensor : laid) {
    layouts.push_back(layouts_of(axes, tensor.dimensions));
    counts.push_back(layouts.back().size());
  }
  constexpr std::size_t limit = 400;
  for (const std::vector<std::size_t>& choice : combinations(counts, limit, 1)) {
    LayoutEntries entries;
    for (std::size_t p = 0; p < laid.size(); ++p) {
      entries.emplace_back(laid[p].path, layouts[p][choice[p]]);
    }
    INFO(test::to_string(entries));
    // By bytes alone, so that small kernels are not gathered whole to save a message.
    const Plan plan = plan_of(training, mesh, entries, "", rows, {.latency_seconds = 0});
    std::vector<std::string> of_first;
    for (std::int64_t rank = 0; rank < mesh.rank_count(); ++rank) {
      const PlanReport report = report_plan(plan, Mode::train, rows, rank, SGD().update_rule(), {});
      std::vector<std::string> all;
      for (const CollectiveRecord& record : report.collectives) {
        all.push_back(describe(record, mesh));
      }
      if (rank == 0) {
        of_first = std::move(all);
      } else {
        INFO("rank " << rank);
        REQUIRE(all == of_first);
      }
    }
  }
}

}  // namespace

TEST_CASE("filters of whole groups and of parts of groups are brought in one order") {
  // Four filters in two groups over three ranks: two ranks have half a group, and one a whole one.
  const Trained training{.sample = {5, 4},
                         .build =
                             [](const SymbolicTensor& x) {
                               return Conv1D({.name = "layer",
                                              .filters = 4,
                                              .kernel_size = 3,
                                              .padding = Padding::same,
                                              .groups = 2})(front(4)(x));
                             },
                         .loss = MeanSquaredError()};
  const std::vector<Laid> laid{{"front/output", 3}, {"layer/kernel", 3}, {"layer/output", 3}};
  check_order(training, {{"x", 3}}, laid);
  check_order(training, {{"x", 3}, {"y", 2}}, laid);
}

TEST_CASE("rows of a kernel side by side and rows apart are brought in one order") {
  // Of an image of 3 x 2 the first column is elements 0, 2 and 4: of a kernel's rows in halves two
  // that are apart, and one.
  const Trained training{
      .sample = {3, 2, 2},
      .build =
          [](const SymbolicTensor& x) {
            return Dense({.name = "layer", .units = 4})(Flatten({.name = "flat"})(front(1)(x)));
          },
      .loss = MeanSquaredError()};
  const std::vector<Laid> laid{{"front/output", 4}, {"layer/kernel", 2}, {"layer/output", 2}};
  check_order(training, {{"x", 2}, {"y", 2}}, laid);
}

}  // namespace meshwork::collective_order_test
