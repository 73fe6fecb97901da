// Milliseconds a step of the dense network of configs/fashion_mnist_mlp.yaml, beside the time that
// its matrix products alone take on the same device, in the same run.
//
//   mpirun -n 1 build/benchmarks/mlp_step [BATCH [STEPS [COLLECTIVES]]]
//   mpirun -n 2 build/benchmarks/mlp_step 64 400 mpi
//
// Synthetic bytes take the place of the images: the arithmetic is the same. A step is what `fit`
// does: reading ahead, the copy to the device, forward, backward, reduction, update, logs. Steps
// and products are timed in turn, and medians are printed, because machines are noisy.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "layers/dense.h"
#include "layers/flatten.h"
#include "layers/rescaling.h"
#include "runtime/data/synthetic.h"
#include "runtime/data/views.h"
#include "runtime/train/losses/sparse_categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizers/adam.h"

using namespace meshwork;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// Collects the time of every step.
class StepTimes final : public Callback {
 public:
  std::string class_name() const override { return "StepTimes"; }
  bool decides_alike() const override { return true; }
  void on_train_batch_end(Training&) override {
    const double time = now();
    if (last_ > 0) {
      seconds.push_back(time - last_);
    }
    last_ = time;
  }
  void on_epoch_end(Training&) override { last_ = 0; }
  std::vector<double> seconds;

 private:
  double last_ = 0;
};

// The products of one step for `rows` rows, one after the other.
class Products {
 public:
  Products(Device& device, std::int64_t rows) : device_(device) {
    const std::int64_t widths[] = {784, 256, 256, 10};
    for (int layer = 0; layer < 3; ++layer) {
      const std::int64_t in = widths[layer];
      const std::int64_t out = widths[layer + 1];
      add({.m = rows, .n = out, .k = in});                       // y = x w
      add({.m = in, .n = out, .k = rows, .transpose_a = true});  // dw = x' dy
      if (layer > 0) {
        add({.m = rows, .n = in, .k = out, .transpose_b = true});  // dx = dy w'
      }
    }
  }
  void run() {
    for (Product& product : products_) {
      product.kernel->run(product.operands.data());
    }
    device_.synchronize();
  }

 private:
  struct Product {
    std::unique_ptr<Kernel> kernel;
    std::vector<Memory> memory;
    std::vector<void*> operands;
  };
  void add(const MatmulSpec& spec) {
    Product product;
    product.kernel = device_.compile(spec);
    for (const std::int64_t count : {spec.m * spec.k, spec.k * spec.n, spec.m * spec.n}) {
      product.memory.push_back(device_.allocate(count * 4));
    }
    product.memory.push_back(device_.allocate(product.kernel->workspace_bytes()));
    for (const Memory& memory : product.memory) {
      product.operands.push_back(memory.data());
    }
    products_.push_back(std::move(product));
  }
  Device& device_;
  std::vector<Product> products_;
};

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment environment(&argc, &argv);
  const std::int64_t batch = argc > 1 ? std::atoll(argv[1]) : 64;
  const std::int64_t steps = argc > 2 ? std::atoll(argv[2]) : 400;
  const std::string collectives = argc > 3 ? argv[3] : "auto";
  const Communicator world = Communicator::world();
  DeviceMesh mesh({{"data", -1}});

  auto source = cached(
      std::make_shared<SyntheticSource>(batch * steps,
                                        std::vector<SyntheticField>{{"images",
                                                                     {28, 28},
                                                                     ElementType::uint8,
                                                                     FieldRole::feature,
                                                                     SyntheticKind::uniform,
                                                                     0,
                                                                     255},
                                                                    {.name = "labels",
                                                                     .shape = {},
                                                                     .type = ElementType::uint8,
                                                                     .role = FieldRole::target,
                                                                     .kind = SyntheticKind::classes,
                                                                     .classes = 10}},
                                        1));
  const auto input = Input({28, 28});
  auto x = Flatten()(Rescaling({.scale = 1.0 / 255})(input));
  x = Dense({.units = 256, .activation = Activation::relu})(x);
  x = Dense({.units = 256, .activation = Activation::relu})(x);
  x = Dense({.units = 10})(x);
  Model model(input, x, DataParallel(mesh), {.collectives = collectives});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = Adam({.learning_rate = 1e-3}),
                 .metrics = {SparseCategoricalAccuracy()}});

  const Communicator node = world.split_by_node();
  const auto device = make_device({"auto", node.size(), node.rank()});
  Products products(*device, block_range(batch, world.size(), world.rank()).length());
  // The first epoch fills the cache; then epochs and products in turn.
  FitOptions options{
      .epochs = 1, .batch_size = batch, .shuffle = false, .verbose = Verbosity::silent};
  (void)model.fit(source, options);
  const auto times = std::make_shared<StepTimes>();
  options.callbacks = {times};
  std::vector<double> alone;
  for (int round = 0; round < 5; ++round) {
    (void)model.fit(source, options);
    for (int i = 0; i < 50; ++i) {
      const double begin = now();
      products.run();
      alone.push_back(now() - begin);
    }
  }
  if (world.rank() == 0) {
    const double step = median(times->seconds);
    const double product = median(alone);
    std::printf(
        "ranks %d, collectives %s, batch %lld: %.3f ms a step (median of %zu), %.0f samples/s; its "
        "matrix products alone %.3f ms; ratio %.2f\n",
        world.size(), collectives.c_str(), static_cast<long long>(batch), step * 1e3,
        times->seconds.size(), static_cast<double>(batch) / step, product * 1e3, step / product);
  }
}
