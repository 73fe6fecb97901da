// Broken configurations either are read or are an `Error` of one line; nothing else, and soon.
//
// Texts are broken by tests/support/mutate.h from a seed that a failure prints, loaded, walked by a
// reader that knows every section, and, where that works, printed and read again.

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/config/catalog.h"
#include "runtime/config/load.h"
#include "runtime/config/reader.h"
#include "tests/support/catch.h"
#include "tests/support/mutate.h"

namespace meshwork::fuzz_test {

namespace {

const Catalog no_classes;

const std::vector<std::string> examples = {
    R"(# a comment
seed: 7
device: auto                     # cpu, cuda
mesh: {data: 2, model: 4}
layout:
  d1/kernel: [~, model]
  "feature.*bias": [[data, model]]
batch_axis: data
unmatched_layouts: error
data:
  train: {kind: idx, images: train-images.gz, labels: train-labels.gz}
  batch_size: 64
model:
  input: [28, 28, 1]
  layers:
    - Flatten:
    - Dense: {name: d1, units: 200, activation: relu}
    - Dropout: {rate: 0.4}
    - Dense: {name: d2, units: 10}
loss: {SparseCategoricalCrossentropy: {from_logits: true}}
optimizer: {Adam: {learning_rate: 1e-3}}
metrics: [SparseCategoricalAccuracy]
fit: {epochs: 3, validation_split: 0.1, callbacks: [{CSVLogger: {filename: log.csv}}]}
checkpoint: {directory: checkpoints, every_epochs: 1, keep: 3, resume: auto}
log: {tensorboard: runs}
)",
    R"(seed: 0x10
mesh:
  data: -1
layout: ~
data:
  train: &source
    kind: "synthetic"
    images: |
      noise
      of lines
    labels: 'it''s
      folded'
  validation: *source
  batch_size: 16
model:
  input: [4]
  layers:
  - Dense:
      units: 3
      name: &name d
  - Dense
  -
    ? Dropout
    : {rate: .5}
loss: MeanSquaredError
optimizer:
  SGD: {learning_rate: {CosineDecay: {initial: 1.0E-1, steps: 1000}}}
metrics: [{TopK: {k: 5, name: *name}}, Accuracy]
fit:
  epochs: 1
)"};

enum class Choice { first, second, third };
const ChoiceTable<Choice> choices = {
    {"auto", Choice::first}, {"relu", Choice::second}, {"error", Choice::third}};

void read_object(const ConfigNode& node, int depth) {
  const ConfigEntry object = node.single_entry("an object");
  if (object.name != "Dense" && object.name != "Dropout" && object.name != "Flatten" &&
      object.name != "Adam") {
    if (depth > 0) throw object.key.unknown("class", {"Dense", "Dropout", "Flatten", "Adam"});
  }
  ConfigReader reader(object.value);
  OptionVisitor option = option_reader(reader, no_classes);
  std::string name;
  std::int64_t units = 0;
  int k = 0;
  double rate = 0;
  float learning_rate = 0;
  bool from_logits = false;
  Choice activation = Choice::first;
  std::filesystem::path file;
  option("name", name, "");
  option("units", units, positive, "");
  option("k", k, between(1, 10), "");
  option("rate", rate, at_least(0).below(1), "");
  option("from_logits", from_logits, "");
  option("filename", file, "");
  option.choice("activation", activation, choices, "");
  if (const auto nested = reader.node("learning_rate")) {
    if (nested->is_scalar()) {
      learning_rate = nested->as<float>(positive);
    } else {
      for (const ConfigEntry& entry : nested->single_entry().value.entries()) {
        learning_rate += entry.value.as<float>(any_finite);
      }
    }
  }
  reader.finish();
}

// Reads every section with every kind of reading there is.
void walk(const ConfigNode& root) {
  ConfigReader reader(root);
  OptionVisitor option = option_reader(reader, no_classes);
  std::optional<std::uint64_t> seed;
  Choice device = Choice::first, unmatched = Choice::first;
  std::string batch_axis;
  option("seed", seed, "");
  option.choice("device", device, choices, "");
  option.choice("unmatched_layouts", unmatched, choices, "");
  option("batch_axis", batch_axis, "");
  for (const ConfigEntry& axis : reader.section("mesh").entries()) {
    (void)axis.value.as<std::int64_t>(at_least(-1));
  }
  for (const ConfigEntry& rule : reader.section("layout").entries()) {
    for (const ConfigNode& axes : rule.value.elements()) {
      if (axes.is_sequence()) {
        (void)axes.as<std::vector<std::string>>();
      } else {
        (void)axes.as<std::optional<std::string>>();
      }
    }
  }
  ConfigReader data(reader.required_node("data"));
  OptionVisitor data_option = option_reader(data, no_classes);
  std::int64_t batch_size = 32;
  data_option.required("batch_size", batch_size, positive, "");
  for (const std::string key : {"train", "validation"}) {
    ConfigReader source(data.section(key));
    OptionVisitor source_option = option_reader(source, no_classes);
    std::string kind;
    std::filesystem::path images, labels;
    source_option("kind", kind, "");
    source_option("images", images, "");
    source_option("labels", labels, "");
    source.finish();
  }
  data.finish();
  ConfigReader model(reader.required_node("model", "the layers"));
  OptionVisitor model_option = option_reader(model, no_classes);
  std::vector<std::int64_t> input;
  model_option.required("input", input, positive, "");
  for (const ConfigNode& layer : model.required_node("layers").elements()) read_object(layer, 1);
  model.finish();
  read_object(reader.required_node("loss"), 0);
  read_object(reader.required_node("optimizer"), 0);
  for (const ConfigNode& metric : reader.required_node("metrics").elements()) {
    read_object(metric, 0);
  }
  ConfigReader fit(reader.section("fit"));
  OptionVisitor fit_option = option_reader(fit, no_classes);
  std::int64_t epochs = 1;
  double split = 0;
  fit_option("epochs", epochs, at_least(0), "");
  fit_option("validation_split", split, between(0, 1), "");
  if (const auto callbacks = fit.node("callbacks")) {
    for (const ConfigNode& callback : callbacks->elements()) read_object(callback, 0);
  }
  fit.finish();
  (void)reader.node("checkpoint");
  (void)reader.node("log");
  reader.finish();
}

bool same(const ConfigNode& a, const ConfigNode& b) {
  if (a.is_null() || b.is_null()) return a.is_null() && b.is_null();
  if (a.is_scalar() || b.is_scalar()) {
    if (!a.is_scalar() || !b.is_scalar() || a.as<std::string>() != b.as<std::string>())
      return false;
    // A number, or a string that looks like one.
    return a.found() == b.found();
  }
  if (a.is_sequence() != b.is_sequence()) return false;
  if (a.is_sequence()) {
    const std::vector<ConfigNode> left = a.elements(), right = b.elements();
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!same(left[i], right[i])) return false;
    }
    return left.size() == right.size();
  }
  const std::vector<ConfigEntry> left = a.entries(), right = b.entries();
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (left[i].name != right[i].name || !same(left[i].value, right[i].value)) return false;
  }
  return left.size() == right.size();
}

enum class Outcome { read, refused, not_yaml };

// Reads `text`; throws whatever is not allowed to happen.
Outcome read(const std::string& text, const std::vector<ConfigOverride>& overrides) {
  Outcome outcome = Outcome::not_yaml;
  try {
    const ConfigNode root = parse_config(text, "fuzz.yaml", overrides);
    outcome = Outcome::refused;
    const std::string printed = to_yaml(root);
    if (!same(root, parse_config(printed, "printed.yaml"))) {
      throw std::logic_error("printed and read again it differs: " + printed);
    }
    walk(root);
    return Outcome::read;
  } catch (const Error& problem) {
    // A line each mistake.
    std::istringstream lines(problem.what());
    std::string line;
    int told = 0;
    if (!std::getline(lines, line)) throw std::logic_error("the message is empty");
    do {
      if (line.find('\r') != std::string::npos ||
          (!line.starts_with("fuzz.yaml:") && !line.starts_with("--set") &&
           !(line.starts_with("and ") && line.ends_with(" more")))) {
        throw std::logic_error("a line without a place: " + line);
      }
      ++told;
    } while (std::getline(lines, line));
    if (told > 21) throw std::logic_error("more mistakes than are told together");
    return outcome;
  }
}

struct Outcomes {
  std::map<Outcome, int> counts;

  void check(std::uint64_t seed, const std::string& text,
             const std::vector<ConfigOverride>& overrides) {
    const auto begin = std::chrono::steady_clock::now();
    std::string failure;
    try {
      ++counts[read(text, overrides)];
    } catch (const std::exception& problem) {
      failure = problem.what();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    // Milliseconds on an idle machine; the limit leaves room for one that is not.
    if (seconds.count() > 5) failure = "it took " + std::to_string(seconds.count()) + " s";
    if (failure.empty()) return;
    INFO("seed " << seed << "\n"
                 << text << "\noverride "
                 << (overrides.empty() ? "none" : overrides[0].assignment));
    FAIL(failure);
  }
};

}  // namespace

TEST_CASE("the examples themselves are read") {
  for (const std::string& example : examples) CHECK_NOTHROW(walk(parse_config(example, "a.yaml")));
}

TEST_CASE("a broken configuration is read or is an error, never anything else") {
  Outcomes outcomes;
  constexpr std::uint64_t count = 10000;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    test::Mutator mutator(seed);
    outcomes.check(seed, mutator.mutate(examples[seed % examples.size()]), {});
  }
  // The mutations reach every part: some texts stay good, some are refused by the reader, some are
  // no YAML.
  CHECK(outcomes.counts[Outcome::read] > 500);
  CHECK(outcomes.counts[Outcome::refused] > 500);
  CHECK(outcomes.counts[Outcome::not_yaml] > 500);
}

TEST_CASE("a broken override is applied or is an error, never anything else") {
  const std::vector<std::string> assignments = {
      "model.layers[1].Dense.units=5", "model.layers.d1.units=64", "optimizer.learning_rate=0.1",
      "layout.\"feature.*kernel\"=[~, [data, model]]", "fit={epochs: 3, callbacks: []}"};
  Outcomes outcomes;
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    test::Mutator mutator(seed);
    outcomes.check(seed, examples[0], {mutator.mutate(assignments[seed % assignments.size()])});
  }
  CHECK(outcomes.counts[Outcome::read] > 250);
  CHECK(outcomes.counts[Outcome::refused] > 250);
  CHECK(outcomes.counts[Outcome::not_yaml] > 250);
}

}  // namespace meshwork::fuzz_test
