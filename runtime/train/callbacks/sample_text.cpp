#include "runtime/train/callbacks/sample_text.h"

#include <memory>

#include "collectives/error.h"
#include "runtime/train/from_config.h"
#include "runtime/train/loop/token_text.h"

namespace meshwork {
namespace {

class SampleTextCallback final : public Callback {
 public:
  explicit SampleTextCallback(const SampleTextOptions& options) : options_(options) {}

  std::string class_name() const override { return "SampleText"; }
  bool decides_alike() const override { return true; }
  bool waits_for_validation() const override { return false; }

  void check(const ExpectedLogs& expected) const override {
    in_its_name([&] { (void)tokens_of_text(options_.prompt, token_model_of(*expected.model)); });
  }
  void on_train_begin(Training& training) override {
    // A token shows whether the model can write at all.
    in_its_name([&] {
      try {
        (void)training.generated_text(options_.prompt, {.tokens = 1});
      } catch (const ScoresNotFinite&) {  // NOLINT: told after an epoch
      }
    });
  }
  void on_epoch_end(Training& training) override {
    const std::int64_t epoch = training.position().epoch + 1;
    if (epoch % options_.every_epochs != 0) return;
    in_its_name([&] {
      try {
        training.say(training.generated_text(options_.prompt, {.tokens = options_.tokens,
                                                               .temperature = options_.temperature,
                                                               .top_k = options_.top_k}));
      } catch (const ScoresNotFinite& problem) {
        // The same on all ranks, which see the same scores. The run ends for that where it is told
        // to.
        training.say(fmt::format("WARNING: SampleText: after epoch {} {}", epoch, problem.what()));
      }
    });
  }

 private:
  template <class Action>
  static void in_its_name(const Action& action) {
    try {
      action();
    } catch (const Error& problem) {
      fail("SampleText: {}", problem.what());
    }
  }

  SampleTextOptions options_;
};

}  // namespace

template <class Visitor>
void describe(SampleTextOptions& options, Visitor& option) {
  option.about("prints text that a language model generates after a prompt");
  option.required("prompt", options.prompt,
                  "start of the text: bytes, or token numbers for other vocabularies");
  option("tokens", options.tokens, at_least(0), "number of tokens to generate");
  option("temperature", options.temperature, at_least(0),
         "divisor of the scores; 0: take the likeliest token");
  option("top_k", options.top_k, at_least(0), "number of likeliest tokens to draw from; 0: all");
  option("every_epochs", options.every_epochs, positive, "epochs between samples");
}

SharedCallback SampleText(const SampleTextOptions& options) {
  check_options("SampleText", options);
  return std::make_shared<SampleTextCallback>(options);
}

void add_sample_text(Catalog& catalog) {
  catalog.add<SharedCallback, SampleTextOptions>("SampleText", {}, SampleText);
}

}  // namespace meshwork
