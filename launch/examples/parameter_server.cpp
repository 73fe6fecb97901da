// Training without steps in common: rank 0 keeps the weights, and every rank changes them when it has
// a gradient, which the weights have meanwhile moved away from. A linear model learns ten weights.
//
//     mpirun -n 4 build/examples/parameter_server [STEPS]
//
// Each rank asks for the next weights before it computes with those that it has, so that it never
// waits for long. Functions of a rank run one at a time: the server needs no lock.
#include <meshwork/meshwork.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <vector>

using namespace meshwork;

namespace {

constexpr std::size_t features = 10;
constexpr int rows = 32;  // of a batch
constexpr float learning_rate = 0.02f;

// Rank 0's: the weights, how often they have changed, and what each rank knows of that.
struct Server {
  std::vector<float> weights = std::vector<float>(features);
  std::int64_t version = 0;
  std::int64_t stalest = 0;
  std::vector<std::deque<std::int64_t>> pulled;  // by rank, for its next gradients
};

// The squared error's gradient at `weights`, of rows whose targets are sums with weights 1, 2, ...
std::vector<float> gradient_of(const std::vector<float>& weights, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> gradient(features);
  std::vector<float> row(features);
  for (int i = 0; i < rows; ++i) {
    std::generate(row.begin(), row.end(), [&] { return normal(random); });
    float error = 0;
    for (std::size_t f = 0; f < features; ++f) {
      error += row[f] * (weights[f] - static_cast<float>(f + 1));
    }
    for (std::size_t f = 0; f < features; ++f) gradient[f] += 2 * error * row[f] / rows;
  }
  return gradient;
}

}  // namespace

int main(int argc, char** argv) {
  Runtime runtime(argc, argv);
  const int steps = argc > 1 ? std::atoi(argv[1]) : 300;

  Server server;
  server.pulled.resize(static_cast<std::size_t>(runtime.size()));
  Rpc rpc(runtime.world(), {.seconds = 60});
  if (runtime.is_root()) {
    rpc.define("pull", [&](RpcCaller caller) {
      server.pulled[static_cast<std::size_t>(caller.rank)].push_back(server.version);
      return server.weights;
    });
    rpc.define("push", [&](RpcCaller caller, const std::vector<float>& gradient) {
      for (std::size_t f = 0; f < features; ++f) server.weights[f] -= learning_rate * gradient[f];
      std::deque<std::int64_t>& seen = server.pulled[static_cast<std::size_t>(caller.rank)];
      server.stalest = std::max(server.stalest, server.version++ - seen.front());
      seen.pop_front();
    });
  }
  rpc.open();

  std::mt19937 random(static_cast<unsigned>(7 + runtime.rank()));
  auto next = rpc.call<std::vector<float>>(0, "pull");
  for (int step = 0; step < steps; ++step) {
    const std::vector<float> weights = next.get();
    next = rpc.call<std::vector<float>>(0, "pull");
    // Nobody waits for it; what goes wrong, the next pull meets as well.
    static_cast<void>(rpc.call(0, "push", gradient_of(weights, random)));
  }
  rpc.close();  // when all gradients of all ranks have been taken

  if (runtime.is_root()) {
    float off = 0;
    for (std::size_t f = 0; f < features; ++f) {
      off = std::max(off, std::abs(server.weights[f] - static_cast<float>(f + 1)));
    }
    std::printf("%lld gradients, up to %lld updates old; the weights are right within %.3f\n",
                static_cast<long long>(server.version), static_cast<long long>(server.stalest),
                static_cast<double>(off));
  }
}
