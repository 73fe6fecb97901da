// The narrow copies of variables (runtime/graph/parameters.h): after every step, and whoever else
// has written, they are the values rounded, on every rank that sees them; and they are where
// products can read variables, and nowhere else.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "layers/batch_normalization.h"
#include "layers/dense.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/narrowing.h"
#include "runtime/shape/block_parts.h"
#include "runtime/train/engine/engine.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/rmsprop.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/apart_device.h"
#include "tests/support/cpu_behind.h"
#include "tests/support/one_rank.h"
#include "tests/support/plans.h"

namespace meshwork::narrow_copies_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t rows = 24;

// The CPU, whatever its instructions: products read narrow operands there too.
class Narrowing final : public CpuBehind {
 public:
  explicit Narrowing(bool narrows = true) : CpuBehind({.reads_narrow_operands = narrows}, {}) {}
};

// 12 -> 40 -> 8
Trained network(const Optimizer& optimizer = SGD({.learning_rate = 0.05})) {
  return {.build =
              [](const SymbolicTensor& x) {
                return Dense({.name = "d2", .units = 8})(
                    Dense({.name = "d1", .units = 40, .activation = Activation::relu})(x));
              },
          .optimizer = optimizer};
}

struct Setting {
  const char* axis;
  LayoutEntries layouts;
  const char* batch_axis;
};
const Setting replicated{"data", {}, "data"};
const Setting fully_sharded{
    "data", {{".*/kernel", {"data", unsharded}}, {".*/bias", {"data"}}}, "data"};
const Setting half_sharded{"data", {{"d1/kernel", {"data", unsharded}}}, "data"};
const Setting by_model{"model",
                       {{"d1/kernel", {unsharded, "model"}},
                        {"d1/bias", {"model"}},
                        {"d2/kernel", {"model", unsharded}}},
                       ""};

// All ranks on one node, or two on each.
class Nodes {
 public:
  explicit Nodes(bool several) {
    if (several) {
      CHECK(::setenv("MESHWORK_RANKS_A_NODE", "2", 1) == 0);
    }
  }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;
  ~Nodes() { ::unsetenv("MESHWORK_RANKS_A_NODE"); }
};

class Ranks {
 public:
  Ranks(Device& device, const Setting& setting, const Trained& training,
        Precision precision = Precision::bfloat16)
      : device_(device),
        mesh_({{setting.axis, -1}}),
        transport_(make_transport("auto", mesh_.all(), &device.queues())),
        engine_(mesh_, device, *transport_,
                plan_of(training, mesh_.shape(), setting.layouts, setting.batch_axis, rows), 1,
                training.optimizer.update_rule(), nullptr, nullptr, precision) {}

  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] bool joins_blocks() {
    return std::ranges::any_of(engine_.parameters().form().groups, [](const ParameterGroup& group) {
      return group.home == Home::joined;
    });
  }

  // Sets all variables.
  void write(unsigned seed) {
    const std::vector<Variable>& variables = engine_.plan().graph->variables;
    for (std::size_t v = 0; v < variables.size(); ++v) {
      const std::int64_t count = element_count(variables[v].options.shape);
      engine_.set(static_cast<int>(v), random_floats(count, seed));
    }
  }

  // Gives the loss.
  double take_step(int number) {
    Step& step = engine_.step({Mode::train, rows});
    const Graph& graph = *engine_.plan().graph;
    for (std::size_t part = 0; part < step.fed_parts().size(); ++part) {
      const auto& [id, of_rank] = step.fed_parts()[part];
      const std::int64_t count = size_of(of_rank);
      std::vector<float> block = random_floats(count, static_cast<unsigned>(number) + 1);
      if (graph.tensors[id].role == TensorRole::target) {
        std::fill(block.begin(), block.end(), static_cast<float>(number % 4));
      }
      step.feed(part, block.data());
    }
    step.run({number, 0.05F});
    return step.sums()[0];
  }

  // How many elements of narrow copies this rank sees; all are those of the values, rounded.
  std::int64_t check_copies() {
    engine_.meet();  // of joined blocks, whose next readers would wait
    const Parameters& parameters = engine_.parameters();
    std::int64_t seen = 0;
    for (int g = 0; g < static_cast<int>(parameters.form().groups.size()); ++g) {
      const ParameterGroup& group = parameters.form().groups[static_cast<std::size_t>(g)];
      const Parameters::Group& memory = parameters.group(g);
      CHECK((memory.narrow.data() != nullptr) == group.narrowed);
      if (group.narrowed) {
        seen += check_copy(memory.values, memory.narrow);
      }
    }
    engine_.meet();  // nobody writes before all have looked
    return seen;
  }

 private:
  std::int64_t check_copy(const Memory& values, const Memory& copy) {
    std::vector<float> wide(static_cast<std::size_t>(values.bytes() / 4));
    std::vector<std::uint16_t> narrow(wide.size());
    REQUIRE(copy.bytes() == std::ssize(narrow) * 2);
    device_.copy_out(wide.data(), values.data(), values.bytes());
    device_.copy_out(narrow.data(), copy.data(), copy.bytes());
    std::vector<std::uint16_t> rounded(wide.size());
    std::transform(wide.begin(), wide.end(), rounded.begin(), narrowed);
    CHECK(narrow == rounded);
    return std::ssize(narrow);
  }

  Device& device_;
  DeviceMesh mesh_;
  std::unique_ptr<Transport> transport_;
  Engine engine_;
};

std::int64_t narrowings_in(Step& step) {
  const std::vector<std::string>& labels = step.program().labels();
  return std::count_if(labels.begin(), labels.end(), [](const std::string& label) {
    return label.find(": narrow ") != label.npos;
  });
}

}  // namespace

TEST_CASE("narrow copies are the values rounded after every step") {
  const Nodes nodes(GENERATE(false, true));
  Narrowing host;
  const auto apart = make_apart_device({});
  for (Device* device : {static_cast<Device*>(&host), apart.get()}) {
    for (const Setting& setting : {replicated, fully_sharded, half_sharded, by_model}) {
      for (const Optimizer& optimizer :
           {Optimizer(SGD({.learning_rate = 0.05})), Optimizer(SGD({.momentum = 0.9})),
            Optimizer(Adam()), Optimizer(Adam({.amsgrad = true, .global_clipnorm = 0.1})),
            Optimizer(RMSprop({.momentum = 0.5, .centered = true}))}) {
        INFO(device->description() << ", " << setting.axis << ", " << optimizer.class_name());
        Ranks ranks(*device, setting, network(optimizer));
        // Of weights that are all gathered to another place there is nothing to keep.
        const bool gathers = setting.layouts == fully_sharded.layouts &&
                             Communicator::world().size() > 1 && !ranks.joins_blocks();
        CHECK((ranks.check_copies() > 0) == !gathers);
        for (int step = 0; step < 3; ++step) {
          ranks.take_step(step);
          CHECK((ranks.check_copies() > 0) == !gathers);
        }
      }
    }
  }
}

TEST_CASE("narrow copies follow whoever writes variables between steps") {
  const Nodes nodes(GENERATE(false, true));
  Narrowing device;
  for (const Setting& setting : {replicated, half_sharded, by_model}) {
    INFO(setting.axis);
    Ranks ranks(device, setting, network());
    ranks.take_step(0);
    ranks.write(7);
    CHECK(ranks.check_copies() > 0);
    Parameters& parameters = ranks.engine().parameters();
    std::vector<float> values(static_cast<std::size_t>(parameters.form().trainable_count));
    std::vector<float> rest(static_cast<std::size_t>(parameters.form().fixed_count));
    parameters.read_values(values, rest);
    for (float& value : values) value *= 1.01F;
    ranks.engine().meet();
    parameters.write_values(values, rest);
    CHECK(ranks.check_copies() > 0);
    ranks.take_step(1);
    ranks.check_copies();
  }
}

TEST_CASE("steps on narrow copies give the numbers of steps that round weights themselves") {
  const Nodes nodes(GENERATE(false, true));
  Narrowing keeping, rounding(false);
  for (const Setting& setting : {replicated, fully_sharded, half_sharded, by_model}) {
    INFO(setting.axis);
    Ranks kept(keeping, setting, network()), rounded(rounding, setting, network());
    REQUIRE(rounded.check_copies() == 0);
    for (int step = 0; step < 6; ++step) {
      // As in precision.cpp; where there are no instructions for such products, the same bits.
      CHECK(kept.take_step(step) == Approx(rounded.take_step(step)).epsilon(2e-3));
      if (step == 3) {
        kept.write(4);
        rounded.write(4);
      }
    }
  }
}

TEST_CASE("what a step narrows is what no copy holds") {
  const Nodes nodes(GENERATE(false, true));
  Narrowing host;
  const auto apart = make_apart_device({});
  const auto count = [](Ranks& ranks, Mode mode) {
    return narrowings_in(ranks.engine().step({mode, rows}));
  };
  // Forward the input of each layer, backward the gradients of both outputs. Both kernels are kept:
  // that of d2 begins its group, d1's comes after 328 floats, a multiple of 8.
  for (Device* device : {static_cast<Device*>(&host), apart.get()}) {
    Ranks ranks(*device, replicated, network());
    CHECK(count(ranks, Mode::evaluate) == 2);
    CHECK(count(ranks, Mode::train) == 4);
    Ranks wide(*device, replicated, network(), Precision::float32);
    CHECK(count(wide, Mode::train) == 0);
  }
  if (Communicator::world().size() == 1) return;
  // Joined blocks are read where they stand. Gathered ones are narrowed after each gathering, lest
  // a rank keeps more of them than a layer needs.
  Ranks sharers(host, fully_sharded, network()), others(*apart, fully_sharded, network());
  CHECK(count(sharers, Mode::train) == (sharers.joins_blocks() ? 4 : 7));
  CHECK(count(others, Mode::train) == 7);
}

TEST_CASE("of a kernel whose own block is read too, that is narrowed unless it begins in a line") {
  // Columns of z are split as rows of the kernel are: there a rank multiplies with its own rows.
  Trained training = network();
  training.build = [](const SymbolicTensor& x) {
    const auto shared = Dense({.name = "s", .units = 5, .use_bias = false});
    return Dense({.name = "d2", .units = 8})(shared(Dense({.name = "z", .units = 12})(shared(x))));
  };
  Narrowing keeping, rounding(false);
  const Setting setting{
      "data", {{"s/kernel", {"data", unsharded}}, {"z/output", {unsharded, "data"}}}, "data"};
  Ranks kept(keeping, setting, training), rounded(rounding, setting, training);
  for (int step = 0; step < 3; ++step) {
    CHECK(kept.take_step(step) == Approx(rounded.take_step(step)).epsilon(2e-3));
  }
  kept.check_copies();
  for (const ParameterGroup& group : kept.engine().parameters().form().groups) {
    if (group.home != Home::joined || group.count == 0) continue;
    const std::vector<std::string>& labels =
        kept.engine().step({Mode::train, rows}).program().labels();
    const bool narrows = std::ranges::any_of(labels, [&](const std::string& label) {
      return label.ends_with(": narrow " + std::to_string(group.count));
    });
    CHECK(narrows == (group.own_begin * bfloat16_bytes % narrow_alignment != 0));
  }
}

TEST_CASE("variables that no product reads have no narrow copy") {
  Narrowing device;
  Trained training = network();
  training.build = [](const SymbolicTensor& x) { return BatchNormalization({.name = "b"})(x); };
  Ranks ranks(device, replicated, training);
  CHECK(ranks.check_copies() == 0);
}

TEST_CASE("ranks of which one does not read narrow operands keep no copies") {
  if (Communicator::world().size() == 1) return;
  const bool narrows = Communicator::world().rank() != 0;
  Narrowing device(narrows);
  for (const Setting& setting : {replicated, fully_sharded}) {
    Ranks ranks(device, setting, network());
    ranks.take_step(0);
    CHECK(ranks.check_copies() == 0);
    const std::int64_t both_passes = setting.layouts.empty() ? 6 : 7;  // of gathered weights twice
    CHECK(narrowings_in(ranks.engine().step({Mode::train, rows})) == (narrows ? both_passes : 0));
  }
}

}  // namespace meshwork::narrow_copies_test
