// A simulation that trains a network on the fly: heat in a bar, whose cells the ranks share, and a
// surrogate that learns to take many small time steps at once.
//
//     mpirun -n 4 build/examples/heat_surrogate       # one bar on four ranks
//     mpirun -n 4 build/examples/heat_surrogate 2     # two bars on two ranks each, at the same time
//
// The program owns MPI and its domain. Each bar gives its communicator to a Runtime, and trains on the
// cells that each rank has, which are doubles and not equally many. Meshwork prints nothing here.
#include <meshwork/meshwork.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

using namespace meshwork;

namespace {

constexpr std::int64_t cells = 203;  // of the whole bar
constexpr int reach = 8;             // small steps that the surrogate takes at once
constexpr std::int64_t patch = 2 * reach + 1;
constexpr double diffusion = 0.2;  // of the explicit scheme, stable below 0.5

// This rank's cells of the bar, with `reach` cells of each neighbour around them.
class Bar {
 public:
  explicit Bar(MPI_Comm ranks) : ranks_(ranks) {
    MPI_Comm_rank(ranks, &rank_);
    MPI_Comm_size(ranks, &size_);
    first_ = rank_ * cells / size_;
    own_ = (rank_ + 1) * cells / size_ - first_;
    values_.assign(static_cast<std::size_t>(own_ + 2 * reach), 0.0);
    bring_borders();
  }
  [[nodiscard]] std::int64_t own() const { return own_; }
  [[nodiscard]] double own_cell(std::int64_t i) const { return values_[i + reach]; }

  // Heat that a lamp over the bar gives at time `step`.
  void heat(int step) {
    for (std::int64_t i = 0; i < own_; ++i) {
      const double at = static_cast<double>(first_ + i) / cells - 0.5 - 0.3 * std::sin(0.01 * step);
      values_[i + reach] += 0.1 * std::exp(-200 * at * at) * std::cos(0.05 * step);
    }
    bring_borders();
  }
  // `reach` steps of u' = u_xx with one exchange of borders; the ends of the bar stay at 0.
  void advance() {
    std::vector<double> next = values_;
    for (int step = 1; step <= reach; ++step) {
      for (std::size_t i = static_cast<std::size_t>(step); i + step < values_.size(); ++i) {
        const std::int64_t cell = first_ + static_cast<std::int64_t>(i) - reach;
        const bool inside = cell >= 0 && cell < cells;
        next[i] = inside
                      ? values_[i] + diffusion * (values_[i - 1] - 2 * values_[i] + values_[i + 1])
                      : 0.0;
      }
      values_ = next;
    }
    bring_borders();
  }
  // What the surrogate sees of each own cell: the cells that can reach it.
  [[nodiscard]] std::vector<double> patches() const {
    std::vector<double> all;
    for (std::int64_t i = 0; i < own_; ++i) {
      all.insert(all.end(), values_.begin() + i, values_.begin() + i + patch);
    }
    return all;
  }
  [[nodiscard]] std::vector<double> own_values() const {
    return {values_.begin() + reach, values_.end() - reach};
  }

 private:
  void bring_borders() {
    const int left = rank_ > 0 ? rank_ - 1 : MPI_PROC_NULL;
    const int right = rank_ + 1 < size_ ? rank_ + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(values_.data() + reach, reach, MPI_DOUBLE, left, 0, values_.data() + reach + own_,
                 reach, MPI_DOUBLE, right, 0, ranks_, MPI_STATUS_IGNORE);
    MPI_Sendrecv(values_.data() + own_, reach, MPI_DOUBLE, right, 0, values_.data(), reach,
                 MPI_DOUBLE, left, 0, ranks_, MPI_STATUS_IGNORE);
  }

  MPI_Comm ranks_;
  int rank_ = 0, size_ = 1;
  std::int64_t first_ = 0, own_ = 0;
  std::vector<double> values_;
};

// Simulates and trains; prints the surrogate's error from rank 0 of bar 0. Meshwork works inside `run`,
// where what fails on one rank throws on all of the bar; the program's own messages stay outside.
void simulate(MPI_Comm ranks, bool prints) {
  Bar bar(ranks);
  Runtime runtime(ranks);
  std::optional<DeviceMesh> mesh;
  std::optional<Model> model;
  runtime.run([&] {
    mesh.emplace(std::vector<MeshAxis>{{"data", -1}});
    auto input = Input({patch});
    auto x = Dense({.units = 32, .activation = Activation::tanh})(input);
    x = Dense({.units = 1})(x);
    model.emplace(input, x, DataParallel(*mesh), ModelOptions{.device = "cpu"});
    model->compile({.loss = MeanSquaredError(), .optimizer = Adam({.learning_rate = 3e-3})});
  });

  double loss = 0;
  for (int step = 0; step < 400; ++step) {
    bar.heat(step);
    const std::vector<double> before = bar.patches();
    bar.advance();
    const std::vector<double> after = bar.own_values();
    runtime.run([&] {
      loss =
          model
              ->train_local_step(
                  {.rows = bar.own(), .inputs = {std::span(before)}, .targets = {std::span(after)}})
              .at("loss");
    });
  }
  // The surrogate's next `reach` steps beside those of the scheme.
  bar.heat(400);
  const std::vector<double> before = bar.patches();
  std::vector<float> predicted;
  runtime.run([&] {
    predicted =
        model->predict_local_step({.rows = bar.own(), .inputs = {std::span(before)}, .targets = {}})
            .front();
  });
  bar.advance();
  double sums[2] = {0, 0};
  for (std::int64_t i = 0; i < bar.own(); ++i) {
    sums[0] += std::pow(predicted[static_cast<std::size_t>(i)] - bar.own_cell(i), 2);
    sums[1] += std::pow(bar.own_cell(i), 2);
  }
  MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, ranks);
  if (prints && runtime.is_root()) {
    std::printf("loss %.9g; the surrogate is %.2f %% off\n", loss,
                100 * std::sqrt(sums[0] / sums[1]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int bars = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  const int bar = rank * bars / size;
  MPI_Comm ranks = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, bar, rank, &ranks);
  try {
    simulate(ranks, bar == 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bar %d, rank %d: %s\n", bar, rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Comm_free(&ranks);
  MPI_Finalize();
}
