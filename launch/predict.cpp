// meshwork predict: the model's output for every sample, into a file.
#include <cstdio>
#include <optional>

#include "launch/commands.h"
#include "launch/session.h"

namespace meshwork {

int predict(Runtime& runtime, const CommandLine& line) {
  std::optional<Session> session;
  std::shared_ptr<const Source> source;
  std::unique_ptr<PredictionFile> file;
  (void)runtime.stop_request();  // from here on, signals are answered in order
  const int status = runtime.attempt(2, [&] {
    session.emplace(runtime, line);
    const DataPart part = part_of(session->config(), line);
    source = session->open(part, Mode::predict);
    session->examine(source, part, Mode::predict);
    session->build();
    session->load_weights(source, Mode::predict);
    session->claim_outputs({source}, false);
    if (!line.dry_run) {
      file = session->prediction_file(*source);
    }
    end_if_asked(runtime, "before the first batch");
  });
  if (status != 0 || line.dry_run) {
    return status;
  }
  return runtime.attempt(1, [&] { session->predict(source, file.get()); });
}

}  // namespace meshwork
