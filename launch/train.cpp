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
  (void)runtime.stop_request();  // from here on, signals are answered in order
  const int status = runtime.attempt(2, [&] {
    session.emplace(runtime, line);
    const RunConfig& config = session->config();
    if (line.resume && config.fit_options().checkpoint.directory.empty()) {
      fail(
          "--resume: {} has no section for checkpoints; add "
          "checkpoint: {{directory: checkpoints}}, or --set checkpoint.directory=checkpoints",
          line.config);
    }
    data = session->open_training();
    session->examine(data.training, DataPart::train, Mode::train);
    if (data.validation) {
      session->examine(data.validation, DataPart::validation, Mode::evaluate);
    }
    session->check_callbacks(data);
    if (config.has(DataPart::test)) {
      test = session->open(DataPart::test, Mode::evaluate);
      session->examine(test, DataPart::test, Mode::evaluate);
    }
    session->build();
    session->load_weights(data.training, Mode::train);
    if (!line.output.empty()) {
      const DataPart part = part_of(config, line);
      predicted = session->open(part, Mode::predict);
      session->examine(predicted, part, Mode::predict);
    }
    session->claim_outputs({data.training, data.validation, test, predicted}, true);
    if (predicted && !line.dry_run) {
      file = session->prediction_file(*predicted);
    }
  });
  if (status != 0 || line.dry_run) {
    return status;
  }
  if (const int reason = runtime.agreed_stop(); reason != 0) {
    if (runtime.is_root()) {
      std::fprintf(stderr, "stopped by %s before the first step\n",
                   stop_reason_name(reason).c_str());
    }
    return stopped_status(reason);
  }
  int stopped = 0;
  bool unsaved = false;
  const int failed = runtime.attempt(1, [&] {
    FitOptions options = session->config().fit_options();
    options.stop_request = &runtime.stop_request();
    options.validation = data.validation;
    options.validation_split = 0;  // done already
    if (line.resume && options.checkpoint.resume == Resume::never) {
      options.checkpoint.resume = Resume::automatic;
    }
    History history;
    try {
      history = session->model().fit(data.training, std::move(options));
    } catch (const LastStateUnsaved&) {
      unsaved = true;
      throw;
    }
    unsaved = !history.unsaved.empty();
    if (history.stop_reason != 0) {
      stopped = stopped_status(history.stop_reason);
      if (runtime.is_root()) {
        std::fprintf(stderr, "stopped by %s after %lld updates\n",
                     stop_reason_name(history.stop_reason).c_str(),
                     static_cast<long long>(session->model().iteration()));
      }
      return;
    }
    if (test) {
      const Logs logs =
          session->model().evaluate(test, {.batch_size = session->config().evaluation_batch_size(),
                                           .stop_request = &runtime.stop_request()});
      if (runtime.is_root()) {
        std::printf("test - %s\n", readable(logs).c_str());
        std::fflush(stdout);
      }
    }
    if (predicted) {
      session->predict(predicted, file.get());
    }
  });
  // Nobody is to train again for what has been trained: that comes before what else went wrong. A run
  // that was stopped goes on from the checkpoint before.
  if (unsaved && stopped == 0) {
    return unsaved_status;
  }
  return failed != 0 ? failed : stopped;
}

}  // namespace meshwork
