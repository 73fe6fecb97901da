// Networks, meshes and layouts drawn at random: a run on any mesh equals the run on one rank, and
// sends what was planned (`check_plan`).
//
//     MESHWORK_RANDOM_FIRST=1000 MESHWORK_RANDOM_COUNT=500 mpirun -n 4 test_layers_random_networks
//
// tries others than the few that the suite has time for.
//
// Tolerance: what three updates changed of a variable, relative to the largest change of it. Sums
// of some hundred float32 products in another order differ by 1e-6 of it, which a few layers and
// normalizations let grow a hundred times. Biases that a normalization takes away again have
// gradients of nothing but rounding: these change by 1e-5.
#include <cstdlib>

#include "layers/pages.h"
#include "runtime/config/load.h"
#include "runtime/pages.h"
#include "runtime/train/run_config.h"
#include "tests/support/one_rank.h"
#include "tests/support/random_run.h"
#include "tests/support/repeated_layer.h"

namespace meshwork::random_networks_test {

using namespace meshwork::test;

namespace {

RunConfig read(const std::string& text) {
  Catalog catalog;
  add_runtime(catalog);
  add_layers(catalog);
  add_repeated(catalog);
  return {parse_config(text, "random.yaml"), catalog};
}

std::vector<std::pair<std::string, std::size_t>> paths_of(const std::string& text) {
  const RunConfig run = read(text);
  std::vector<std::pair<std::string, std::size_t>> paths;
  for (const std::string& path : run.graph().layout_paths()) {
    paths.emplace_back(path, run.graph().tensors[run.graph().find(path)].shape.size());
  }
  return paths;
}

struct Outcome {
  std::vector<std::vector<float>> first, last;
  std::map<std::string, std::vector<double>> history;
  Logs evaluated;
  std::vector<float> predicted;
  bool decided = true;  // whether no two classes of a prediction are so close that rounding decides
};

bool decided(std::span<const float> predictions, std::size_t classes) {
  for (; classes > 1 && !predictions.empty(); predictions = predictions.subspan(classes)) {
    std::vector<float> values(predictions.begin(),
                              predictions.begin() + static_cast<std::ptrdiff_t>(classes));
    std::sort(values.begin(), values.end());
    for (std::size_t i = 1; i < classes; ++i) {
      if (values[i] - values[i - 1] < 1e-4f) {
        return false;
      }
    }
  }
  return true;
}

Outcome train(const std::string& text, DeviceMesh& mesh) {
  const RunConfig run = read(text);
  const TrainingData data = run.open_training();
  Model model = run.make_model(mesh);
  Outcome outcome;
  outcome.first = variables_of(model);
  outcome.history = model.fit(data.training, run.fit_options()).history;
  outcome.last = variables_of(model);
  outcome.evaluated = model.evaluate(data.training, {.batch_size = run.batch_size() + 1});
  outcome.predicted = model.predict(data.training, {.batch_size = run.batch_size()});
  outcome.decided =
      decided(outcome.predicted, static_cast<std::size_t>(model.output_shapes().front().back()));
  return outcome;
}

// "" or where `found` differs by more than `relative` of the largest of `expected`, and a bit.
std::string apart(std::span<const float> found, std::span<const float> expected, double relative,
                  double absolute) {
  double largest = 0;
  for (const float value : expected) {
    largest = std::max(largest, std::abs(double{value}));
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double distance = std::abs(double{found[i]} - double{expected[i]});
    if (!(distance <= relative * largest + absolute)) {
      return fmt::format("element {} is {}, expected {}; largest {}", i, found[i], expected[i],
                         largest);
    }
  }
  return "";
}

std::vector<float> change(const std::vector<float>& from, const std::vector<float>& to) {
  std::vector<float> change;
  for (std::size_t i = 0; i < from.size(); ++i) {
    change.push_back(to[i] - from[i]);
  }
  return change;
}

void compare(const Outcome& found, const Outcome& one) {
  REQUIRE(found.first == one.first);
  for (std::size_t v = 0; v < one.last.size(); ++v) {
    INFO("variable " << v);
    CHECK(apart(change(found.first[v], found.last[v]), change(one.first[v], one.last[v]), 1e-3,
                5e-5) == "");
  }
  CHECK(apart(found.predicted, one.predicted, 1e-3, 1e-5) == "");
  for (const auto& [name, values] : one.history) {
    if (name != "loss" && !one.decided) {
      continue;
    }
    for (std::size_t epoch = 0; epoch < values.size(); ++epoch) {
      INFO(name << " of epoch " << epoch);
      CHECK(found.history.at(name)[epoch] == Approx(values[epoch]).epsilon(1e-4).margin(1e-5));
    }
  }
  if (one.decided) {
    CHECK(difference(found.evaluated, one.evaluated, 1e-3) == "");
  } else {
    CHECK(found.evaluated.at("loss") == Approx(one.evaluated.at("loss")).epsilon(1e-3));
  }
}

std::int64_t number(const char* variable, std::int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoll(text);
}

// Places that were drawn cannot always be: a normalization that is called at several of them has
// statistics at each, and what a layer gives that is called again may go back to a stage.
bool is_of_places(const Error& error) {
  const std::string_view why = error.what();
  return why.find("place them together") != std::string_view::npos ||
         why.find("of a pipeline go") != std::string_view::npos;
}

// On meshes that need not be there.
void compare_ranks(const RandomRun& run, std::int64_t ranks) {
  const RunConfig config = read(run.on_mesh);
  const std::shared_ptr<const Source> source = config.open(DataPart::train);
  const MeshShape mesh = config.mesh_shape(ranks);
  Blueprint blueprint = config.blueprint(mesh);
  for (const Mode mode : {Mode::train, Mode::evaluate, Mode::predict}) {
    // A plan for whole batches also serves the short last one.
    const Plan& plan = config.plan(blueprint, *source, config.batch_size(), mode);
    for (const std::int64_t rows : {config.batch_size(), std::int64_t{1}}) {
      // By the part of the mesh that runs the same operations; and messages between parts, by who
      // sends and who receives.
      std::map<std::int64_t, std::vector<std::string>> of_parts;
      std::map<std::string, int> sent, expected;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        std::vector<std::string> all;
        for (const CollectiveRecord& record :
             config.report(plan, *source, rows, mode, rank).collectives) {
          const std::string entry = describe(record, mesh);
          if (record.axes != plan.placing || record.collective != "exchange") {
            all.push_back(entry);
            continue;
          }
          const auto between = [&](std::int64_t from, std::int64_t to) {
            return fmt::format("{} -> {}: {}", from, to, entry);
          };
          for (const int peer : record.sends_to) {
            ++sent[between(rank, mesh.neighbour(rank, record.axes, peer))];
          }
          for (const int peer : record.receives_from) {
            ++expected[between(mesh.neighbour(rank, record.axes, peer), rank)];
          }
        }
        const auto [part, added] =
            of_parts.try_emplace(mesh.index_over(rank, plan.placing), std::move(all));
        if (!added) {
          INFO("rank " << rank << ", " << rows << " rows, " << name_of(mode));
          CHECK(all == part->second);
        }
      }
      CHECK(sent == expected);
    }
  }
}

}  // namespace

TEST_CASE("a network drawn at random trains on a mesh drawn at random as on one rank") {
  const Communicator world = Communicator::world();
  const std::int64_t first = number("MESHWORK_RANDOM_FIRST", 1);
  const std::int64_t count = number("MESHWORK_RANDOM_COUNT", 10);
  for (std::int64_t seed = first; seed < first + count; ++seed) {
    const RandomRun run = random_run(static_cast<unsigned>(seed), world.size(), paths_of);
    INFO("seed " << seed << "\n" << run.on_mesh);
    const RunConfig config = read(run.on_mesh);
    DeviceMesh mesh(config.mesh_axes(), world);
    std::optional<Outcome> found;
    try {
      found = train(run.on_mesh, mesh);
    } catch (const Error& error) {
      if (!is_of_places(error)) {
        throw;
      }
    }
    if (found && world.rank() == 0) {
      DeviceMesh self = alone();
      compare(*found, train(run.on_one_rank, self));
    }
  }
}

TEST_CASE("the ranks of any plan are to make the same collectives in the same order") {
  if (Communicator::world().size() > 1) {
    return;  // the same on every rank
  }
  const std::int64_t first = number("MESHWORK_RANDOM_FIRST", 1);
  const std::int64_t count = number("MESHWORK_RANDOM_COUNT", 50);
  std::int64_t refused = 0;
  for (std::int64_t seed = first; seed < first + count; ++seed) {
    const std::vector<std::int64_t> sizes{3, 4, 5, 6, 7, 8, 12};
    const std::int64_t ranks = sizes[static_cast<std::size_t>(seed) % sizes.size()];
    const RandomRun run = random_run(static_cast<unsigned>(seed), ranks, paths_of);
    INFO("seed " << seed << " of " << ranks << " ranks\n" << run.on_mesh);
    try {
      compare_ranks(run, ranks);
    } catch (const Error& error) {
      if (!is_of_places(error)) {
        throw;
      }
      ++refused;
    }
  }
  CHECK(refused <= (count + 3) / 4);
}

}  // namespace meshwork::random_networks_test
