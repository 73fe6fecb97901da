// configs/gpt_mini.yaml trains on every mesh as on one rank: batches, heads, hidden units and the
// vocabulary split, and windows in the order that Philox gives.
#include "layers/pages.h"
#include "runtime/config/load.h"
#include "runtime/pages.h"
#include "runtime/train/run_config.h"
#include "tests/runtime/data/support.h"
#include "tests/support/catch.h"

namespace meshwork::gpt_mini_test {
namespace {

RunConfig configured(const std::string& text) {
  Catalog catalog;
  add_runtime(catalog);
  add_layers(catalog);
  return {load_config(MESHWORK_SOURCE_DIR "/configs/gpt_mini.yaml",
                      {"data.train.file=" + text, "data.validation.file=" + text,
                       "optimizer.AdamW.learning_rate=1e-3", "fit.steps_per_epoch=5",
                       "fit.epochs=2", "fit.verbose=silent"}),
          catalog};
}

History trained(const RunConfig& config, DeviceMesh& mesh) {
  const TrainingData data = config.open_training();
  config.check_data(*data.training, DataPart::train, mesh.shape(), Mode::train);
  config.check_samples(data.training, DataPart::train, Mode::train, mesh.all());
  Model model = config.make_model(mesh);
  FitOptions options = config.fit_options();
  options.validation = data.validation;
  return model.fit(data.training, std::move(options));
}

}  // namespace

TEST_CASE("the small GPT trains on every mesh as on one rank") {
  const int ranks = Communicator::world().size();
  const test::Folder folder(fmt::format("gpt_mini{}", Communicator::world().rank()));
  std::string text;
  for (int line = 0; text.size() < 64 * 90; ++line) {
    text += fmt::format("line {} of this text is followed by line {}.\n", line * line, line + 1);
  }
  test::write_file(folder / "text", text);
  const RunConfig config = configured(folder / "text");
  DeviceMesh one({{"data", 1}, {"model", 1}}, Communicator::self());
  const History expected = trained(config, one);
  CHECK(expected.at("loss")[1] < expected.at("loss")[0]);
  std::vector<std::vector<MeshAxis>> meshes{{{"data", ranks}, {"model", 1}},
                                            {{"data", 1}, {"model", ranks}}};
  if (ranks == 4) meshes.push_back({{"data", 2}, {"model", 2}});
  for (const auto& axes : meshes) {
    DeviceMesh mesh(axes);
    INFO(to_string(mesh.shape()));
    const History found = trained(config, mesh);
    for (const auto& [name, values] : expected.history) {
      for (std::size_t epoch = 0; epoch < values.size(); ++epoch) {
        INFO(name << " of epoch " << epoch);
        // Ten steps of Adam, which makes of a rounding near 0 a step of its own.
        CHECK(found.at(name)[epoch] == Approx(values[epoch]).epsilon(1e-3));
      }
    }
  }
}

}  // namespace meshwork::gpt_mini_test
