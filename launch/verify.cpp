// meshwork verify: whether files are what was written.
#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "launch/checkpoint_files.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/graph/plan_report.h"

namespace meshwork {
namespace {

// What one rank finds, a line each; "" for nothing.
std::string damage_in(const std::string& file, std::int64_t part, std::int64_t parts) {
  std::string text;
  try {
    const CheckpointReader reader(file);
    for (const std::string& damage : reader.verify(part, parts)) {
      text += damage + '\n';
    }
  } catch (const std::exception& error) {
    text = fmt::format("{}\n", error.what());
  }
  return text;
}

// Each line once, without the name of the file.
std::set<std::string> lines_of(const std::vector<std::string>& texts, const std::string& file) {
  std::set<std::string> lines;
  for (const std::string& text : texts) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      std::string line = text.substr(begin, end - begin);
      if (line.starts_with(file + ": ")) {
        line.erase(0, file.size() + 2);
      }
      lines.insert(std::move(line));
      begin = end + 1;
    }
  }
  return lines;
}

// Adds `file`, unless it is one of a newer format, which nobody here can judge.
void add_file(const std::string& file, std::vector<std::string>& files, Said& said) {
  try {
    (void)CheckpointReader(file);
  } catch (const DamagedCheckpoint&) {
    // That is for the verification to say.
  } catch (const Error& error) {
    said.problems += fmt::format("{}\n", error.what());
    said.status = 2;
    return;
  }
  files.push_back(file);
}

// The files that the arguments stand for, a directory for all that it has; in `said`, what stands
// for none.
std::vector<std::string> files_of(const CommandLine& line, Said& said) {
  std::vector<std::string> files;
  for (const std::string& argument : line.files) {
    std::error_code problem;
    if (!std::filesystem::exists(argument, problem)) {
      said.problems +=
          fmt::format("{}: {}\n", argument, problem ? problem.message() : "there is no such file");
      said.status = 2;
    } else if (!std::filesystem::is_directory(argument, problem)) {
      add_file(argument, files, said);
    } else {
      const CheckpointListing listing = list_checkpoints(argument, "");
      for (const FoundCheckpoint& found : listing.checkpoints) {
        add_file(found.file.string(), files, said);
      }
      if (listing.checkpoints.empty()) {
        said.problems += fmt::format("{}: there are no checkpoints in this directory\n", argument);
        said.status = 2;
      }
      for (const std::filesystem::path& unfinished : listing.unfinished) {
        said.problems +=
            fmt::format("{}: has not been finished, and is never read; it is not looked at\n",
                        unfinished.string());
      }
    }
  }
  return files;
}

std::string whole_file(const std::string& file) {
  const CheckpointReader reader(file);
  return fmt::format("{}: whole: step {}, {} arrays in {} regions, {}\n", file, reader.state().step,
                     reader.tensors().size(), reader.regions().size(),
                     readable_bytes(reader.bytes()));
}

}  // namespace

Said verify(const CommandLine& line, const Communicator* all) {
  const bool root = all == nullptr || all->rank() == 0;
  Said said;
  std::string names;
  if (root) {
    try {
      for (const std::string& file : files_of(line, said)) {
        names += file + '\n';
      }
    } catch (const Error& error) {
      said.problems += fmt::format("{}\n", error.what());
      said.status = 2;
    }
  }
  if (all != nullptr) {
    names = broadcast_text(*all, names);
  }
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = names.find('\n', begin);
    const std::string file = names.substr(begin, end - begin);
    begin = end + 1;
    std::vector<std::string> found{
        damage_in(file, all == nullptr ? 0 : all->rank(), all == nullptr ? 1 : all->size())};
    if (all != nullptr) {
      found = gather_texts(*all, found.front());
    }
    if (!root) {
      continue;
    }
    const std::set<std::string> damage = lines_of(found, file);
    if (damage.empty()) {
      said.text += whole_file(file);
      continue;
    }
    said.text += fmt::format("{}: DAMAGED\n", file);
    for (const std::string& text : damage) {
      said.text += fmt::format("  {}\n", text);
    }
    said.status = std::max(said.status, 1);
  }
  return said;
}

}  // namespace meshwork
