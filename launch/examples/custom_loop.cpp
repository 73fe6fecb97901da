// A training loop of one's own: batches that the program makes, a step at a time, and a rate that
// it sets itself. The network learns to add up its inputs.
//
//     mpirun -n 2 build/examples/custom_loop [STEPS]
#include <meshwork/meshwork.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>

using namespace meshwork;

namespace {

constexpr std::int64_t rows = 64;
constexpr std::int64_t features = 8;

// A whole global batch. Every rank makes the same one, from the same generator, and the model takes
// of it what its ranks need.
struct Batch {
  std::vector<float> inputs = std::vector<float>(rows * features);
  std::vector<float> targets = std::vector<float>(rows);

  explicit Batch(std::mt19937& random) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (std::int64_t row = 0; row < rows; ++row) {
      float* sample = &inputs[row * features];
      std::generate(sample, sample + features, [&] { return uniform(random); });
      targets[row] = std::accumulate(sample, sample + features, 0.0f);
    }
  }
  [[nodiscard]] BatchView view() const { return {rows, {inputs}, {targets}}; }
};

}  // namespace

int main(int argc, char** argv) {
  Runtime runtime(argc, argv);
  const int steps = argc > 1 ? std::atoi(argv[1]) : 300;

  DeviceMesh mesh({{"data", -1}});
  auto input = Input({features});
  auto x = Dense({.units = 32, .activation = Activation::tanh})(input);
  x = Dense({.units = 1})(x);
  Model model(input, x, DataParallel(mesh));
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.1})});

  std::mt19937 random(3);
  const Batch held_out(random);
  for (int step = 1; step <= steps; ++step) {
    const Batch batch(random);
    const Logs logs = model.train_step(batch.view());
    if (step == steps / 2) {
      model.optimizer().set_learning_rate(0.02);
    }
    if (step % 50 == 0) {
      const Logs unseen = model.evaluate_step(held_out.view());
      if (runtime.is_root()) {
        std::printf("step %d - loss: %.4f - on other data: %.4f\n", step, logs.at("loss"),
                    unseen.at("loss"));
      }
    }
  }
}
