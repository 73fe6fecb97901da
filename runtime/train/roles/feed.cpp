#include "runtime/train/roles/feed.h"

#include <cstring>
#include <utility>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "runtime/shape/block.h"
#include "runtime/train/roles/role.h"
#include "runtime/train/run_config.h"

namespace meshwork {

namespace {

constexpr const char* preparation_by_feeder = "prepare a field";
constexpr const char* rows_of_feeder = "rows";
constexpr const char* data_of_feeder = "what is fed";

class FeedRole final : public Role {
 public:
  void run(RoleRun& run) const override {
    std::shared_ptr<const Source> source;
    together(run.ranks, [&] { source = run.config.open_training().training; });
    run.rpc.define(data_of_feeder, [source] { return source->fingerprint(); });
    run.rpc.define(preparation_by_feeder, [source](int field) { source->prepare(field); });
    run.rpc.define(rows_of_feeder, [source](int field, std::span<const std::int64_t> rows,
                                            std::span<const std::int64_t> borders) {
      Block block(borders.size() / 2);
      for (std::size_t i = 0; i < block.size(); ++i) {
        block[i] = {borders[2 * i], borders[2 * i + 1]};
      }
      const auto bytes = static_cast<std::size_t>(static_cast<std::int64_t>(rows.size()) *
                                                  element_count(shape_of(block)) *
                                                  element_bytes(source->field(field).type));
      std::shared_ptr<std::uint8_t[]> values =
          std::make_unique_for_overwrite<std::uint8_t[]>(bytes);
      source->read(field, rows, block, values.get());
      return RpcArray<std::uint8_t>({values.get(), bytes}, values);
    });
    run.end.wait();
  }
};

class FedView final : public View {
 public:
  FedView(Rpc& rpc, int rank, double seconds, std::shared_ptr<const Source> source)
      : View(source, source->rows(), source->fields()),
        rpc_(&rpc),
        rank_(rank),
        seconds_(seconds) {}

 private:
  void make_ready(int field) const override {
    rpc_->call_within(seconds_, rank_, preparation_by_feeder, field).get();
  }

  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override {
    std::vector<std::int64_t> borders;
    for (const Range& range : block) {
      borders.push_back(range.begin);
      borders.push_back(range.end);
    }
    const RpcArray<std::uint8_t> bytes =
        rpc_->call_within<RpcArray<std::uint8_t>>(seconds_, rank_, rows_of_feeder, field, rows,
                                                  borders)
            .get();
    const std::size_t expected = rows.size() *
                                 static_cast<std::size_t>(element_count(shape_of(block))) *
                                 static_cast<std::size_t>(element_bytes(this->field(field).type));
    if (bytes.size() != expected) {
      fail("the feeder has other data: {} bytes of \"{}\" instead of {}", bytes.size(),
           this->field(field).name, expected);
    }
    std::memcpy(destination, bytes.data(), expected);
  }

  Rpc* rpc_;
  int rank_;
  double seconds_;
};

}  // namespace

std::shared_ptr<const Source> fed_by(Rpc& rpc, int rank, double seconds,
                                     std::shared_ptr<const Source> source) {
  const auto fed = rpc.call_within<std::string>(seconds, rank, data_of_feeder).get();
  if (const std::string own = source->fingerprint(); own != fed) {
    fail(
        "roles: the feeding rank {} and the training rank {} have different training data\n  rank "
        "{}: {}\n  rank {}: {}",
        rank, rpc.rank(), rank, fed, rpc.rank(), own);
  }
  return std::make_shared<const FedView>(rpc, rank, seconds, std::move(source));
}

void add_feed(Catalog& catalog) {
  catalog.add<SharedRole, NoRoleOptions>(
      feeding_role, {"feed"},
      [](const NoRoleOptions&) { return std::make_shared<const FeedRole>(); }, {},
      "reads the training data for the ranks that train");
}

}  // namespace meshwork
