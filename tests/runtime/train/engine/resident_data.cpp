// Samples that stay on the device: the numbers are those of samples that are fed, on every mesh.
#include "runtime/train/engine/resident_data.h"
#include "runtime/device/kernels/activation.h"

#include <array>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/dense.h"
#include "layers/flatten.h"
#include "layers/rescaling.h"
#include "runtime/data/mix_up.h"
#include "runtime/data/views.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "tests/support/added_device.h"
#include "tests/support/apart_device.h"
#include "tests/support/one_rank.h"

namespace meshwork::resident_data_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t rows = 61, classes = 5;
constexpr std::int64_t bytes_of_all = rows * (6 * 5 + 4);

/// Another source, and how many of its rows were read.
class CountedSource final : public Source {
 public:
  explicit CountedSource(std::shared_ptr<const Source> source)
      : Source(source->rows(), source->fields(), "counted data"), source_(std::move(source)) {}
  [[nodiscard]] std::string locate(int field, std::int64_t row) const override {
    return source_->locate(field, row);
  }
  [[nodiscard]] std::string fingerprint() const override { return source_->fingerprint(); }
  mutable std::atomic<std::int64_t> rows_read = 0;  // of the first field

 private:
  void read_rows(int field, std::span<const std::int64_t> which, const Block& block,
                 std::byte* destination) const override {
    if (field == 0) rows_read += std::ssize(which);
    source_->read(field, which, block, destination);
  }
  std::shared_ptr<const Source> source_;
};

std::shared_ptr<CountedSource> samples(unsigned seed, std::int64_t largest_class = classes - 1) {
  std::vector<std::uint8_t> pixels;
  for (const float value : random_floats(rows * 30, seed, 0, 256)) {
    pixels.push_back(static_cast<std::uint8_t>(value));
  }
  std::vector<std::int32_t> labels;
  for (std::int64_t row = 0; row < rows; ++row) {
    labels.push_back(static_cast<std::int32_t>(row * 7 % classes));
  }
  labels[17] = static_cast<std::int32_t>(largest_class);
  return std::make_shared<CountedSource>(std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", std::move(pixels), {rows, 6, 5}),
                         Array("t", std::move(labels), {rows}, FieldRole::target)}));
}

/// Runs on the device under test; where that computes in the host's memory, on one that is apart.
struct OnDeviceApart {
  std::optional<test::AddedDevice> added;
  OnDeviceApart() {
    if (make_device({})->traits().computes_in_host_memory) {
      added.emplace(apart_traits("on its own"), make_apart_device);
    }
  }
};

struct Run {
  History history;
  std::vector<std::vector<float>> variables;
  std::int64_t read = 0, read_for_validation = 0;
};

Run trained(DeviceMesh& mesh, const LayoutEntries& layouts, DataOnDevice on_device,
            std::int64_t epochs = 3, const std::vector<SharedMixing>& augment = {}) {
  const auto x = Input({6, 5});
  const auto h = Dense({.name = "d1", .units = 9, .activation = Activation::relu})(
      Flatten()(Rescaling({.scale = 1.0 / 255})(x)));
  Model model(x, Dense({.name = "d2", .units = classes})(h), spread_over(mesh, layouts),
              {.seed = 4, .check_plan = true});
  const bool mixes = !augment.empty();  // which takes vectors of classes
  model.compile({.loss = mixes ? CategoricalCrossentropy({.from_logits = true})
                               : SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = Adam({.learning_rate = 0.01}),
                 .metrics = {mixes ? CategoricalAccuracy() : SparseCategoricalAccuracy()}});
  const auto training = samples(1), validation = samples(2);
  const auto taken = [&](const std::shared_ptr<CountedSource>& source) {
    return mixes ? with_one_hot(source, 1, classes) : std::shared_ptr<const Source>(source);
  };
  Run run;
  run.history = model.fit(taken(training), {.epochs = epochs,
                                            .batch_size = 8,
                                            .validation = taken(validation),
                                            .validation_batch_size = 24,
                                            .augment = augment,
                                            .verbose = Verbosity::silent,
                                            .data_on_device = on_device});
  run.variables = variables_of(model);
  run.read = training->rows_read;
  run.read_for_validation = validation->rows_read;
  return run;
}

}  // namespace

TEST_CASE_METHOD(
    OnDeviceApart,
    "a run on samples that stay on the device is that on samples that are fed, bit for bit") {
  const int ranks = Communicator::world().size();
  // Batches over the ranks; and what of a sample a rank holds, too.
  const std::vector<std::pair<std::vector<MeshAxis>, LayoutEntries>> meshes{
      {{{"data", ranks}}, {}},
      {{{"data", 1}, {"model", ranks}},
       {{"d1/kernel", {"model", unsharded}}, {"d2/kernel", {unsharded, "model"}}}}};
  for (const auto& [axes, layouts] : meshes) {
    DeviceMesh mesh(axes);
    INFO(to_string(layouts));
    const Run fed = trained(mesh, layouts, DataOnDevice::never);
    const Run resident = trained(mesh, layouts, DataOnDevice::automatic);
    CHECK(resident.history.history == fed.history.history);
    CHECK(resident.variables == fed.variables);
    // Each row once, however many epochs.
    CHECK(resident.read == rows);
    CHECK(resident.read_for_validation == rows);
  }
}

TEST_CASE_METHOD(OnDeviceApart, "samples that do not fit into the share of free memory are fed") {
  if (make_device({})->traits().kind != "apart") return;
  DeviceMesh mesh({{"data", 1}}, Communicator::self());
  const auto threshold = static_cast<std::int64_t>(bytes_of_all / share_of_free_memory);
  set_apart_free_bytes(threshold);
  const Run fits = trained(mesh, {}, DataOnDevice::automatic);
  set_apart_free_bytes(threshold - 1);
  const Run fed = trained(mesh, {}, DataOnDevice::automatic);
  set_apart_free_bytes(std::int64_t{1} << 30);
  CHECK(fits.read == rows);
  CHECK(fed.read > rows);
  CHECK(fits.variables == fed.variables);
}

TEST_CASE_METHOD(OnDeviceApart, "where one rank has no room for the samples, all are fed") {
  if (make_device({})->traits().kind != "apart") return;
  const Communicator world = Communicator::world();
  DeviceMesh mesh({{"data", world.size()}});
  const auto threshold = static_cast<std::int64_t>(bytes_of_all / share_of_free_memory);
  set_apart_free_bytes(world.rank() == world.size() - 1 ? threshold - 1 : threshold);
  const Run run = trained(mesh, {}, DataOnDevice::automatic);
  set_apart_free_bytes(std::int64_t{1} << 30);
  CHECK(run.read != rows);
  CHECK(run.variables == trained(mesh, {}, DataOnDevice::never).variables);
}

TEST_CASE_METHOD(OnDeviceApart, "mixed samples are fed, since processors mix them") {
  DeviceMesh mesh({{"data", Communicator::world().size()}});
  const std::vector<SharedMixing> augment{MixUp()};
  const Run fed = trained(mesh, {}, DataOnDevice::never, 3, augment);
  const Run automatic = trained(mesh, {}, DataOnDevice::automatic, 3, augment);
  CHECK(automatic.history.history == fed.history.history);
  CHECK(automatic.variables == fed.variables);
  CHECK(fed.variables != trained(mesh, {}, DataOnDevice::never).variables);
}

TEST_CASE_METHOD(OnDeviceApart, "samples that are gone over once are fed") {
  DeviceMesh mesh({{"data", 1}}, Communicator::self());
  const Run once = trained(mesh, {}, DataOnDevice::automatic, 1);
  CHECK(once.read == rows);
  CHECK(once.variables == trained(mesh, {}, DataOnDevice::never, 1).variables);
}

TEST_CASE_METHOD(OnDeviceApart,
                 "a label that is no class is found when samples are loaded, and named") {
  const auto device = make_apart_device({});
  const FeedField labels{1, {{{0, 8}}, {{0, 5}}}, classes};
  CHECK_NOTHROW(ResidentData(*device, samples(1), std::array{labels}));
  CHECK_THROWS_WITH(ResidentData(*device, samples(1, classes), std::array{labels}),
                    Catch::Contains("sample 17") && Catch::Contains("label 5 is out of range"));
}

TEST_CASE_METHOD(OnDeviceApart, "a device that computes in the host's memory keeps no samples") {
  const auto device = make_device({.kind = "cpu"});
  const FeedField labels{1, {{{0, 8}}, {{0, 5}}}, 0};
  CHECK_FALSE(ResidentData::fits(*device, *samples(1), std::array{labels}));
}

}  // namespace meshwork::resident_data_test
