// configs/gpt_mini.yaml trains on every mesh as on one rank: batches, heads, hidden units, the
// vocabulary and places of the text split, alone and together, weights split over the batch's axis,
// batches cut in parts, and blocks recomputed.
#include "tests/configs/example.h"
#include "tests/runtime/data/support.h"

namespace meshwork::gpt_mini_test {

using namespace meshwork::test;

namespace {

const std::string vocabulary = "tokens/embeddings: [model, ~]";
const std::string heads = vocabulary +
                          ", block_.*/attention/(query|key|value)/kernel: [~, model, ~]"
                          ", block_.*/attention/(query|key|value)/bias: [model, ~]"
                          ", block_.*/attention/attention_output/kernel: [model, ~, ~]"
                          ", block_.*/hidden/kernel: [~, model], block_.*/hidden/bias: [model]"
                          ", block_.*/back/kernel: [model, ~]";
const std::string places = "sum/output: [data, sequence, ~], block_.*/output: [data, sequence, ~]";
const std::string weights =
    "tokens/embeddings: [data, ~], block_.*/attention/.*/kernel: [data, ~, ~]"
    ", block_.*/(hidden|back)/kernel: [data, ~], block_.*/(hidden|back)/bias: [data]";

struct Way {
  std::int64_t data, model, sequence;
  std::string layout;
};
std::vector<Way> ways(int ranks) {
  switch (ranks) {
    case 2:
      return {{2, 1, 1, ""},
              {1, 2, 1, heads},
              {1, 2, 1, vocabulary},
              {1, 1, 2, places},
              {2, 1, 1, weights}};
    case 3:
      return {{3, 1, 1, weights}, {1, 3, 1, heads}, {1, 1, 3, places}};
    case 4:
      return {{2, 2, 1, heads}, {1, 2, 2, heads + ", " + places}};
    default:
      return {{1, 1, 1, heads}};
  }
}

}  // namespace

TEST_CASE("the small GPT trains on every mesh as on one rank") {
  const Folder folder(fmt::format("gpt_mini{}", Communicator::world().rank()));
  std::string text;
  for (int line = 0; text.size() < 64 * 90; ++line) {
    text += fmt::format("line {} of this text is followed by line {}.\n", line * line, line + 1);
  }
  write_file(folder / "text", text);
  write_file(folder / "short", text.substr(0, 200));
  // Ten steps, an epoch each.
  const std::vector<ConfigOverride> steps{"data.train.file=" + (folder / "text"),
                                          "data.train.to=1",
                                          "data.validation.file=" + (folder / "short"),
                                          "data.validation.from=0",
                                          "optimizer.AdamW.learning_rate=1e-3",
                                          "fit.steps_per_epoch=1",
                                          "fit.epochs=10"};
  const OneRank one(example("gpt_mini", steps), {"data", "model", "sequence"});
  if (one.run) CHECK(one.run->history.at("loss")[9] < one.run->history.at("loss")[0]);
  for (const auto& [data, model, sequence, layout] : ways(Communicator::world().size())) {
    for (const bool in_parts : {false, true}) {
      std::vector<ConfigOverride> overrides = steps;
      overrides.emplace_back("layout={" + layout + "}");
      if (in_parts) {
        overrides.insert(overrides.end(), {"fit.microbatches=3", "fit.recompute=blocks"});
      }
      INFO(layout << (in_parts ? ", in parts" : ""));
      DeviceMesh mesh({{"data", data}, {"model", model}, {"sequence", sequence}});
      one.check(example("gpt_mini", overrides), mesh, 1e-4);
    }
  }
}

}  // namespace meshwork::gpt_mini_test
