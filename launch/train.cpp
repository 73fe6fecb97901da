// meshwork train: fits the model, then evaluates it on the test data and predicts, where asked for.
#include <cstdio>
#include <optional>

#include "launch/commands.h"
#include "launch/session.h"

namespace meshwork {

int train(Runtime& runtime, const CommandLine& line) {
  std::optional<Session> session;
  TrainingData data;
  std::shared_ptr<const Source> test;
  std::shared_ptr<const Source> predicted;
  std::unique_ptr<PredictionFile> file;
  const int status = runtime.attempt(2, [&] {
    session.emplace(runtime, line);
    const RunConfig& config = session->config();
    data = session->open_training();
    session->examine(data.training, DataPart::train, Mode::train);
    if (data.validation) {
      session->examine(data.validation, DataPart::validation, Mode::evaluate);
    }
    if (config.has(DataPart::test)) {
      test = session->open(DataPart::test, Mode::evaluate);
      session->examine(test, DataPart::test, Mode::evaluate);
    }
    session->build();
    if (!line.output.empty()) {
      const DataPart part = part_of(config, line);
      predicted = session->open(part, Mode::predict);
      session->examine(predicted, part, Mode::predict);
    }
    if (predicted && !line.dry_run) {
      file = session->prediction_file(*predicted);
    }
  });
  if (status != 0 || line.dry_run) {
    return status;
  }
  return runtime.attempt(1, [&] {
    FitOptions options = session->config().fit_options();
    options.validation = data.validation;
    options.validation_split = 0;  // done already
    (void)session->model().fit(data.training, std::move(options));
    if (test) {
      const Logs logs = session->model().evaluate(
          test, {.batch_size = session->config().evaluation_batch_size()});
      if (runtime.is_root()) {
        std::printf("test - %s\n", readable(logs).c_str());
        std::fflush(stdout);
      }
    }
    if (predicted) {
      session->predict(predicted, file.get());
    }
  });
}

}  // namespace meshwork
