// meshwork train: fits the model, then evaluates it on the test data and predicts, where asked for.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/last_words.h"
#include "collectives/printable.h"
#include "collectives/rank_names.h"
#include "collectives/watchdog.h"
#include "launch/commands.h"
#include "launch/session.h"
#include "runtime/config/load.h"
#include "runtime/config/text_table.h"
#include "runtime/train/reporting/terminal.h"
#include "runtime/train/roles/evaluate.h"
#include "runtime/train/roles/feed.h"

namespace meshwork {
namespace {

// Where a launcher that starts runs again wants the checkpoints of one that names no directory
// (meshwork-mpirun --restarts, meshwork.sbatch).
constexpr const char* run_directory_variable = "MESHWORK_RUN_DIRECTORY";

// How long roles may go on after training has failed, at most.
constexpr double patience_with_roles = 30;  // seconds

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = character_length(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

// Whether a callback of `document` says where checkpoints go.
bool has_model_checkpoint(const ConfigNode& document) {
  const auto fit = document.find("fit");
  const auto callbacks = fit && fit->is_map() ? fit->find("callbacks") : std::nullopt;
  if (!callbacks || !callbacks->is_sequence()) return false;
  const std::vector<ConfigNode> elements = callbacks->elements();
  return std::any_of(elements.begin(), elements.end(), [](const ConfigNode& callback) {
    return callback.is_map() && callback.find("ModelCheckpoint");
  });
}

// Adds to the overrides of `line` what its launcher and --resume say of checkpoints. A run that is
// started again goes on, unless the configuration says otherwise: `checkpoint: ~` is none.
void add_checkpoint_overrides(CommandLine& line) {
  const ConfigNode document = load_config(line.config, line.overrides);
  if (!document.is_map()) return;
  const auto section = document.find("checkpoint");
  if (section && !section->is_map()) return;
  const bool has_directory =
      (section && section->find("directory")) || has_model_checkpoint(document);
  const auto resume = section ? section->find("resume") : std::nullopt;
  const char* const directory = std::getenv(run_directory_variable);
  const bool launched = directory != nullptr && *directory != '\0';
  if (launched && !has_directory) {
    if (!is_utf8(directory)) {
      fail("{}: \"{}\" is no UTF-8, and a configuration cannot name it; choose another directory",
           run_directory_variable, in_one_line(directory));
    }
    line.overrides.emplace_back(fmt::format("checkpoint.directory={:?}", directory),
                                run_directory_variable);
  }
  if (line.resume && has_directory && (!resume || resume->as<std::string>() == "never")) {
    line.overrides.emplace_back("checkpoint.resume=auto", "--resume");
  } else if (launched && !resume) {
    line.overrides.emplace_back("checkpoint.resume=auto", run_directory_variable);
  }
}

// What ranks that do not train do for those that do.
struct Helpers {
  Rpc* rpc = nullptr;  // between all ranks; null: all train
  const RoleMap* roles = nullptr;
  bool evaluate = false;
  std::shared_ptr<EpochEvaluator> evaluator;  // on the root, if they evaluate
  // The training data as they feed them; null: they do not.
  std::function<std::shared_ptr<const Source>(std::shared_ptr<const Source>)> feed;
  bool has_threads = true;  // all ranks: else the thread that trains asks the feeders
  // Whether the job ends for a rank that has failed: no signal is then worth a word.
  std::function<bool()> has_failed = [] { return false; };
};

}  // namespace

// Trains on the ranks of `runtime`.
static int train_here(Runtime& runtime, const CommandLine& given, const Helpers& helpers) {
  CommandLine line = given;
  std::optional<Session> session;
  RunData data;
  std::shared_ptr<const Source> predicted;
  std::unique_ptr<PredictionFile> file;
  (void)runtime.stop_request();  // from here on, signals are answered in order
  const int status = runtime.attempt(2, [&] {
    together(runtime.world(), [&] { add_checkpoint_overrides(line); });
    session.emplace(runtime, line);
    const RunConfig& config = session->config();
    if (line.resume && config.fit_options().checkpoint.directory.empty()) {
      fail(
          "--resume: {} has no section for checkpoints; add "
          "checkpoint: {{directory: checkpoints}}, or --set checkpoint.directory=checkpoints",
          line.config);
    }
    data = session->open_training();
    if (helpers.feed && data.training) {
      together(runtime.world(), [&] { data.training = helpers.feed(data.training); });
    }
    session->examine(data.training, DataPart::train, Mode::train, data.validation.get());
    if (data.validation) {
      session->examine(data.validation, DataPart::validation, Mode::evaluate);
    }
    if (data.test) {
      session->examine(data.test, DataPart::test, Mode::evaluate);
    }
    session->build();
    session->load_weights(data.training, Mode::train);
    session->adapt(data.training);
    if (!line.output.empty()) {
      const DataPart part = part_of(config, line);
      predicted = session->open(part, Mode::predict);
      session->examine(predicted, part, Mode::predict);
    }
    session->claim_outputs({data.training, data.validation, data.test, predicted}, true);
    if (predicted && !line.dry_run) {
      file = session->prediction_file(*predicted);
    }
    end_if_asked(runtime, "before the first step");
  });
  if (status != 0 || line.dry_run) {
    return status;
  }
  int stopped = 0;
  bool unsaved = false;
  const int failed = runtime.attempt(1, [&] {
    FitOptions options = session->config().fit_options();
    options.stop_request = &runtime.stop_request();
    options.validation = helpers.evaluate ? nullptr : data.validation;
    options.evaluates_elsewhere = helpers.evaluate;
    options.rpc = helpers.rpc;
    options.roles = helpers.roles;
    options.evaluator = helpers.evaluator;
    options.validation_split = 0;  // done already
    if (helpers.feed && !helpers.has_threads) options.prefetch = false;
    const std::string summary = session->summary(data);
    if (runtime.is_root() && options.verbose != Verbosity::silent) {
      std::printf("%s", printable(summary).c_str());
      std::fflush(stdout);
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
      if (runtime.is_root() && !helpers.has_failed()) {
        std::fprintf(stderr, "stopped by %s after %lld updates%s%s\n",
                     stop_reason_name(history.stop_reason).c_str(),
                     static_cast<long long>(session->model().iteration()),
                     data.test ? "; the test data were not evaluated" : "",
                     predicted ? "; no predictions were written" : "");
      }
      return;
    }
    if (data.test) {
      const Logs logs = session->model().evaluate(
          data.test, {.batch_size = session->config().evaluation_batch_size(),
                      .stop_request = &runtime.stop_request()});
      if (runtime.is_root()) {
        const std::size_t width = text_width(STDOUT_FILENO);
        std::printf("%s\n", wrapped("test - " + readable(logs), width).c_str());
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

namespace {

// What the roles of a run do for the ranks of `part`, which train.
Helpers helpers_of(const RoleMap& roles, Runtime& part, Rpc& rpc, double seconds) {
  Helpers helpers{.rpc = &rpc, .roles = &roles};
  helpers.has_failed = [&rpc] {
    if (LastWords::are_said()) return true;
    try {
      for (int rank = 0; rank < rpc.size(); ++rank) rpc.require_present(rank, "to train");
    } catch (const RanksParted&) {
      return true;
    }
    return false;
  };
  if (roles.has(evaluating_role)) {
    helpers.evaluate = true;
    if (part.is_root()) {
      helpers.evaluator = evaluator_at(rpc, roles.ranks_of(evaluating_role).front(), seconds);
    }
  }
  if (roles.has(feeding_role)) {
    const std::vector<int> feeders = roles.ranks_of(feeding_role);
    const int feeder = feeders[static_cast<std::size_t>(part.rank()) % feeders.size()];
    helpers.feed = [&rpc, feeder, seconds](std::shared_ptr<const Source> source) {
      return fed_by(rpc, feeder, seconds, std::move(source));
    };
  }
  return helpers;
}

// Trains on some of the ranks. What the others do is their role's, until training has ended. Calls that
// state no limit have half of the watchdog's, so that a call that fails is heard of before it.
int train_with_roles(Runtime& runtime, const CommandLine& line, const RunConfig& config,
                     const std::vector<RoleRanks>& roles) {
  const auto own = std::find_if(roles.begin(), roles.end(), [&](const RoleRanks& role) {
    return runtime.rank() >= role.first && runtime.rank() < role.first + role.count;
  });
  const RoleMap map = map_of(roles);
  const double seconds = config.options().watchdog_seconds;
  const double call_seconds = seconds / 2;
  RpcOptions options{.seconds = call_seconds};
  for (int rank = 0; rank < map.size(); ++rank) options.titles.push_back(map.role_of(rank));
  const LastWords words(runtime.world(), options.titles);
  Rpc rpc(runtime.world(), options);
  const bool has_threads = on_all(runtime.world(), rpc.has_threads());
  int status = 0;
  Runtime part(runtime,
               runtime.world().split(static_cast<int>(own - roles.begin()), runtime.rank()));
  const RankNames names(part.world(), runtime.world());
  if (own->role != nullptr) {
    play(*own, map, config, part.world(), rpc, &part.stop_request());
  } else {
    std::optional<RolesAtWork> at_work;
    if (part.is_root()) {
      at_work.emplace(map, rpc, [&part](int reason) { part.ask_to_stop(reason); });
    }
    rpc.open();
    Helpers helpers = helpers_of(map, part, rpc, call_seconds);
    helpers.has_threads = has_threads;
    status = train_here(part, line, helpers);
    const bool has_failed = status == 1 || status == 2;
    double limit = seconds;
    if (has_failed && (limit == 0 || limit > patience_with_roles)) limit = patience_with_roles;
    try {
      if (at_work) at_work->end(limit);
    } catch (const RanksParted& error) {
      abort_job(1, error.what());
    } catch (const Error& error) {
      abort_job(has_failed ? status : hang_status, error.what());
    }
    try {
      rpc.close();
    } catch (const Error& error) {
      abort_job(1, error.what());
    }
  }
  int common = status;
  check_mpi(MPI_Allreduce(&status, &common, 1, MPI_INT, MPI_MAX, runtime.world().native()),
            "MPI_Allreduce");
  return common;
}

}  // namespace

int train(Runtime& runtime, const CommandLine& line) {
  std::optional<RunConfig> config;
  std::vector<RoleRanks> roles;
  const int status = runtime.attempt(2, [&] {
    bool has_roles = false;
    together(runtime.world(), [&] {
      const ConfigNode document = load_config(line.config, line.overrides);
      has_roles = document.is_map() && document.find("roles").has_value();
    });
    if (!on_all(runtime.world(), has_roles)) return;
    config.emplace(read_same_run(runtime.world(), line));
    roles = config->roles().on(runtime.size());
  });
  if (status != 0) return status;
  if (roles.empty()) return train_here(runtime, line, {});
  return train_with_roles(runtime, line, *config, roles);
}

}  // namespace meshwork
