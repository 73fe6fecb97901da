#include "runtime/train/reporting/model_summary.h"

#include <cstdint>
#include <ctime>
#include <string>

#include "layers/pages.h"
#include "runtime/config/catalog.h"
#include "runtime/config/load.h"
#include "runtime/pages.h"
#include "runtime/train/run_config.h"
#include "tests/support/catch.h"

namespace meshwork::model_summary_test {

namespace {

Blueprint blueprint_of(const std::string& layers) {
  Catalog catalog;
  add_runtime(catalog);
  add_layers(catalog);
  const std::string text =
      "mesh: {data: 1, model: 2}\n"
      "layout: {.*outer/inner/kernel: [~, model]}\n"
      "unmatched_layouts: warn\n"
      "model:\n  input: [3]\n  layers:\n" +
      layers + "loss: mse\noptimizer: SGD\n";
  const RunConfig config(parse_config(text, "run.yaml", {}), catalog);
  return config.blueprint(MeshShape({{"data", 1}, {"model", 2}}, 2));
}

}  // namespace

TEST_CASE("a summary lists the layers in blocks, each with its own variables") {
  const ModelSummary summary = summary_of(
      blueprint_of("    - Dense: {name: out, units: 5}\n"
                   "    - Sequential: {name: outer, layers: [{Dense: {name: inner, units: 4}},"
                   " {Dense: {name: inner_2, units: 2, use_bias: false}}]}\n"
                   "    - Dense: {name: outermost, units: 1}\n"));
  REQUIRE(summary.layers.size() == 4);
  CHECK(summary.layers[0].path == "out");
  CHECK(summary.layers[0].parameters == 3 * 5 + 5);
  CHECK(summary.layers[1].path == "outer/inner");
  CHECK(summary.layers[1].parameters == 5 * 4 + 4);
  CHECK(summary.layers[1].layouts.find("kernel [~, model]") == 0);
  CHECK(summary.layers[2].path == "outer/inner_2");
  CHECK(summary.layers[2].parameters == 4 * 2);
  CHECK(summary.layers[3].path == "outermost");
  CHECK(summary.layers[3].parameters == 2 + 1);
  CHECK(summary.parameters == 20 + 24 + 8 + 3);
}

TEST_CASE("the time of a summary grows with the layers, not with their square") {
  const auto seconds_of = [](std::int64_t count) {
    std::string layers;
    for (std::int64_t i = 0; i < count; ++i) layers += "    - Dense: {units: 3}\n";
    const std::clock_t begin = std::clock();
    const ModelSummary summary = summary_of(blueprint_of(layers));
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    CHECK(summary.layers.size() == static_cast<std::size_t>(count));
    CHECK(summary.parameters == count * 12);
    return seconds;
  };
  const double of_some = seconds_of(500);
  CHECK(seconds_of(8000) < 48 * of_some);  // 100 times where each layer looked at all the others
}

}  // namespace meshwork::model_summary_test
