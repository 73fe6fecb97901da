// meshwork test-layer: whether what a layer states of itself is true. Its gradients are compared with
// differences of the loss, its numbers on every mesh of the ranks with those of one rank, and those in
// pieces of positions with those of whole sequences.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/exchange.h"
#include "collectives/joined_text.h"
#include "collectives/printable.h"
#include "launch/commands.h"
#include "launch/session.h"
#include "runtime/config/extension.h"
#include "runtime/config/load.h"
#include "runtime/graph/layer_config.h"
#include "runtime/train/layer_cases.h"
#include "runtime/train/reporting/terminal.h"

namespace meshwork {
namespace {

constexpr std::size_t most_failures = 10;  // that are shown of a layer

// Samples that layers are tried on where none are given: vectors, sequences, images and volumes.
const std::vector<Shape>& usual_samples() {
  static const std::vector<Shape> samples{{7}, {3, 7}, {9, 7, 3}, {3, 5, 3, 2}};
  return samples;
}

// A layer to test: what the user wrote, and its cases.
struct Tested {
  std::string name;  // of its class
  std::string samples;
  std::vector<LayerCase> cases;
};

Tested tested(const std::string& text, const std::shared_ptr<const Catalog>& catalog,
              const CommandLine& line) {
  const ConfigNode node = parse_document(text, "the command line");
  const auto make = [node, catalog] { return catalog->make<SharedLayer>(node); };
  Tested found{.name = make().layer().class_name(), .samples = {}, .cases = {}};
  // Adds the cases on samples of these shapes; what the layer says if it does not take them.
  const auto add = [&](const std::vector<Shape>& samples) -> std::string {
    try {
      std::vector<LayerCase> cases =
          cases_of({.make = make, .samples = samples, .device = line.device});
      for (LayerCase& one : cases) found.cases.push_back(std::move(one));
    } catch (const Error& problem) {
      return problem.what();
    }
    found.samples += (found.samples.empty() ? "" : ", ") + in_words(samples);
    return "";
  };
  if (!line.shapes.empty()) {
    if (const std::string problem = add(line.shapes); !problem.empty()) fail("{}", problem);
    return found;
  }
  std::string refused;
  for (std::size_t inputs = 1; inputs <= 2 && found.cases.empty(); ++inputs) {
    for (const Shape& sample : usual_samples()) {
      const std::string problem = add(std::vector<Shape>(inputs, sample));
      if (!problem.empty()) refused += fmt::format("\n  {}", problem);
    }
  }
  if (found.cases.empty()) {
    fail("{}: no sample of the usual shapes fits it; --shape gives one{}", found.name, refused);
  }
  return found;
}

struct TestedLayers {
  std::shared_ptr<const Catalog> catalog;
  std::vector<Tested> layers;
};

TestedLayers read_layers(const CommandLine& line) {
  const auto catalog = std::make_shared<Catalog>(catalog_of(line));
  std::vector<std::string> layers;
  for (const std::string& name : line.names) {
    if (name.ends_with(".so")) {
      load_extension(name, *catalog);
    } else {
      layers.push_back(name);
    }
  }
  if (layers.empty()) fail("which layer is to be tested? `meshwork reference layers` lists them");
  TestedLayers request{catalog, {}};
  for (const std::string& text : layers) {
    request.layers.push_back(tested(text, catalog, line));
  }
  return request;
}

void show(const std::string& text) {
  std::fputs(printable(text).c_str(), stdout);
  std::fflush(stdout);
}

std::string progress_of(const std::string& where, const LayerReport& part) {
  std::string text = fmt::format("  {}: ", where);
  if (where.starts_with("mesh")) {
    text += part.layouts < part.legal ? fmt::format("{} of {} layouts", part.layouts, part.legal)
                                      : fmt::format("all {} layouts", part.layouts);
    if (part.in_pieces > 0) text += fmt::format(", {} in pieces of positions too", part.in_pieces);
  } else {
    text += fmt::format("{} elements of gradients against differences of the loss", part.slopes);
  }
  if (!part.failures.empty()) text += fmt::format("; {} wrong", part.failures.size());
  return text + "\n";
}

std::string verdict(const Tested& layer, const LayerReport& report) {
  const std::string tried = fmt::format(
      "{} layouts{} and {} elements of gradients", report.layouts,
      report.in_pieces == 0 ? ""
                            : fmt::format(", {} in pieces of positions too,", report.in_pieces),
      report.slopes);
  if (report.failures.empty()) return fmt::format("{}: ok: {}\n", layer.name, tried);
  std::string text =
      fmt::format("{}: WRONG: {} failure{} in {}\n", layer.name, report.failures.size(),
                  report.failures.size() == 1 ? "" : "s", tried);
  for (const auto* const sentences : {&report.causes, &report.failures}) {
    std::size_t shown = 0;
    for (const std::string& sentence : *sentences) {
      if (shown++ == most_failures) {
        text += fmt::format("  and {} more\n", sentences->size() - most_failures);
        break;
      }
      text += fmt::format("  {}\n", sentence);
    }
  }
  return text;
}

}  // namespace

int test_layer(Runtime& runtime, const CommandLine& line) {
  std::optional<TestedLayers> request;
  const int status = runtime.attempt(2, [&] {
    together(runtime.world(), [&] { request.emplace(read_layers(line)); });
    require_same_extensions(runtime.world(), request->catalog->extensions());
  });
  if (status != 0) return status;
  bool right = true;
  const int failed = runtime.attempt(1, [&] {
    for (const Tested& layer : request->layers) {
      if (runtime.is_root()) show(fmt::format("{} of {}\n", layer.name, layer.samples));
      const LayerReport report =
          check_on_ranks(layer.cases, runtime.world(),
                         {.limit = static_cast<std::size_t>(line.layouts),
                          .progress = [](const std::string& where, const LayerReport& part) {
                            show(progress_of(where, part));
                          }});
      right = right && report.failures.empty();
      if (!runtime.is_root()) continue;
      show(verdict(layer, report));
      const std::vector<std::string> never = report.never_split();
      if (runtime.size() > 1 && !never.empty()) {
        show(fmt::format("  not tried, as no layout split it: {}\n", joined_text(never, ", ")));
      }
    }
    if (runtime.size() == 1 && runtime.is_root()) {
      show("on one rank nothing is split: `mpirun -n 4 meshwork test-layer` tries 1 to 4 ranks\n");
    }
  });
  return failed != 0 ? failed : right ? 0 : 1;
}

}  // namespace meshwork
