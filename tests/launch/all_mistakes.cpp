// All mistakes of one configuration come in one error, by their places, and no mistake makes others
// that are nobody's.
#include <mpi.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "launch/session.h"
#include "tests/support/catch.h"

namespace meshwork::all_mistakes_test {
namespace {

// The lines of what is wrong with `text`, or none if it could be trained.
std::vector<std::string> mistakes_in(const std::string& text) {
  const Communicator ranks = Communicator::world();
  if (ranks.rank() == 0) std::ofstream("mistakes.yaml", std::ios::binary) << text;
  MPI_Barrier(ranks.native());
  CommandLine line;
  line.config = "mistakes.yaml";
  int argc = 0;
  char** argv = nullptr;
  Runtime runtime(argc, argv);
  std::vector<std::string> lines;
  try {
    Session session(runtime, line);
    (void)session.open_training();
  } catch (const Error& error) {
    const std::string all = error.what();
    for (std::size_t begin = 0; begin <= all.size();) {
      const std::size_t end = std::min(all.find('\n', begin), all.size());
      lines.push_back(all.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  MPI_Barrier(ranks.native());
  return lines;
}

// Each line tells its place and what is said of it.
void require(const std::string& text, const std::vector<std::pair<std::string, std::string>>& all) {
  const std::vector<std::string> lines = mistakes_in(text);
  std::string shown;
  for (const std::string& line : lines) shown += line + "\n";
  INFO(shown);
  REQUIRE(lines.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].first << " " << all[i].second);
    CHECK(lines[i].find("mistakes.yaml:" + all[i].first) != std::string::npos);
    CHECK(lines[i].find(all[i].second) != std::string::npos);
  }
}

const std::string data = R"(data:
  train: {kind: synthetic, rows: 32, features: {kind: normal, shape: [4, 4]}, targets: {kind: classes, classes: 3}}
  batch_size: 8
)";

}  // namespace

TEST_CASE("mistakes of all sections are told together, by their places") {
  require(R"(seed: one
data:
  train: {kind: synthetic, rows: 32, features: {kind: normal, shape: [4, 4]}, targets: {kind: classes, classes: 3}}
  batchsize: 8
  shuffle: maybe
model:
  input: [4, 4]
  layers:
    - Flatten:
    - Dens: {name: d1, units: 5, activation: relu}
    - Dense: {name: d2, unit: 3, activation: rela}
loss: {SparseCategoricalCrossentropy: {from_logit: true}}
optimizer: {SGD: {learning_rate: fast, momentum: 2}}
metrics: [acuracy, mse, topp]
fit: {epochs: 0, callbacks: [{EarlyStoping: {}}, {CSVLogger: {filenam: log.csv}}]}
check_pan: true
)",
          {{"1:7", "\"one\""},
           {"4:3", "did you mean \"batch_size\"?"},
           {"5:12", "expected true or false"},
           {"10:7", "unknown layer \"Dens\""},
           {"11:25", "is \"unit\" meant for it?"},
           {"11:46", "did you mean \"relu\"?"},
           {"12:40", "did you mean \"from_logits\"?"},
           {"13:34", "\"fast\""},
           {"13:50", "between 0 and 1"},
           {"14:11", "\"acuracy\""},
           {"14:25", "\"topp\""},
           {"15:15", "expected a positive integer"},
           {"15:31", "did you mean \"EarlyStopping\"?"},
           {"15:63", "\"filenam\""},
           {"16:1", "did you mean \"check_plan\"?"}});
}

TEST_CASE("layers after a wrong one are not judged by it") {
  require(data + R"(model:
  input: [4, 4]
  layers:
    - Dense: {name: a, units: none}
    - Dense: {name: b, units: 3, inputs: a}
    - Add: {inputs: [a, b, c]}
    - Dense: {name: b, units: 3, activation: gello}
loss: mse
)",
          {{"7:31", "expected a positive integer"},
           {"9:28", "unknown layer or input \"c\""},
           {"10:21", "a layer \"b\" already"},
           {"10:46", "did you mean \"gelu\"?"}});
}

TEST_CASE("a model without inputs has no other mistake than that") {
  require(data + R"(model:
  layers:
    - Flatten: {inputs: left}
    - Dense: {name: d, units: 3}
loss: {SparseCategoricalCrossentropy: {from_logits: true}}
)",
          {{"5:3", "key \"input\" is missing"}});
}

TEST_CASE("mesh, layouts, data, metrics and callbacks that do not fit are told together") {
  require(R"(mesh: {data: -1, model: 1}
layout:
  d1/kernel: [~, modl]
  d1/bias: [model, model]
batch_axis: dat
data:
  train: {kind: synthetic, rows: 32, features: {kind: normal, shape: [4, 4]}, targets: {kind: classes, classes: 3}}
  validation: {kind: idx, images: nowhere, labels: nowhere}
  test: {kind: synthetic, rows: 32, features: {kind: normal, shape: [4, 5]}, targets: {kind: classes, classes: 3}}
  batch_size: 8
model:
  input: [4, 4]
  layers:
    - Flatten:
    - Dense: {name: d1, units: 3}
loss: {SparseCategoricalCrossentropy: {from_logits: true}}
metrics: [accuracy]
fit: {callbacks: [{CSVLogger: {filename: nowhere/log.csv}}, {EarlyStopping: {monitor: los}}]}
)",
          {{"3:3", "did you mean \"model\"?"},
           {"4:3", "\"model\""},
           {"5:13", "\"dat\""},
           {"8:15", "nowhere"},
           {"9:9", "(4, 5)"},
           {"18:19", "there is no folder nowhere"},
           {"18:61", "did you mean \"loss\"?"}});
}

TEST_CASE("what is wrong within sources is told beside all else") {
  require(R"(data:
  train: {kind: nppy, features: x.npy, targets: y.npy}
  validation: {kind: npy, featurs: x.npy, targets: y.npy}
  test: {kind: synthetic, rows: none, features: {kind: normal, shape: [4]}}
  batch_size: 8
model: {input: [4], layers: [{Dense: {units: 0}}]}
loss: msee
)",
          {{"2:17", "nppy"},
           {"3:27", "is \"featurs\" meant for it?"},
           {"4:33", "expected a positive integer"},
           {"6:46", "expected a positive integer"},
           {"7:7", "did you mean \"mse\"?"}});
}

TEST_CASE("an input of more elements than there can be is told with its place") {
  require(data +
              "model: {input: [9223372036854775807, 9223372036854775807], layers: [{Dense: {units: "
              "1}}]}\n",
          {{"4:16", "more than 2^48 elements"}});
}

TEST_CASE("variables and values that there cannot be are told at their layers") {
  const std::string layers = R"(model:
  input: {shape: [4, 4]}
  layers:
)";
  require(
      data + layers + "    - Dense: {units: 2000000000000000}\n",
      {{"7:7", "its variable \"kernel\": a tensor of shape (4, 2000000000000000) has more than"}});
  require(
      data + layers + "    - Conv1D: {filters: 4, kernel_size: 1, kernel_initializer: identity}\n",
      {{"7:7", "its variable \"kernel\": an identity is a matrix"}});
  require(data + layers + R"(    - ZeroPadding1D: {padding: 16000000}
    - Dense: {units: 16000000}
)",
          {{"8:7", "(32000004, 16000000) has more than 2^48 elements"}});
}

TEST_CASE("dimensions that predictions lack are told at the loss") {
  require(data + R"(model:
  input: [4, 4]
  layers: [{Flatten: }, {Dense: {units: 1, activation: sigmoid}}]
loss: {Dice: {axis: [3]}}
)",
          {{"7:7", "axis: predictions of 2 dimensions have no dimension 3"}});
}

TEST_CASE("data without targets have no other mistake than that") {
  require(R"(data:
  train: {kind: synthetic, rows: 32, features: {kind: normal, shape: [4]}}
  batch_size: 8
model: {input: [4], layers: [{Dense: {units: 3}}]}
loss: {SparseCategoricalCrossentropy: {from_logits: true}}
metrics: [accuracy]
fit: {callbacks: [{EarlyStopping: {monitor: loss}}]}
)",
          {{"2:10", "has no targets"}});
}

TEST_CASE("of many mistakes the first are shown, and how many more there are") {
  std::string text = data + "model: {input: [4], layers: [Flatten]}\n";
  for (int i = 0; i < 25; ++i) text += "k" + std::to_string(i) + ": 1\n";
  const std::vector<std::string> lines = mistakes_in(text);
  REQUIRE(lines.size() == 21);
  CHECK(lines.front().starts_with("mistakes.yaml:5:1: "));
  CHECK(lines[19].starts_with("mistakes.yaml:24:1: "));
  CHECK(lines.back() == "and 5 more");
}

}  // namespace meshwork::all_mistakes_test
