// A convolutional network, spread over every dimension that a convolution has, trains as on one
// rank; and what it sends for it is what one counts by hand.
//
// The network is that of configs/fashion_mnist_convnet.yaml on a short batch. One pass forward and
// back: predictions and all gradients, and moving statistics that are the same bits on all ranks.
// Ten steps of descent with momentum; initial weights bit for bit, then predictions, losses and all
// variables, moving statistics among them, to float32 rounding. Sums of up to 13,000 products (the
// statistics of 16 x 28 x 28 values) in another order differ by about 1e-5 of a normalized value,
// and ten steps let that grow a few times: the tolerance is 1e-4 of the largest element.
#include "tests/support/convnet.h"

#include <fmt/ranges.h>

#include "collectives/exchange.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/flatten.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::convnet_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t batch = 16;
constexpr double tolerance = 1e-4;

SymbolicTensor network(const SymbolicTensor& image) {
  return convnet(image, {.hidden = 64, .named = true});
}

struct Samples {
  std::vector<float> images, labels;
  std::shared_ptr<const Source> source;
};

Samples samples() {
  Samples made{random_floats(batch * 28 * 28, 11, 0, 1), random_floats(batch, 12, 0, 10), nullptr};
  for (float& label : made.labels) {
    label = std::min(std::floor(label), 9.0f);
  }
  std::vector<Array> arrays{Array("images", made.images, {batch, 28, 28, 1}),
                            Array("labels", made.labels, {batch}, FieldRole::target)};
  made.source = std::make_shared<ArraySource>(std::move(arrays));
  return made;
}

Model convnet(Distribution distribution, Optimizer optimizer) {
  const auto image = Input({28, 28, 1});
  Model model(image, network(image), std::move(distribution), {.seed = 3, .check_plan = true});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = std::move(optimizer),
                 .metrics = {SparseCategoricalAccuracy()}});
  return model;
}

struct Outcome {
  std::vector<std::vector<float>> first, last;
  std::vector<Logs> steps;
  std::vector<float> predicted;
};

Outcome train(Distribution distribution) {
  Model model = convnet(std::move(distribution), SGD({.learning_rate = 0.05, .momentum = 0.9}));
  const Samples data = samples();
  Outcome outcome;
  outcome.first = variables_of(model);
  for (int step = 0; step < 10; ++step) {
    outcome.steps.push_back(
        model.train_step({.rows = batch, .inputs = {data.images}, .targets = {data.labels}}));
  }
  outcome.last = variables_of(model);
  outcome.predicted = model.predict(data.source, {.batch_size = batch, .prefetch = false});
  return outcome;
}

// One pass forward and back: predictions, the loss with statistics of the batch, the gradients of
// what is trained, and the moving statistics.
struct Pass {
  std::vector<float> predicted;
  Logs trained;
  std::map<std::string, std::vector<float>> gradients, moving;
};

Pass pass(Distribution distribution) {
  // Large, so that little of a gradient is lost in the variable that it is taken from.
  constexpr float rate = 1024;
  Model model = convnet(std::move(distribution), SGD({.learning_rate = rate}));
  const Samples data = samples();
  Pass pass;
  pass.predicted = model.predict(data.source, {.batch_size = batch, .prefetch = false});
  const std::vector<std::vector<float>> before = variables_of(model);
  pass.trained =
      model.train_step({.rows = batch, .inputs = {data.images}, .targets = {data.labels}});
  const std::vector<std::vector<float>> after = variables_of(model);
  for (std::size_t v = 0; v < before.size(); ++v) {
    const Variable& variable = model.graph().variables[v];
    if (!variable.options.trainable) {
      pass.moving[variable.path] = after[v];
      continue;
    }
    std::vector<float>& gradient = pass.gradients[variable.path];
    for (std::size_t i = 0; i < before[v].size(); ++i) {
      gradient.push_back((before[v][i] - after[v][i]) / rate);
    }
  }
  return pass;
}

// As `difference`, relative to the largest magnitude whatever it is.
std::string relative_difference(std::vector<float> found, std::vector<float> expected) {
  float largest = 0;
  for (const float value : expected) {
    largest = std::max(largest, std::abs(value));
  }
  for (std::vector<float>* values : {&found, &expected}) {
    for (float& value : *values) {
      value /= largest;
    }
  }
  return difference(found, expected, tolerance);
}

struct Setting {
  std::vector<MeshAxis> axes;
  LayoutEntries layouts;
  std::string batch_axis;
};

// By filters and then by channels, with what belongs to the channels between.
LayoutEntries by_channels(const DimensionAxes& data) {
  return {{"conv_2/kernel", {unsharded, unsharded, unsharded, "model"}},
          {"conv_2/output", {data, unsharded, unsharded, "model"}},
          {"norm_2/(beta|moving.*)", {"model"}},
          {"conv_3/kernel", {unsharded, unsharded, "model", unsharded}}};
}

LayoutEntries by_places(const DimensionAxes& data, const DimensionAxes& rows,
                        const DimensionAxes& columns) {
  return {{"(conv|relu)_[123]/output", {data, rows, columns, unsharded}}};
}

std::vector<Setting> settings(int ranks) {
  const DimensionAxes none;
  LayoutEntries all_at_once = by_channels("data");
  all_at_once[1].second = {"data", "rows", unsharded, "model"};
  all_at_once.push_back({"(conv|relu)_[13]/output", {"data", "rows", unsharded, unsharded}});
  switch (ranks) {
    case 2:
      return {{{{"data", 2}}, {}, "data"},
              {{{"model", 2}}, by_channels(none), ""},
              {{{"rows", 2}}, by_places(none, "rows", none), ""},
              {{{"columns", 2}}, by_places(none, none, "columns"), ""}};
    case 3:
      return {{{{"data", 3}}, {}, "data"}, {{{"rows", 3}}, by_places(none, "rows", none), ""}};
    case 4:
      return {{{{"rows", 2}, {"columns", 2}}, by_places(none, "rows", "columns"), ""},
              {{{"data", 2}, {"rows", 2}}, by_places("data", "rows", none), "data"}};
    case 8:
      return {{{{"data", 2}, {"model", 2}, {"rows", 2}}, all_at_once, "data"}};
    default:
      return {};
  }
}

// What this rank sends in a training step with a batch of 64, "forward halo 43008" and so on,
// without the sums of losses and metrics.
std::vector<std::string> sent(Distribution distribution,
                              SymbolicTensor (*made)(const SymbolicTensor&) = network) {
  const auto image = Input({28, 28, 1});
  Model model(image, made(image), std::move(distribution));
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true})});
  std::vector<std::string> all;
  for (const CollectiveRecord& record : model.plan(samples().source, 64).collectives) {
    if (record.purpose.phase != "metrics") {
      all.push_back(fmt::format("{} {} {}", record.purpose.phase, record.name, record.bytes_sent));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a convolutional network trains alike on any mesh") {
  DeviceMesh self = alone();
  const Outcome one = train(spread_over(self));
  CHECK(one.steps.back().at("loss") < one.steps.front().at("loss"));
  for (const Setting& setting : settings(Communicator::world().size())) {
    DeviceMesh mesh(setting.axes);
    INFO(meshwork::to_string(mesh.shape()) << ", " << test::to_string(setting.layouts));
    const Outcome found = train(spread_over(mesh, setting.layouts, setting.batch_axis));
    CHECK(found.first == one.first);
    for (std::size_t step = 0; step < one.steps.size(); ++step) {
      INFO("step " << step);
      CHECK(difference(found.steps[step], one.steps[step], tolerance) == "");
    }
    for (std::size_t v = 0; v < one.last.size(); ++v) {
      INFO("variable " << v);
      CHECK(difference(found.last[v], one.last[v], tolerance) == "");
    }
    CHECK(difference(found.predicted, one.predicted, tolerance) == "");
  }
}

TEST_CASE("predictions and all gradients of a convolutional network are alike on any mesh") {
  DeviceMesh self = alone();
  const Pass one = pass(spread_over(self));
  CHECK(one.gradients.size() == 10);  // kernels of three convolutions, betas, two dense layers
  CHECK(one.moving.size() == 6);
  for (const Setting& setting : settings(Communicator::world().size())) {
    DeviceMesh mesh(setting.axes);
    INFO(meshwork::to_string(mesh.shape()) << ", " << test::to_string(setting.layouts));
    const Pass found = pass(spread_over(mesh, setting.layouts, setting.batch_axis));
    CHECK(relative_difference(found.predicted, one.predicted) == "");
    CHECK(difference(found.trained, one.trained, tolerance) == "");
    for (const auto& [path, gradient] : one.gradients) {
      INFO("the gradient of " << path);
      CHECK(relative_difference(found.gradients.at(path), gradient) == "");
    }
    std::vector<std::string> bits;
    for (const auto& [path, values] : one.moving) {
      INFO(path);
      CHECK(difference(found.moving.at(path), values, tolerance) == "");
      bits.push_back(fmt::format("{} {:a}", path, fmt::join(found.moving.at(path), " ")));
    }
    CHECK_NOTHROW(require_agreement(Communicator::world(), bits, "moving statistics"));
  }
}

// Worked by hand for two ranks, in bytes. C channels of statistics are 2 C float64, of which each
// of two ranks sends half, twice: 16 C, so 192, 384 and 512 for 12, 24 and 32 channels.
TEST_CASE("a batch that is split sends statistics and gradients") {
  if (Communicator::world().size() != 2) {
    return;
  }
  DeviceMesh mesh({{"data", 2}});
  // Logits 10 + 640, hidden 64 + 2048, then 6 before the third kernel, which is large and begins at
  // a cache line, and kernels 27648 + 10368 + 108: 40892 floats. The gradients of beta are not
  // among them; they are the sums that backward has reduced.
  CHECK(sent(spread_over(mesh)) ==
        std::vector<std::string>{"forward all_reduce 192", "forward all_reduce 384",
                                 "forward all_reduce 512", "backward all_reduce 512",
                                 "backward all_reduce 384", "backward all_reduce 192",
                                 "backward all_reduce 163568"});
}

TEST_CASE("images that are split by rows send the rows at the border, statistics and gradients") {
  if (Communicator::world().size() != 2) {
    return;
  }
  DeviceMesh mesh({{"rows", 2}});
  // Everybody has the input. conv_2 has windows of 6 with stride 2 and 2 rows of padding before:
  // rows 0 to 6 of its output need rows 0 to 15, rows 7 to 13 need 12 to 27, so each rank sends 2
  // rows of 64 x 28 x 12 floats. conv_3: rows 0 to 2 need 0 to 7, rows 3 to 6 need 4 to 13; of 14
  // rows in halves rank 0 sends 3 and rank 1 one, of 64 x 14 x 24 floats, and the other way round
  // for gradients. The mean over the places is a sum of 64 x 32 floats. Kernels: 108 + 10368 +
  // 27648 floats.
  const bool first = Communicator::world().rank() == 0;
  const std::string three = "258048";
  const std::string one = "86016";
  CHECK(sent(spread_over(mesh, by_places({}, "rows", {}), "")) ==
        std::vector<std::string>{
            "forward all_reduce 192", "forward halo 172032", "forward all_reduce 384",
            "forward halo " + (first ? three : one), "forward all_reduce 512",
            "forward all_reduce 8192", "backward all_reduce 512",
            "backward halo " + (first ? one : three), "backward all_reduce 384",
            "backward halo 172032", "backward all_reduce 192", "backward all_reduce 152496"});
}

TEST_CASE("statistics are sent where the batch is split, and not where channels are") {
  if (Communicator::world().size() != 2) {
    return;
  }
  DeviceMesh mesh({{"model", 2}});
  // No layout says how to spread conv_1. That each rank computes half of the batch saves the time
  // of its arithmetic, and norm_1's statistics (192) cost little. conv_2 goes on by the batch with
  // its kernel of 10368 floats gathered, since adding up the gradient of its input, 64 x 28 x 28 x
  // 12, would be more; half of what a rank has of its output, 32 x 14 x 14 x 24, changes places.
  // norm_2 has all of its channels' values. conv_3 adds up over channels: 64 x 7 x 7 x 32 floats,
  // scattered over channels again, so that norm_3 sends no statistics either, but its two moving
  // ones, of which a rank has half, and the means over the places, 64 x 16 floats. In backward the
  // same again, with the gradients of norm_3's beta and of the kernels of conv_2 and conv_1, 108.
  CHECK(sent(spread_over(mesh, by_channels({}), "")) ==
        std::vector<std::string>{
            "forward all_reduce 192", "forward all_gather 20736", "forward all_to_all 301056",
            "forward reduce_scatter 200704", "forward all_gather 64", "forward all_gather 64",
            "forward all_gather 4096", "backward all_gather 64", "backward all_gather 200704",
            "backward all_to_all 301056", "backward all_gather 20736",
            "backward reduce_scatter 20736", "backward all_reduce 192", "backward all_reduce 432"});
}

TEST_CASE("an image that is split is flattened and multiplied where it is") {
  if (Communicator::world().size() != 2) {
    return;
  }
  const auto flattened = [](const SymbolicTensor& image) {
    const auto y = Conv2D({.name = "conv_1",
                           .filters = 8,
                           .kernel_size = 3,
                           .padding = Padding::same,
                           .use_bias = false})(image);
    return Dense({.name = "logits", .units = 10, .use_bias = false})(Flatten()(y));
  };
  // By rows: the sum over the image, 64 x 10 floats, and the gradients of the kernels of 72 and
  // 6272 x 10 floats; the image itself has 64 x 6272.
  DeviceMesh rows({{"rows", 2}});
  CHECK(sent(spread_over(rows, by_places({}, "rows", {}), ""), flattened) ==
        std::vector<std::string>{"forward all_reduce 2560", "backward all_reduce 251168"});
  // By channels: the same, but that the gradient of the filters is gathered, not added up.
  DeviceMesh model({{"model", 2}});
  const LayoutEntries by_filters{{"conv_1/output", {unsharded, unsharded, unsharded, "model"}}};
  CHECK(sent(spread_over(model, by_filters, ""), flattened) ==
        std::vector<std::string>{"forward all_reduce 2560", "backward all_reduce 250880",
                                 "backward all_gather 144"});
}

// On four ranks: 2 (n - 1) / n = 3/2 of what is reduced, so 24 C for C channels of statistics. The
// kernels are 38124 floats.
TEST_CASE("tiles send their sides and corners") {
  if (Communicator::world().size() != 4) {
    return;
  }
  DeviceMesh mesh({{"rows", 2}, {"columns", 2}});
  // Before conv_2 tiles of 14 x 14, of which two rows, two columns and the corner between go out,
  // of 64 x 12 floats. Before conv_3 tiles of 7 x 7: the first of a direction sends 3, the second
  // one, of 64 x 24 floats; for gradients it is the other way round.
  const auto halo = [](std::int64_t down, std::int64_t across, std::int64_t side,
                       std::int64_t floats) {
    return fmt::format("halo {}", (down * side + side * across + down * across) * floats * 4);
  };
  const std::int64_t down = mesh.rank() / 2 == 0 ? 3 : 1;
  const std::int64_t across = mesh.rank() % 2 == 0 ? 3 : 1;
  CHECK(sent(spread_over(mesh, by_places({}, "rows", "columns"), "")) ==
        std::vector<std::string>{
            "forward all_reduce 288", "forward " + halo(2, 2, 14, 64 * 12),
            "forward all_reduce 576", "forward " + halo(down, across, 7, 64 * 24),
            "forward all_reduce 768", "forward all_reduce 12288", "backward all_reduce 768",
            "backward " + halo(4 - down, 4 - across, 7, 64 * 24), "backward all_reduce 576",
            "backward " + halo(2, 2, 14, 64 * 12), "backward all_reduce 288",
            "backward all_reduce 228744"});
}

TEST_CASE("a batch and its images are split at once") {
  if (Communicator::world().size() != 4) {
    return;
  }
  DeviceMesh mesh({{"data", 2}, {"rows", 2}});
  // Half of what images split by rows send; the means over the places, 32 x 32 floats, are summed
  // over the rows alone, and the gradients of the dense layers, 2762 floats, over the data alone.
  const bool first = mesh.rank() % 2 == 0;
  const std::string three = "129024";
  const std::string one = "43008";
  CHECK(sent(spread_over(mesh, by_places("data", "rows", {}), "data")) ==
        std::vector<std::string>{
            "forward all_reduce 288", "forward halo 86016", "forward all_reduce 576",
            "forward halo " + (first ? three : one), "forward all_reduce 768",
            "forward all_reduce 4096", "backward all_reduce 11048", "backward all_reduce 768",
            "backward halo " + (first ? one : three), "backward all_reduce 576",
            "backward halo 86016", "backward all_reduce 288", "backward all_reduce 228744"});
}

TEST_CASE("a batch, its images and their channels are split at once") {
  if (Communicator::world().size() != 8) {
    return;
  }
  const Setting setting = settings(8).front();
  DeviceMesh mesh(setting.axes);
  // conv_2 takes the axis of the channels for the batch: 16 images a rank, halos of two rows of 28
  // x 12, the kernel of 10368 floats gathered, half of 16 x 7 x 14 x 24 brought to its channels.
  // norm_2 and conv_3 have 12 of 24 channels, of 32 images; conv_3 adds up 3 or 4 rows of 7 x 32
  // over the channels, and the means of 32 x 32 over the rows. In backward the same again; half of
  // conv_2's kernel is reduced over data and rows, half of the gradient of its input, 32 x 14 x 28
  // x 12, gathered, and at last conv_1's kernel with half of conv_3's, 108 + 13824 floats, reduced.
  const bool first = mesh.rank() % 2 == 0;
  const std::string three = "64512";
  const std::string one = "21504";
  CHECK(sent(spread_over(mesh, setting.layouts, setting.batch_axis)) ==
        std::vector<std::string>{"forward all_reduce 288",
                                 "forward halo 43008",
                                 "forward all_gather 20736",
                                 "forward all_to_all 75264",
                                 "forward all_reduce 288",
                                 "forward halo " + (first ? three : one),
                                 std::string("forward all_reduce ") + (first ? "86016" : "114688"),
                                 "forward all_reduce 768",
                                 "forward all_reduce 4096",
                                 "backward all_reduce 11048",
                                 "backward all_reduce 768",
                                 "backward halo " + (first ? one : three),
                                 "backward all_reduce 288",
                                 "backward all_to_all 75264",
                                 "backward all_gather 20736",
                                 "backward halo 43008",
                                 "backward reduce_scatter 20736",
                                 "backward all_reduce 31104",
                                 "backward all_gather 301056",
                                 "backward all_reduce 288",
                                 "backward all_reduce 83592"});
}

}  // namespace meshwork::convnet_test
