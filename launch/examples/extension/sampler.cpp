// Sampler: ranks that act in an environment, while others learn from what happened there.
//
//     mpirun -n 4 meshwork train sampler.yaml
//
// The environment is a corridor of cells. From the last one comes a reward of 1, and the walk begins
// again at the first. A linear model learns how much each step is worth (Watkins and Dayan, Q-learning,
// 1992), to its left or right neighbour:
//
//     Q(cell, step) = reward + discount * max over steps of Q(next cell, step), 0 behind the last cell
//
//   Sample  a role: plays steps by the weights that it is given, and now and then any step.
//   Play    a callback: sends the weights to the samplers, and takes the steps of an epoch. While these
//           are learned from, the next ones are played, so the weights that play are an epoch old.
//   played  a data source: the steps, as samples.
#include <meshwork/extension.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/written_source.h"
#include "runtime/train/callbacks/callback.h"
#include "runtime/train/from_config.h"
#include "runtime/train/roles/role.h"
#include "runtime/train/roles/role_map.h"

namespace mine {

using namespace meshwork;

namespace {

constexpr std::size_t moves = 2;  // to the left, to the right
constexpr float discount = 0.9f;

// ---- the environment ----------------------------------------------------------------------------

struct SampleOptions {
  double exploration = 0.3;
};
template <class Visitor>
void describe(SampleOptions& options, Visitor& option) {
  option.about("plays steps in a corridor, for the callback Play");
  option("exploration", options.exploration, between(0, 1), "part of the steps that are random");
}

// A sample for each of `steps`: the cell, one-hot, and what Q should be there. Of the move that was not
// made that is what it was, so that nothing is learned of it.
std::vector<float> play(const std::vector<float>& q, std::int64_t steps, std::int64_t seed,
                        double exploration) {
  const std::size_t cells = q.size() / moves;
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<float> samples;
  std::size_t cell = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    const float* here = &q[moves * cell];
    const bool any = uniform(random) < exploration || here[0] == here[1];
    const bool right = any ? uniform(random) < 0.5 : here[1] > here[0];
    const std::size_t next = right ? cell + 1 : cell - std::min<std::size_t>(cell, 1);
    const bool is_end = next + 1 == cells;
    const float* there = &q[moves * next];
    for (std::size_t i = 0; i < cells; ++i) samples.push_back(i == cell ? 1.0f : 0.0f);
    const float worth = is_end ? 1.0f : discount * std::max(there[0], there[1]);
    samples.push_back(right ? here[0] : worth);
    samples.push_back(right ? worth : here[1]);
    cell = is_end ? 0 : next;
  }
  return samples;
}

class Sample final : public Role {
 public:
  explicit Sample(const SampleOptions& options) : options_(options) {}
  void run(RoleRun& run) const override {
    // In a thread of its own, where calls have threads. It uses nothing that changes.
    run.rpc.define("play",
                   [exploration = options_.exploration](const std::vector<float>& weights,
                                                        std::int64_t steps, std::int64_t seed) {
                     return play(weights, steps, seed, exploration);
                   });
    run.end.wait();
  }

 private:
  SampleOptions options_;
};

// ---- what is learned from -----------------------------------------------------------------------

// The steps of an epoch on this rank: the callback writes them, and the source reads them.
struct Played {
  std::mutex mutex;
  std::vector<float> samples;
};
Played& played() {
  static Played all;
  return all;
}

struct PlayedOptions {
  std::int64_t rows = 0, cells = 0;
};
template <class Visitor>
void describe(PlayedOptions& options, Visitor& option) {
  option.about("steps in a corridor that the callback Play fetches; needs data.prefetch: false");
  option.required("rows", options.rows, positive, "steps of an epoch");
  option.required("cells", options.cells, at_least(2), "length of the corridor");
}

class PlayedSource final : public Source {
 public:
  PlayedSource(std::string feature, const PlayedOptions& options)
      : Source(options.rows,
               {{.name = std::move(feature), .shape = {options.cells}},
                {.name = "targets", .shape = {std::int64_t{moves}}, .role = FieldRole::target}},
               "played"),
        cells_(options.cells) {
    const std::scoped_lock lock(played().mutex);
    played().samples.resize(static_cast<std::size_t>(options.rows * values_of_row()));
  }
  std::string fingerprint() const override {
    return fmt::format("played: {} rows, {} cells", rows(), cells_);
  }

 private:
  [[nodiscard]] std::int64_t values_of_row() const { return cells_ + std::int64_t{moves}; }
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override {
    const std::scoped_lock lock(played().mutex);
    const auto bytes = static_cast<std::size_t>(block[0].length()) * sizeof(float);
    for (const std::int64_t row : rows) {
      const std::int64_t at = row * values_of_row() + (field == 0 ? 0 : cells_) + block[0].begin;
      std::memcpy(destination, &played().samples[static_cast<std::size_t>(at)], bytes);
      destination += bytes;
    }
  }

  std::int64_t cells_;
};

std::shared_ptr<const Source> open_played(const ConfigNode& node, const PlayedOptions& options,
                                          const SourceContext& context) {
  if (context.inputs.size() != 1) node.fail("steps are of one input of the model");
  return std::make_shared<PlayedSource>(context.inputs[0], options);
}

// ---- between the two ----------------------------------------------------------------------------

struct PlayOptions {
  std::string kernel = "q/kernel";
};
template <class Visitor>
void describe(PlayOptions& options, Visitor& option) {
  option.about("has the role sample play the steps that are learned from");
  option("kernel", options.kernel, "the variable that says what each step is worth");
}

class Play final : public Callback {
 public:
  explicit Play(PlayOptions options) : options_(std::move(options)) {}
  std::string class_name() const override { return "Play"; }
  bool decides_alike() const override { return true; }
  bool waits_for_validation() const override { return false; }
  std::int64_t agreed_values() const override { return std::ssize(played().samples); }

  void on_epoch_begin(Training& training) override {
    if (training.rpc() == nullptr) {
      fail("Play: no rank plays; write roles, such as {{train: -1, sample: 1}}");
    }
    const TrainingPosition& at = training.position();
    if (at.epoch == at.first_epoch) ask(training);
    take(training);
    if (at.epoch + 1 < at.epochs) ask(training);
  }

  void on_train_end(Training& training) override {
    const std::vector<float> q = training.weights(options_.kernel);
    std::string way;
    for (std::size_t at = 0; at + moves < q.size(); at += moves) {
      way += q[at + 1] > q[at] ? '>' : '<';
    }
    training.say("the best step from each cell: " + way);
  }

 private:
  // Every rank calls it; the root has the weights.
  void ask(Training& training) {
    const std::vector<float> weights = training.weights(options_.kernel);
    if (!training.is_root()) return;
    const std::vector<int> samplers = training.roles()->ranks_of("sample");
    const auto count = std::ssize(samplers);
    const std::int64_t rows = std::ssize(played().samples) /
                              (std::ssize(weights) / std::int64_t{moves} + std::int64_t{moves});
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t steps = rows * (i + 1) / count - rows * i / count;
      answers_.push_back(training.rpc()->call<std::vector<float>>(
          samplers[static_cast<std::size_t>(i)], "play", weights, steps, asked_++));
    }
  }

  // The root's answers become the samples of all ranks.
  void take(Training& training) {
    std::vector<double> samples;
    for (RpcAnswer<std::vector<float>>& answer : answers_) {
      const std::vector<float> part = answer.get();
      samples.insert(samples.end(), part.begin(), part.end());
    }
    answers_.clear();
    samples.resize(played().samples.size());
    training.agree(samples);
    const std::scoped_lock lock(played().mutex);
    std::ranges::copy(samples, played().samples.begin());
  }

  PlayOptions options_;
  std::vector<RpcAnswer<std::vector<float>>> answers_;
  std::int64_t asked_ = 0;
};

}  // namespace

void add_sampler(Catalog& catalog) {
  catalog.add<SharedRole, SampleOptions>("Sample", {"sample"}, [](const SampleOptions& options) {
    return std::make_shared<const Sample>(options);
  });
  catalog.add<SharedCallback, PlayOptions>(
      "Play", {}, [](const PlayOptions& options) { return std::make_shared<Play>(options); });
  add_source<PlayedOptions>(catalog, "played", open_played);
}

}  // namespace mine
