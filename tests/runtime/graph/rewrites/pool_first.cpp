// Activations that stand in front of a maximum and are taken behind it.
#include "layers/activation.h"
#include "layers/convolution.h"
#include "layers/leaky_relu.h"
#include "layers/pooling.h"
#include "layers/relu.h"
#include "runtime/graph/rewrites/rewrites.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::pool_first_test {

using namespace meshwork::test;

namespace {

std::vector<std::string> paths_after(const Graph& graph, const std::string& laid_out = "") {
  const auto before = std::make_shared<const Graph>(graph);
  PlanRequest request{.graph = before.get(),
                      .losses = {},
                      .mesh = MeshShape({{"data", 2}}, 2),
                      .batch_axis = 0,
                      .closed = {},
                      .rows = 8,
                      .costs = {}};
  if (!laid_out.empty()) {
    request.closed[graph.find(laid_out)] = {
        resolve({"data", unsharded, unsharded, unsharded}, request.mesh, laid_out), laid_out};
  }
  const auto after = pool_first(request, before);
  CHECK(request.graph == after.get());
  std::vector<std::string> paths;
  for (const GraphOperation& operation : after->operations) {
    paths.push_back(operation.path);
    CHECK(after->tensors[operation.output].producer == static_cast<int>(paths.size()) - 1);
  }
  (void)make_plan(request, after);
  return paths;
}

using Paths = std::vector<std::string>;

SymbolicTensor pooled(const SymbolicTensor& x) {
  return MaxPooling2D({.name = "pool"})(x);
}

}  // namespace

TEST_CASE("a maximum is taken before an activation that keeps order") {
  const auto x = Input({4, 6, 3});
  const Paths swapped{"pool/maximum pooling", "act/rectifier"};
  CHECK(paths_after(make_graph({x}, {pooled(LeakyReLU({.name = "act"})(x))})) == swapped);
  for (const Activation activation :
       {Activation::relu, Activation::relu6, Activation::leaky_relu, Activation::hard_tanh}) {
    const std::string name(name_of(activation));
    const auto y = ActivationLayer({.name = "act", .activation = activation})(x);
    CHECK(paths_after(make_graph({x}, {pooled(y)})) ==
          Paths{"pool/maximum pooling", "act/" + name});
  }
  // What falls somewhere, or is computed to a rounding.
  for (const Activation activation : {Activation::silu, Activation::tanh}) {
    const std::string name(name_of(activation));
    const auto y = ActivationLayer({.name = "act", .activation = activation})(x);
    CHECK(paths_after(make_graph({x}, {pooled(y)})) ==
          Paths{"act/" + name, "pool/maximum pooling"});
  }
  const auto jump = ReLU({.name = "act", .threshold = 1})(x);
  CHECK(paths_after(make_graph({x}, {pooled(jump)})) ==
        Paths{"act/rectifier", "pool/maximum pooling"});
  const auto mean = AveragePooling2D({.name = "mean"})(LeakyReLU({.name = "act"})(x));
  CHECK(paths_after(make_graph({x}, {mean})) == Paths{"act/rectifier", "mean/average pooling"});
}

TEST_CASE("an activation that is seen, laid out or used otherwise stays in front of a maximum") {
  const auto x = Input({4, 6, 3});
  const auto act = LeakyReLU({.name = "act"})(x);
  const Paths kept{"act/rectifier", "pool/maximum pooling"};
  const auto y = pooled(act);
  CHECK(paths_after(make_graph({x}, {y, act})) == kept);
  CHECK(paths_after(make_graph({x}, {y}), "act/output") == kept);
  CHECK(paths_after(make_graph({x}, {y, ActivationLayer({.activation = Activation::relu})(act)}))
            .front() == "act/rectifier");
}

TEST_CASE("a network trains to the same bits with its maxima before its activations") {
  const auto train = [](const LayoutEntries& layouts) {
    DeviceMesh mesh = alone();
    const auto x = Input({11, 9, 2});
    auto y = Conv2D({.name = "conv", .filters = 3, .kernel_size = 2})(x);
    y = pooled(LeakyReLU({.name = "act"})(y));
    y = Conv2D({.name = "conv_2", .filters = 2, .kernel_size = 2})(y);
    y = MaxPooling2D({.name = "pool_2"})(ReLU({.name = "act_2"})(y));
    Model model(x, y, spread_over(mesh, layouts), {.seed = 3});
    model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.1})});
    const std::vector<float> features = random_floats(5 * 11 * 9 * 2, 1);
    const std::vector<float> targets = random_floats(5 * 2 * 1 * 2, 2);
    for (int step = 0; step < 5; ++step) {
      (void)model.train_step({.rows = 5, .inputs = {features}, .targets = {targets}});
    }
    return variables_of(model);
  };
  // A layout of the activation keeps it where it is.
  const TensorLayout whole{unsharded, unsharded, unsharded, unsharded};
  CHECK(train({}) == train({{"act(_2)?/output", whole}}));
}

}  // namespace meshwork::pool_first_test
