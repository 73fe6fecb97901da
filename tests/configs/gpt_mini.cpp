// configs/gpt_mini.yaml trains on every mesh as on one rank: batches, heads, hidden units and the
// vocabulary split, and windows in the order that Philox gives.
#include "tests/configs/example.h"
#include "tests/runtime/data/support.h"

namespace meshwork::gpt_mini_test {

using namespace meshwork::test;

TEST_CASE("the small GPT trains on every mesh as on one rank") {
  const int ranks = Communicator::world().size();
  const Folder folder(fmt::format("gpt_mini{}", Communicator::world().rank()));
  std::string text;
  for (int line = 0; text.size() < 64 * 90; ++line) {
    text += fmt::format("line {} of this text is followed by line {}.\n", line * line, line + 1);
  }
  write_file(folder / "text", text);
  const RunConfig config =
      example("gpt_mini",
              {"data.train.file=" + (folder / "text"), "data.validation.file=" + (folder / "text"),
               "optimizer.AdamW.learning_rate=1e-3", "fit.steps_per_epoch=5", "fit.epochs=2"});
  DeviceMesh one({{"data", 1}, {"model", 1}}, Communicator::self());
  const History expected = run_example(config, one).history;
  CHECK(expected.at("loss")[1] < expected.at("loss")[0]);
  std::vector<std::vector<MeshAxis>> meshes{{{"data", ranks}, {"model", 1}},
                                            {{"data", 1}, {"model", ranks}}};
  if (ranks == 4) meshes.push_back({{"data", 2}, {"model", 2}});
  for (const auto& axes : meshes) {
    DeviceMesh mesh(axes);
    INFO(meshwork::to_string(mesh.shape()));
    // Ten steps of Adam, which makes of a rounding near 0 a step of its own.
    check_history(run_example(config, mesh).history, expected, 1e-3);
  }
}

}  // namespace meshwork::gpt_mini_test
