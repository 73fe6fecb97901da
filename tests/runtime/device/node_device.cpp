#include "runtime/device/node_device.h"
#include "runtime/device/kernel_spec.h"

#include <memory>
#include <string>
#include <utility>

#include "collectives/error.h"
#include "tests/support/added_device.h"
#include "tests/support/catch.h"

namespace meshwork::node_device_test {

namespace {

/// The CPU, in place of one of several devices of a node.
class NamedDevice final : public Device {
 public:
  NamedDevice(std::string hardware, const DeviceOptions& options)
      : Device({.kind = "named"}),
        hardware_(std::move(hardware)),
        cpu_(make_device({"cpu", options.ranks_on_node, options.rank_on_node})) {}
  [[nodiscard]] std::string description() const override {
    return fmt::format("shared by {}", sharers_);
  }
  [[nodiscard]] std::string hardware() const override { return hardware_; }
  void share(int ranks) override { sharers_ = ranks; }
  [[nodiscard]] Memory allocate(std::int64_t bytes) override { return cpu_->allocate(bytes); }
  void copy_in(void* to, const void* from, std::int64_t bytes) override {
    cpu_->copy_in(to, from, bytes);
  }
  void copy_out(void* to, const void* from, std::int64_t bytes) override {
    cpu_->copy_out(to, from, bytes);
  }
  void synchronize() override {}
  [[nodiscard]] DeviceQueues& queues() override { return cpu_->queues(); }
  [[nodiscard]] std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    return cpu_->compile(spec);
  }

 private:
  std::string hardware_;
  std::unique_ptr<Device> cpu_;
  int sharers_ = 0;
};

/// What each rank's device says of itself where it has the hardware that `name` gives its rank.
std::string description(const std::string& kind, std::string (*name)(int rank)) {
  const Communicator world = Communicator::world().duplicate();
  const test::AddedDevice added({.kind = kind},
                                [&, rank = world.rank()](const DeviceOptions& options) {
                                  return std::make_unique<NamedDevice>(name(rank), options);
                                });
  return make_device_on_node(kind, world)->description();
}

}  // namespace

TEST_CASE("ranks that were shown the same hardware know how many they are") {
  const int size = Communicator::world().size();
  CHECK(description("one", [](int) { return std::string("A"); }) ==
        fmt::format("shared by {}", size));
  CHECK(description("own", [](int rank) { return std::to_string(rank); }) == "shared by 1");
  const bool first = Communicator::world().rank() == 0;
  CHECK(description("rest", [](int rank) { return std::string(rank == 0 ? "A" : "B"); }) ==
        fmt::format("shared by {}", first ? 1 : size - 1));
}

TEST_CASE("hardware without a name is nobody's to share") {
  CHECK(description("none", [](int) { return std::string(); }) == "shared by 0");
}

TEST_CASE("a rank that gets no device is an error on all") {
  const Communicator world = Communicator::world().duplicate();
  const test::AddedDevice missing({.kind = "missing"},
                                  [rank = world.rank()](const DeviceOptions& options) {
                                    if (rank == 0) fail("no device for rank 0");
                                    return std::make_unique<NamedDevice>("A", options);
                                  });
  CHECK_THROWS_WITH(make_device_on_node("missing", world), Catch::Contains("no device for rank 0"));
}

}  // namespace meshwork::node_device_test
