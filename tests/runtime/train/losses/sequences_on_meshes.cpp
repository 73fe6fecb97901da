// Losses and metrics of sequences, over the windows of a text: means over all tokens, worked out
// from the predictions, and on every mesh those of one rank, with the sequence and the classes
// split.
#include <cmath>
#include <numbers>

#include "layers/dense.h"
#include "layers/embedding.h"
#include "runtime/data/text.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/metrics/perplexity.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/runtime/data/support.h"
#include "tests/support/one_rank.h"

namespace meshwork::sequences_on_meshes_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t length = 7, tokens = 13, windows = 23;

// A text of tokens below `tokens`; every rank writes its own.
class Text {
 public:
  Text() : folder_(fmt::format("sequences{}", Communicator::world().rank())) {
    for (std::int64_t i = 0; i < windows * length + 1; ++i) {
      bytes_ += static_cast<char>((i * i + 3 * i / 5) % tokens);
    }
    write_file(folder_ / "text", bytes_);
  }
  [[nodiscard]] std::shared_ptr<const Source> source() const {
    return std::make_shared<TextSource>(TextOptions{.files = {folder_ / "text"}, .length = length});
  }
  [[nodiscard]] std::size_t target(std::size_t token) const {
    return static_cast<std::size_t>(bytes_[token + 1]);
  }

 private:
  Folder folder_;
  std::string bytes_;
};

Model model_on(DeviceMesh& mesh, const LayoutEntries& layouts) {
  const auto input = Input({length}, "", ElementType::int32);
  auto x = Embedding({.name = "table", .input_dim = tokens, .output_dim = 6})(input);
  x = Dense({.name = "logits", .units = tokens})(x);
  Model model(input, x, spread_over(mesh, layouts), {.seed = 5, .check_plan = true});
  model.compile(
      {.loss = SparseCategoricalCrossentropy({.from_logits = true}),
       .optimizer = SGD({.learning_rate = 0.5}),
       .metrics = {SparseCategoricalAccuracy(), SparseTopKCategoricalAccuracy({.k = 3}),
                   Perplexity({.from_logits = true}), BitsPerByte({.from_logits = true})}});
  return model;
}

struct Outcome {
  History history;
  Logs evaluated;
};

Outcome run(DeviceMesh& mesh, const LayoutEntries& layouts, const Text& text) {
  Model model = model_on(mesh, layouts);
  Outcome outcome;
  outcome.history = model.fit(
      text.source(),
      {.epochs = 3, .batch_size = 4, .validation = text.source(), .verbose = Verbosity::silent});
  outcome.evaluated = model.evaluate(text.source(), {.batch_size = 5});
  return outcome;
}

}  // namespace

TEST_CASE("losses and metrics of sequences are means over batch and sequence") {
  const Text text;
  DeviceMesh one = alone();
  Model model = model_on(one, {});
  const Logs found = model.evaluate(text.source(), {.batch_size = 5});
  const std::vector<float> logits = model.predict(text.source(), {.batch_size = 5});
  REQUIRE(std::ssize(logits) == windows * length * tokens);
  double loss = 0, right = 0, among_three = 0;
  for (std::size_t row = 0; row < windows * length; ++row) {
    const float* x = logits.data() + row * tokens;
    const std::size_t target = text.target(row);
    double sum = 0;
    int ahead = 0;
    for (std::size_t k = 0; k < tokens; ++k) {
      sum += std::exp(static_cast<double>(x[k]));
      ahead += x[k] > x[target] || (x[k] == x[target] && k < target) ? 1 : 0;
    }
    loss += std::log(sum) - x[target];
    right += ahead == 0;
    among_three += ahead < 3;
  }
  constexpr double rows = windows * length;
  // Logits and sums of a row are float32.
  CHECK(found.at("loss") == Approx(loss / rows).epsilon(1e-6));
  CHECK(found.at("perplexity") == Approx(std::exp(loss / rows)).epsilon(1e-6));
  CHECK(found.at("bits_per_byte") == Approx(loss / rows / std::numbers::ln2).epsilon(1e-6));
  CHECK(found.at("sparse_categorical_accuracy") == right / rows);
  CHECK(found.at("sparse_top_k_categorical_accuracy") == among_three / rows);
}

TEST_CASE("windows of a text train on every mesh as on one rank") {
  const Text text;
  const int ranks = Communicator::world().size();
  DeviceMesh one = alone();
  const Outcome expected = run(one, {}, text);
  CHECK(expected.history.at("loss").back() < expected.history.at("loss").front());
  const LayoutEntries sequence{{"table/output", {unsharded, "model", unsharded}},
                               {"logits/output", {"data", "model", unsharded}}};
  const LayoutEntries classes{{"table/embeddings", {"model", unsharded}},
                              {"logits/kernel", {unsharded, "model"}},
                              {"logits/bias", {"model"}},
                              {"logits/output", {"data", unsharded, "model"}}};
  std::vector<std::pair<std::vector<MeshAxis>, LayoutEntries>> spreads{
      {{{"data", ranks}, {"model", 1}}, {}},
      {{{"data", 1}, {"model", ranks}}, sequence},
      {{{"data", 1}, {"model", ranks}}, classes}};
  if (ranks == 4) {
    spreads.push_back({{{"data", 2}, {"model", 2}}, sequence});
    spreads.push_back({{{"data", 2}, {"model", 2}}, classes});
  }
  for (const auto& [axes, layouts] : spreads) {
    DeviceMesh mesh(axes);
    INFO(to_string(layouts) << " on " << to_string(mesh.shape()));
    const Outcome found = run(mesh, layouts, text);
    CHECK(difference(found.evaluated, expected.evaluated, 1e-5) == "");
    for (const auto& [name, values] : expected.history.history) {
      for (std::size_t epoch = 0; epoch < values.size(); ++epoch) {
        INFO(name << " of epoch " << epoch);
        CHECK(found.history.at(name)[epoch] == Approx(values[epoch]).epsilon(1e-5));
      }
    }
  }
}

}  // namespace meshwork::sequences_on_meshes_test
