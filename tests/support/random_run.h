// Runs of networks, meshes and layouts that nobody thought of, drawn by a number: configurations as
// a user writes them.
//
//     const RandomRun run = random_run(seed, ranks, paths);
//     parse_config(run.on_mesh, "random.yaml");      // with `mesh` and `layout`
//     parse_config(run.on_one_rank, "random.yaml");  // the same run without them
//
// What a network predicts is compared with values, with classes or with one number of two. Every
// configuration is legal: a run that fails has found something.
#pragma once

#include <functional>
#include <utility>

#include "collectives/joined_text.h"
#include "tests/support/random_network.h"

namespace meshwork::test {

/// The axes of a mesh of `ranks` ranks, some of them of size 1.
inline std::vector<std::pair<std::string, std::int64_t>> random_axes(Draws& draws,
                                                                     std::int64_t ranks) {
  std::vector<std::pair<std::string, std::int64_t>> axes;
  const std::vector<std::string> names{"x", "y", "z"};
  for (std::size_t count = static_cast<std::size_t>(draws.from(1, 3)); axes.size() < count;) {
    std::int64_t size = ranks;
    if (axes.size() + 1 < count) {
      do {
        size = draws.from(1, ranks);
      } while (ranks % size != 0);
    }
    axes.emplace_back(names[axes.size()], size);
    ranks /= size;
  }
  return axes;
}

/// A layout of a tensor of `dimensions` dimensions: "[~, x, [z, y]]".
inline std::string random_layout(Draws& draws, const std::vector<std::string>& axes,
                                 std::size_t dimensions) {
  std::vector<std::vector<std::string>> split(dimensions);
  for (const std::string& axis : axes) {
    if (!draws.one_in(3)) {
      std::vector<std::string>& at =
          split[static_cast<std::size_t>(draws.from(0, static_cast<std::int64_t>(dimensions) - 1))];
      at.insert(at.begin() + draws.from(0, static_cast<std::int64_t>(at.size())), axis);
    }
  }
  std::vector<std::string> text;
  for (const std::vector<std::string>& at : split) {
    text.push_back(at.empty()       ? "~"
                   : at.size() == 1 ? at[0]
                                    : fmt::format("[{}]", joined_text(at, ", ")));
  }
  return fmt::format("[{}]", joined_text(text, ", "));
}

struct RandomRun {
  std::string on_mesh, on_one_rank;
};

/// `paths` gives what can be laid out in a model, with the number of its dimensions.
inline RandomRun random_run(
    unsigned seed, std::int64_t ranks,
    const std::function<std::vector<std::pair<std::string, std::size_t>>(const std::string&)>&
        paths) {
  Draws draws(seed);
  const RandomNetwork network(draws);
  const Shape& out = network.shape();
  // Parts of the mesh for parts of the model, in one run of three.
  Draws places_draws(seed + 1'000'000);
  std::int64_t parts = 1;
  if (ranks > 1 && places_draws.one_in(3)) {
    do {
      parts = places_draws.from(2, ranks);
    } while (ranks % parts != 0);
  }
  std::vector<std::string> meshes, names;
  std::vector<std::int64_t> sizes;
  const bool parts_first = places_draws.one_in(2);
  if (parts > 1 && parts_first) meshes.push_back(fmt::format("part: {}", parts));
  for (const auto& [name, size] : random_axes(draws, ranks / parts)) {
    meshes.push_back(fmt::format("{}: {}", name, size));
    names.push_back(name);
    sizes.push_back(size);
  }
  if (parts > 1 && !parts_first) meshes.push_back(fmt::format("part: {}", parts));
  // The first axis by default, none, or another.
  std::string spread = fmt::format("mesh: {{{}}}\n", joined_text(meshes, ", "));
  std::int64_t least = sizes.front();
  if (draws.one_in(3)) {
    spread += "batch_axis: ~\n";
    least = 1;
  } else if (draws.one_in(2)) {
    const std::int64_t axis = draws.from(0, static_cast<std::int64_t>(names.size()) - 1);
    spread += "batch_axis: " + names[axis] + "\n";
    least = sizes[axis];
  }
  // Two batches, and mostly a short one, in which some ranks may have no row.
  const std::int64_t batch = draws.from(least, least + 6);
  const std::int64_t rows = 2 * batch + draws.from(0, batch - 1);
  std::string run = fmt::format(
      "seed: {}\ncollectives: {}\ncheck_plan: true\ndata:\n  train:\n    kind: synthetic\n    "
      "rows: "
      "{}\n    features: {{kind: normal, shape: [{}]}}\n    targets: {{",
      seed, draws.of<std::string>({"auto", "mpi", "shared"}), rows,
      joined_text(network.sample(), ", "));
  // What is compared: values, class numbers, or one number of two.
  Shape target = out;
  std::string kind = "normal", loss = draws.of<std::string>({"mse", "mae", "mse"}), metrics;
  if (out.back() > 1 && draws.one_in(2)) {
    target.pop_back();
    kind = fmt::format("classes, classes: {}", out.back());
    loss = "{SparseCategoricalCrossentropy: {from_logits: true}}";
    metrics = draws.one_in(2) ? "accuracy" : "{SparseTopKCategoricalAccuracy: {k: 2}}, accuracy";
  } else if (draws.one_in(4)) {
    kind = "classes, classes: 2";
    loss = "{BinaryCrossentropy: {from_logits: true}}";
    metrics = "mse";
  }
  run += fmt::format("kind: {}, shape: [{}]}}\n  batch_size: {}\n{}loss: {}\n", kind,
                     joined_text(target, ", "), batch, network.text(), loss);
  if (!metrics.empty()) {
    run += fmt::format("metrics: [{}]\n", metrics);
  }
  run += fmt::format("optimizer: {{SGD: {{learning_rate: 0.1, momentum: 0.5{}}}}}\n",
                     draws.of<std::string>({"", "", ", clipnorm: 0.5", ", global_clipnorm: 1.0"}));
  const std::int64_t most = std::max<std::int64_t>(batch / least, 1);
  run += fmt::format("fit: {{epochs: 1, verbose: silent, microbatches: {}}}\n",
                     parts > 1 ? places_draws.from(1, most) : 1);

  std::string layouts;
  const std::int64_t seldom = draws.from(1, 4);
  const bool fully_sharded = draws.one_in(8);
  for (const auto& [path, dimensions] : paths(run)) {
    if (fully_sharded && !path.ends_with("output") && path != "input") {
      layouts += fmt::format("  {}: [[{}]", path, joined_text(names, ", "));
      for (std::size_t d = 1; d < dimensions; ++d) {
        layouts += ", ~";
      }
      layouts += "]\n";
    } else if (dimensions > 0 && draws.one_in(seldom)) {
      layouts += fmt::format("  {}: {}\n", path, random_layout(draws, names, dimensions));
    }
  }
  std::string places;
  constexpr std::string_view output = "/output";
  // A pipeline, half of the time: then no layer is before those that it reads.
  const bool staged = parts > 1 && places_draws.one_in(2);
  const auto schedule =
      places_draws.of<std::string>({"1f1b", "1f1b", "gpipe", "zero_bubble", "in_turn"});
  std::int64_t layers = 0;
  for (const auto& [path, dimensions] : paths(run)) layers += path.ends_with(output) ? 1 : 0;
  const std::int64_t chunks =
      schedule == "zero_bubble" || layers < 3 * parts ? 1 : places_draws.from(1, 3);
  std::int64_t stage = 0;
  for (const auto& [path, dimensions] : paths(run)) {
    if (parts == 1 || !path.ends_with(output)) continue;
    // One at least, or the axis would be one that splits batches.
    if (!places.empty() && places_draws.one_in(3)) continue;
    const std::string layer = path.substr(0, path.size() - output.size());
    if (staged) {
      stage = std::min(stage + places_draws.from(0, 2), parts * chunks - 1);
      places += fmt::format("  {}: {{part: {}}}\n", layer, stage);
      continue;
    }
    const std::int64_t first = places_draws.from(0, parts - 1);
    const std::int64_t last = places_draws.one_in(4) ? places_draws.from(first, parts - 1) : first;
    places += fmt::format("  {}: {{part: [{}, {}]}}\n", layer, first, last);
  }
  if (!places.empty()) {
    const bool balanced = staged && layers >= 3 * parts * chunks && places_draws.one_in(2);
    spread += balanced ? "place: auto\n" : "place:\n" + places;
    if (staged) {
      spread +=
          fmt::format("pipeline: {{axis: part, schedule: {}, chunks: {}}}\n", schedule, chunks);
    }
  }
  if (!layouts.empty()) {
    spread += "layout:\n" + layouts;
  }
  return {spread + run, run};
}

}  // namespace meshwork::test
