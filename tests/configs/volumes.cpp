// The examples of volumes train on every mesh as on one rank: batches, planes, rows and columns
// split, alone and together; and what ranks send for it is what one counts by hand.
//
// Lengths are such that blocks differ, and that the coarsest layers have fewer planes than there
// are ranks. A sum of n products in another order differs by about sqrt(n) * 2^-24 of its terms,
// here of up to 83,000; ten steps let that grow a few times, and Adam makes of a rounding near 0 a
// step of its own.
#include <array>

#include "runtime/graph/plan_report.h"
#include "tests/configs/example.h"

namespace meshwork::volumes_example_test {

using namespace meshwork::test;

namespace {

/// Meshes of `ranks`, as {data, x, y, z}.
std::vector<std::array<std::int64_t, 4>> meshes(int ranks) {
  switch (ranks) {
    case 2:
      return {{2, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2}};
    case 3:
      return {{1, 3, 1, 1}, {1, 1, 3, 1}, {1, 1, 1, 3}};
    case 4:
      return {{1, 2, 2, 1}, {2, 1, 1, 2}, {1, 4, 1, 1}};
    case 8:
      return {{1, 2, 2, 2}, {2, 2, 1, 2}};
    default:
      return {};
  }
}

/// One step an epoch, ten of them, on volumes of `lengths`, in every mesh and alone.
void check_all(const std::string& name, const std::string& features, const std::string& targets,
               double tolerance) {
  std::vector<ConfigOverride> overrides{
      "model.input=" + features, "data.train.rows=20",    "data.train.features.shape=" + features,
      "data.batch_size=2",       "fit.steps_per_epoch=1", "fit.epochs=10"};
  if (!targets.empty()) overrides.emplace_back("data.train.targets.shape=" + targets);
  const RunConfig config = example(name, overrides);
  const OneRank one(config, {"data", "x", "y", "z"});
  if (one.run) CHECK(one.run->history.at("loss").size() == 10);
  for (const auto& [data, x, y, z] : meshes(Communicator::world().size())) {
    DeviceMesh mesh({{"data", data}, {"x", x}, {"y", y}, {"z", z}});
    one.check(config, mesh, tolerance);
  }
}

}  // namespace

TEST_CASE("the regression of volumes trains on every mesh as on one rank") {
  check_all("volume_regression", "[33, 36, 35, 4]", "", 2e-5);
}

TEST_CASE("the segmentation of volumes trains on every mesh as on one rank") {
  check_all("volume_segmentation", "[12, 20, 4, 1]", "[12, 20, 4]", 2e-4);
}

TEST_CASE(
    "the regression of volumes sends the faces, edges and corners that convolutions look at") {
  if (Communicator::world().size() > 1) return;  // the same on every rank
  const RunConfig config = example("volume_regression", {});
  const MeshShape mesh({{"data", 1}, {"x", 2}, {"y", 2}, {"z", 2}}, 8);
  Blueprint blueprint = config.blueprint(mesh);
  const auto source = config.open(DataPart::train);
  const Plan& plan = config.plan(blueprint, *source, 4, Mode::train);
  // "forward input 1234" for each exchange of borders of `rank`.
  const auto halos = [&](std::int64_t rank) {
    std::vector<std::string> all;
    for (const CollectiveRecord& record :
         config.report(plan, *source, 4, Mode::train, rank).collectives) {
      if (record.name == "halo") {
        all.push_back(
            fmt::format("{} {} {}", record.purpose.phase, record.purpose.what, record.bytes_sent));
      }
    }
    return all;
  };
  // Windows of two look one place further, so that the last rank sends its first face along each
  // axis, the edges between those and the corner, of blocks of `side`, and the first rank sends the
  // gradients of what it was sent. Four samples of `channels` floats.
  const auto border = [](std::int64_t side, std::int64_t channels) {
    return (3 * side * side + 3 * side + 1) * channels * 4 * 4;
  };
  // Along x not conv_4's planes are split but its filters: of 8 planes a face along y and one along z,
  // and the edge between.
  const std::int64_t behind_planes = (2 * 8 * 4 + 8) * 128 * 4 * 4;
  CHECK(halos(7) == std::vector<std::string>{
                        fmt::format("forward input {}", border(32, 4)),
                        fmt::format("forward pool_1/output {}", border(16, 32)),
                        fmt::format("forward pool_2/output {}", border(8, 64)),
                        fmt::format("forward pool_3/output {}", behind_planes),
                        "backward pool_3/output gradient 0", "backward pool_2/output gradient 0",
                        "backward pool_1/output gradient 0"});
  CHECK(halos(0) == std::vector<std::string>{
                        "forward input 0", "forward pool_1/output 0", "forward pool_2/output 0",
                        "forward pool_3/output 0",
                        fmt::format("backward pool_3/output gradient {}", behind_planes),
                        fmt::format("backward pool_2/output gradient {}", border(8, 64)),
                        fmt::format("backward pool_1/output gradient {}", border(16, 32))});
  // Behind the first rank along x alone: one face.
  CHECK(halos(4).front() == fmt::format("forward input {}", 32 * 32 * 4 * 4 * 4));
}

}  // namespace meshwork::volumes_example_test
