// meshwork evaluate: the loss and the metrics over a set of samples.
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "launch/commands.h"
#include "launch/session.h"
#include "runtime/config/text_table.h"
#include "runtime/train/reporting/terminal.h"

namespace meshwork {

int evaluate(Runtime& runtime, const CommandLine& line) {
  std::optional<Session> session;
  std::shared_ptr<const Source> source;
  (void)runtime.stop_request();  // from here on, signals are answered in order
  const int status = runtime.attempt(2, [&] {
    session.emplace(runtime, line);
    const DataPart part = part_of(session->config(), line);
    source = session->open(part, Mode::evaluate);
    session->examine(source, part, Mode::evaluate);
    session->build();
    session->load_weights(source, Mode::evaluate);
    end_if_asked(runtime, "before the first batch");
  });
  if (status != 0 || line.dry_run) {
    return status;
  }
  return runtime.attempt(1, [&] {
    const Logs logs =
        session->model().evaluate(source, {.batch_size = session->config().evaluation_batch_size(),
                                           .stop_request = &runtime.stop_request()});
    if (runtime.is_root()) {
      std::printf("%s\n", wrapped(readable(logs), text_width(STDOUT_FILENO)).c_str());
      std::fflush(stdout);
    }
  });
}

}  // namespace meshwork
