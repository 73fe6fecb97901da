// That samples come from the feeder, and not from where they would be read without one.
#include "runtime/train/roles/feed.h"

#include <cstring>
#include <optional>

#include "layers/pages.h"
#include "runtime/config/load.h"
#include "runtime/data/array.h"
#include "runtime/pages.h"
#include "runtime/train/roles/role.h"
#include "runtime/train/run_config.h"
#include "tests/support/catch.h"

namespace meshwork::feed_test {

namespace {

const char* const text = R"(
data:
  train: {kind: synthetic, rows: 30, features: {kind: normal, shape: [4, 3]},
          targets: {kind: normal, shape: [2]}}
  batch_size: 6
model: {input: [4, 3], layers: [Flatten, Dense: {units: 2}]}
loss: mse
fit: {validation_split: 0.2}
roles: {train: -1, feed: 1}
)";

/// The samples of `source` in `block` of field 0.
std::vector<float> read(const Source& source, std::vector<std::int64_t> rows, const Block& block) {
  std::vector<float> values(rows.size() * static_cast<std::size_t>(element_count(shape_of(block))));
  source.read(0, rows, block, values.data());
  return values;
}

/// Looks like another source, and has zeros.
class Zeros final : public View {
 public:
  explicit Zeros(const std::shared_ptr<const Source>& like)
      : View(like, like->rows(), like->fields()) {}

 private:
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override {
    const std::int64_t elements = std::ssize(rows) * element_count(shape_of(block));
    std::memset(destination, 0,
                static_cast<std::size_t>(elements * element_bytes(this->field(field).type)));
  }
};

}  // namespace

TEST_CASE("a fed source has the samples of the feeder, and what is known of its own") {
  const bool threads = GENERATE(true, false);
  const Communicator world = Communicator::world();
  Catalog catalog;
  add_runtime(catalog);
  add_layers(catalog);
  const RunConfig config(parse_config(text, "run.yaml"), catalog);
  const int feeder = world.size() - 1;
  Rpc rpc(world, {.threads = threads});
  const Communicator part = world.split(world.rank() == feeder ? 1 : 0, 0);
  const std::vector<RoleRanks> roles = config.roles().on(world.size());
  const RoleMap map = map_of(roles);
  if (world.rank() == feeder) {
    play(roles.at(1), map, config, part, rpc);
  } else {
    std::optional<RolesAtWork> at_work;
    if (part.rank() == 0) at_work.emplace(map, rpc);
    rpc.open();
    const std::shared_ptr<const Source> own = config.open_training().training;
    const auto zeros = std::make_shared<const Zeros>(own);
    const std::shared_ptr<const Source> fed = fed_by(rpc, feeder, 60, zeros);
    CHECK(fed->rows() == 24);
    CHECK(fed->fingerprint() == zeros->fingerprint());
    fed->prepare(0);
    for (const Block& block : {whole({4, 3}), Block{{1, 3}, {2, 3}}}) {
      CHECK(read(*fed, {23, 0, 7, 7}, block) == read(*own, {23, 0, 7, 7}, block));
    }
    CHECK(read(*fed, {5}, whole({4, 3})) != std::vector<float>(12));
    // The same fields, and other data.
    const auto other = std::make_shared<ArraySource>(std::vector<Array>{
        Array("features", std::vector<float>(24 * 12), {24, 4, 3}),
        Array("targets", std::vector<float>(24 * 2), {24, 2}, FieldRole::target)});
    CHECK_THROWS_WITH(fed_by(rpc, feeder, 60, other),
                      fmt::format("roles: the feeding rank {0} and the training rank {1} have "
                                  "different training data\n  rank {0}: {2}\n  rank {1}: {3}",
                                  feeder, world.rank(), own->fingerprint(), other->fingerprint()));
    check_mpi(MPI_Barrier(part.native()), "MPI_Barrier");
    if (at_work) at_work->end(60);
    rpc.close();
  }
}

}  // namespace meshwork::feed_test
