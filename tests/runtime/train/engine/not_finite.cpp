// A loss that is no number is traced to where that was first seen: the data, or the layer, and the
// rank.
#include <limits>
#include <optional>

#include "layers/activation.h"
#include "layers/dense.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/train/callbacks/terminate_on_nan.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::not_finite_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t batch = 8;
constexpr std::int64_t rows = 4 * batch;
constexpr std::int64_t features = 6;

// Trains two epochs, with `bad` as an element of row `row`, and `weight` as all weights of the first
// unit of d2 if it is given. Returns the error that ends it, "" if there is none.
std::string end_of(DeviceMesh& mesh, float bad, std::int64_t row,
                   std::optional<float> weight = std::nullopt, std::int64_t micro_batches = 1) {
  std::vector<float> x = random_floats(rows * features, 1);
  x[static_cast<std::size_t>(row * features + 2)] = bad;
  const auto source = std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", std::move(x), {rows, features}),
                         Array("t", random_floats(rows, 2), {rows, 1}, FieldRole::target)});
  const auto input = Input({features}, "samples");
  auto y = Dense({.name = "d1", .units = 9, .activation = Activation::relu})(input);
  y = Dense({.name = "d2", .units = 7, .activation = Activation::relu})(y);
  Model model(input, Dense({.name = "d3", .units = 1})(y), DataParallel(mesh));
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 1e-3})});
  std::vector<float> kernel = model.variable("d2/kernel");
  for (std::size_t i = 0; weight && i < kernel.size(); i += 7) kernel[i] = *weight;
  model.set_variable("d2/kernel", kernel);
  try {
    (void)model.fit(source, {.epochs = 2,
                             .batch_size = batch,
                             .shuffle = false,
                             .callbacks = {TerminateOnNaN({.raise_error = true})},
                             .verbose = Verbosity::silent,
                             .walk = {.micro_batches = micro_batches}});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a run whose numbers are finite is not ended") {
  DeviceMesh mesh({{"data", -1}});
  CHECK(end_of(mesh, 0.5f, 11) == "");
}

TEST_CASE("a NaN in the data is named with the batch, the rank that was fed it, and the field") {
  DeviceMesh mesh({{"data", -1}});
  // Row 11 is the fourth of the second batch.
  const int size = mesh.shape().rank_count();
  std::int64_t rank = 0;
  while ((rank + 1) * batch / size <= 3) ++rank;
  const std::string message = end_of(mesh, std::numeric_limits<float>::quiet_NaN(), 11);
  CHECK_THAT(message,
             Catch::StartsWith("Epoch 1: TerminateOnNaN: the loss is") &&
                 Catch::Contains("after batch 2 of 4") &&
                 Catch::Contains(fmt::format("first seen on rank {}, in the data fed as ", rank)) &&
                 Catch::Contains("is nan"));
}

// Rows 4 to 7 of each batch are its second micro-batch.
TEST_CASE("of several micro-batches the one that has it is named") {
  DeviceMesh mesh({{"data", -1}});
  for (const std::int64_t row : {11, 14}) {
    const std::string nth = row == 11 ? "1" : "2";
    const std::string message =
        end_of(mesh, std::numeric_limits<float>::quiet_NaN(), row, std::nullopt, 2);
    CHECK_THAT(message, Catch::Contains("after batch 2 of 4") &&
                            Catch::Contains("in the data fed as samples of micro-batch " + nth));
  }
  const std::string overflowing = end_of(mesh, 0.5f, 11, std::numeric_limits<float>::max(), 2);
  CHECK_THAT(overflowing, Catch::Contains(" of micro-batch 1 (instruction ") ||
                              Catch::Contains(" of micro-batch 2 (instruction "));
}

// Inputs of d2 are at least 0 and its weights so large that sums overflow in whatever order. What the
// outputs have is overwritten by then, which is said, the first one first; a gradient that passes
// through it has it too. Which buffers are overwritten follows from the memory of the device.
TEST_CASE("an overflow is named with the layer that has it") {
  DeviceMesh mesh({{"data", -1}});
  const std::string message = end_of(mesh, 0.5f, 11, std::numeric_limits<float>::max());
  const std::string overwritten = "no longer there: d2/product+bias+relu, d3/product+bias";
  const std::string of_loss = "loss/mean_squared_error gradient";
  CHECK_THAT(message, Catch::Contains("after batch 1 of 4") && Catch::Contains("inf"));
  CHECK_THAT(message,
             (Catch::Contains("first seen on rank 0, in d3/product+bias gradient (instruction ") &&
              Catch::Contains(overwritten + ", " + of_loss)) ||
                 (Catch::Contains("first seen on rank 0, in " + of_loss + " (instruction ") &&
                  Catch::Contains(overwritten)));
}

}  // namespace meshwork::not_finite_test
