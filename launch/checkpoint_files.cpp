#include "launch/checkpoint_files.h"

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "collectives/error.h"
#include "collectives/failed_write.h"
#include "collectives/printable.h"
#include "runtime/train/loop/stop_request.h"

namespace meshwork {

namespace {

// For the terminal: what is printable of it, in its colours.
std::string shown(const Said& said) {
  std::string all;
  std::size_t end = 0;
  const std::string_view text = said.text;
  for (const auto& [begin, part] : said.colours) {
    all += printable(text.substr(end, begin - end));
    end = begin + part.first;
    all += coloured(printable(text.substr(begin, part.first)), part.second, STDOUT_FILENO);
  }
  return all + printable(text.substr(end));
}

}  // namespace

int run_on_files(const CommandLine& line, const Communicator* all) {
  const bool root = all == nullptr || all->rank() == 0;
  const auto* const alone = std::get_if<OnFiles>(&line.command);
  Said said;
  try {
    if (alone == nullptr) {
      said = std::get<OnFilesTogether>(line.command)(line, all);
    } else if (root) {
      said = (*alone)(line);
    }
  } catch (const FailedWrite& failure) {
    said = {1, "", fmt::format("{}\n", failure.what())};
  } catch (const Stopped& stopped) {
    said = {stopped_status(stopped.reason()), "", fmt::format("{}\n", stopped.what())};
  } catch (const std::exception& error) {
    said = {2, "", fmt::format("{}\n", message_of(error))};
  }
  if (root) {
    std::fputs(shown(said).c_str(), stdout);
    std::fflush(stdout);
    std::fputs(printable(said.problems).c_str(), stderr);
  }
  if (all != nullptr) {
    check_mpi(MPI_Bcast(&said.status, 1, MPI_INT, 0, all->native()), "MPI_Bcast");
  }
  return said.status;
}

}  // namespace meshwork
