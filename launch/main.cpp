// The `meshwork` program: train, evaluate, predict, plan, devices, and what looks at checkpoints.
//
// The command line is read before MPI begins, so that --help, `plan` and what only looks at files
// work without mpirun and on machines where MPI cannot run. Where a launcher started several ranks,
// only rank 0 speaks.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>

#include "collectives/communicator.h"
#include "collectives/exchange.h"
#include "collectives/failed_write.h"
#include "collectives/printable.h"
#include "launch/checkpoint_files.h"
#include "launch/commands.h"
#include "launch/first_signals.h"
#include "launch/process_limits.h"
#include "launch/session.h"
#include "runtime/data/hdf5_handles.h"
#include "runtime/train/reporting/terminal.h"

namespace {

using namespace meshwork;

// The number in the first of these variables that is there.
std::optional<int> number_in(std::initializer_list<const char*> variables) {
  for (const char* variable : variables) {
    if (const char* text = std::getenv(variable)) {
      return std::atoi(text);
    }
  }
  return std::nullopt;
}

void print(const std::string& text, int status) {
  std::FILE* stream = status == 0 ? stdout : stderr;
  const std::string shown = printable(text);
  std::fputs(status == 0 ? shown.c_str() : coloured(shown, Colour::red, STDERR_FILENO).c_str(),
             stream);
  std::fflush(stream);
}

// Of the whole program, in `main`.
std::optional<FirstSignals> first_signals;

// What `action` gives, on all ranks, which have to be asked for the same. Before they are compared
// nothing is done that ranks with another command would not do as well.
template <class Action>
int on_ranks(int argc, char** argv, const Settings& asked, const Action& action) {
  // MPI is not there yet to agree; the ranks of a node have one limit as a rule.
  const int ranks_on_node = number_in({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
                                .value_or(started_by_launcher() ? 0 : 1);
  if (const std::string flaw = flaw_of_limits(ranks_on_node); !flaw.empty()) {
    if (number_in({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}).value_or(0) ==
        0) {
      print("meshwork: " + flaw + "\n", 1);
    }
    return 1;
  }
  first_signals->begin_noting();
  Runtime runtime(argc, argv);
  const int noted = first_signals->end_noting();
  const int status = runtime.attempt(2, [&] {
    end_if_asked(runtime, noted, "before it began");
    require_same_settings(runtime.world(), asked, "the command line");
  });
  return status != 0 ? status : action(runtime);
}

// Prints `text` from one rank, and ends when it is out.
int say_and_end(int argc, char** argv, const ParsedCommandLine& parsed) {
  if (!started_by_launcher()) {
    print(parsed.text, parsed.status);
    return parsed.status;
  }
  return on_ranks(argc, argv, parsed.asked, [&](Runtime& runtime) {
    if (runtime.is_root()) {
      print(parsed.text, parsed.status);
    }
    check_mpi(MPI_Barrier(runtime.world().native()), "MPI_Barrier");
    return parsed.status;
  });
}

// Prints what `make` gives, which is handed the ranks, or null if there is this process alone.
template <class Make>
int run_without_model(int argc, char** argv, const Settings& asked, const Make& make) {
  if (!started_by_launcher()) {
    try {
      print(make(nullptr), 0);
    } catch (const std::exception& error) {
      const int status = dynamic_cast<const FailedWrite*>(&error) != nullptr ? 1 : 2;
      print(message_of(error) + "\n", status);
      return status;
    }
    return 0;
  }
  return on_ranks(argc, argv, asked, [&](Runtime& runtime) {
    return runtime.attempt(2, [&] {
      const std::string text = make(&runtime.world());
      if (runtime.is_root()) print(text, 0);
    });
  });
}

int run(int argc, char** argv, const CommandLine& line, const Settings& asked) {
  if (const auto* say = std::get_if<Saying>(&line.command)) {
    return run_without_model(argc, argv, asked,
                             [&](const Communicator* all) { return (*say)(line, all); });
  }
  const auto* const on_ranks_alone = std::get_if<OnRanks>(&line.command);
  if (on_ranks_alone == nullptr && !started_by_launcher()) {
    return run_on_files(line, nullptr);
  }
  return on_ranks(argc, argv, asked, [&](Runtime& runtime) {
    return on_ranks_alone != nullptr ? (*on_ranks_alone)(runtime, line)
                                     : run_on_files(line, &runtime.world());
  });
}

// `status`, or 1 if some of what was printed did not arrive, as on a full disk.
int unless_output_failed(int status) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) {
    return status;
  }
  std::fprintf(stderr, "meshwork: standard output could not be written%s%s\n",
               errno == 0 ? "" : ": ", errno == 0 ? "" : std::strerror(errno));
  return status == 0 ? 1 : status;
}

}  // namespace

int main(int argc, char** argv) {
  // The limit of a file's size is an error like a full disk, whoever writes: MPI and the output too.
  std::signal(SIGXFSZ, SIG_IGN);
  first_signals.emplace();
  try {
    leave_hdf5_silent();
    const ParsedCommandLine parsed = parse_command_line(argc, argv);
    if (!parsed.commands) {
      return unless_output_failed(say_and_end(argc, argv, parsed));
    }
    end_crashes_of_hdf5_with(2);
    return unless_output_failed(run(argc, argv, *parsed.commands, parsed.asked));
  } catch (const std::exception& error) {
    abort_job(1, message_of(error));
  }
}
