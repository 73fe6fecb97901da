// A program whose fit ends by an error on the last rank, while the device has operations under way
// that this rank has started and the others never join, or the reverse: on a device that is apart,
// by the NCCL transport on an NCCL that is made of MPI. Its argument says where the error comes
// from: "at rest" when nothing is under way, "everywhere" then and on all ranks. Not a test by
// itself; CTest looks at how it ends.
//
// NCCL lets go of a communicator when all ranks of the node abort it, and memory of the device is
// given back when the operations before it are over. So the rank that fails frees what was captured,
// aborts, frees memory, and has its message printed; the others are ended by that.
#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "layers/dense.h"
#include "runtime/data/array.h"
#include "runtime/data/source.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizers/adam.h"
#include "tests/support/apart_device.h"
#include "tests/support/apart_queues.h"
#include "tests/support/nccl_on_host/control.h"

using namespace meshwork;

namespace {

constexpr std::int64_t rows = 48, batch = 8;
constexpr std::int64_t failing_batch = 3;  // when the step is captured

std::string place;  // where the error comes from
test::ApartQueues* queues = nullptr;

bool fails_here() {
  const Communicator world = Communicator::world();
  return place == "everywhere" || world.rank() == world.size() - 1;
}

/// From here on it is looked at what is given back.
[[noreturn]] void fail_now() {
  (void)test::given_back();
  fail("it fails {}", place);
}

class Failing final : public Callback {
 public:
  std::string class_name() const override { return "Failing"; }
  void on_train_batch_end(Training& training) override {
    if (training.position().batch != failing_batch) return;
    const bool at_rest = place == "at rest" || place == "everywhere";
    if (at_rest) queues->finish();
    if (!fails_here()) return;
    if (at_rest || place == "in a callback") fail_now();
    if (place == "on the device") queues->start(fail_now);
  }
  void on_test_batch_end(Training&) override {
    if (place == "in validation" && tested_++ == failing_batch && fails_here()) fail_now();
  }

 private:
  std::int64_t tested_ = 0;
};

/// Cannot be read to its end.
class Torn final : public View {
 public:
  explicit Torn(const std::shared_ptr<const Source>& of) : View(of, of->rows(), of->fields()) {}

 protected:
  void read_rows(int field, std::span<const std::int64_t> wanted, const Block& block,
                 std::byte* destination) const override {
    const auto last = std::max_element(wanted.begin(), wanted.end());
    if (place == "in its data" && fails_here() && *last >= failing_batch * batch) fail_now();
    source().read(field, wanted, block, destination);
  }
};

std::shared_ptr<const Source> samples() {
  std::vector<float> features, targets;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (int i = 0; i < 4; ++i) features.push_back(static_cast<float>((row * 7 + i * 3) % 5) - 2);
    targets.push_back(static_cast<float>(row % 3));
  }
  std::vector<Array> arrays{Array("features", features, {rows, 4}),
                            Array("targets", targets, {rows}, FieldRole::target)};
  return std::make_shared<Torn>(std::make_shared<ArraySource>(std::move(arrays)));
}

/// Whether captured work came first, then communicators, then memory.
bool in_order(const std::vector<std::string>& back) {
  const auto first = [&](const char* what) { return std::find(back.begin(), back.end(), what); };
  const auto behind_last = [&](const char* what) {
    return std::find(back.rbegin(), back.rend(), what).base();
  };
  return first("captured work") != back.end() && first("a communicator") != back.end() &&
         behind_last("captured work") <= first("a communicator") &&
         first("a communicator") < first("memory") && first("memory") != back.end();
}

void train() {
  DeviceMesh mesh({{"data", -1}});
  const auto x = Input({4});
  auto y = Dense({.name = "d1", .units = 5, .activation = Activation::relu})(x);
  y = Dense({.name = "d2", .units = 3})(y);
  Model model(x, y, DataParallel(mesh), {.device = "with streams", .collectives = "nccl"});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = Adam(),
                 .metrics = {SparseCategoricalAccuracy()}});
  const FitOptions options{.epochs = 2,
                           .batch_size = batch,
                           .validation = samples(),
                           .shuffle = false,
                           .callbacks = {std::make_shared<Failing>()},
                           .verbose = Verbosity::silent,
                           .data_on_device = DataOnDevice::never};
  if (place != "everywhere") {
    (void)model.fit(samples(), options);
    return;
  }
  try {
    (void)model.fit(samples(), options);
  } catch (const Error& error) {
    fmt::print("rank {} has caught: {}\n", mesh.rank(), error.what());
  }
  const Logs logs = model.evaluate(samples(), {.batch_size = batch});
  fmt::print("rank {} goes on, after {} updates, with {} communicators aborted, to {}\n",
             mesh.rank(), model.iteration(), test::nccl_on_host().aborted,
             logs.find("loss") ? "a loss" : "none");
}

}  // namespace

int main(int argc, char** argv) {
  const MpiEnvironment environment(&argc, &argv);
  place = argc > 1 ? argv[1] : "";
  test::nccl_on_host().aborts_together = true;
  add_device_kind(test::apart_traits("with streams"), [](const DeviceOptions& options) {
    std::unique_ptr<Device> device = test::make_apart_device_with_streams(options);
    queues = &dynamic_cast<test::ApartQueues&>(device->queues());
    return device;
  });
  try {
    train();
  } catch (const std::exception& error) {
    const std::vector<std::string> back = test::given_back();
    if (place != "at rest" && !in_order(back)) {
      for (const std::string& what : back) fmt::print("given back: {}\n", what);
    }
    abort_job(1, error.what());
  }
}
