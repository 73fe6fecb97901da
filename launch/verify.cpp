// meshwork verify: whether files are what was written.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/path_text.h"
#include "launch/checkpoint_files.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/graph/plan_report.h"

namespace meshwork {
namespace {

// What is to be verified: `named` by the user, else found in a directory.
struct Candidate {
  std::string file;
  bool named = true;
};

// What a rank finds of a file, by line: what is damaged, and what keeps it from seeing.
struct Findings {
  std::string damage, problems;
  [[nodiscard]] bool none() const { return damage.empty() && problems.empty(); }
};

// Runs `action`, which returns what is damaged; what it throws is found as well.
template <class Action>
Findings findings_of(const Action& action) {
  try {
    std::string text;
    for (const std::string& damage : action()) {
      text += damage + '\n';
    }
    return {text, ""};
  } catch (const DamagedCheckpoint& damage) {
    return {damage.what(), ""};
  } catch (const std::exception& problem) {
    return {"", message_of(problem)};
  }
}

// Opens what the root has opened: if that fails here, the file is not what is wrong.
void open_as_root_could(std::optional<CheckpointReader>& reader, const std::string& file) {
  try {
    reader.emplace(file);
  } catch (const DamagedCheckpoint& problem) {
    throw Error(fmt::format("not for all ranks: {}", problem.what()));
  }
}

bool is_there(const std::string& file) {
  std::error_code problem;
  return std::filesystem::symlink_status(file, problem).type() !=
         std::filesystem::file_type::not_found;
}

// Each line once, without the name of the file.
std::set<std::string> lines_of(const std::vector<std::string>& texts, const std::string& file) {
  std::set<std::string> lines;
  for (const std::string& text : texts) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
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

// The files that the arguments stand for, a directory for all that it has; in `said`, what stands
// for none.
std::vector<Candidate> files_of(const CommandLine& line, Said& said) {
  std::vector<Candidate> files;
  for (const std::string& argument : line.files) {
    std::error_code problem;
    if (!std::filesystem::exists(argument, problem)) {
      said.problems += fmt::format("{}: {}\n", in_one_line(argument),
                                   problem ? problem.message() : "there is no such file");
      said.status = 2;
    } else if (!std::filesystem::is_directory(argument, problem)) {
      files.push_back({argument, true});
    } else {
      const CheckpointListing listing = list_checkpoints(argument, "");
      for (const FoundCheckpoint& found : listing.checkpoints) {
        files.push_back({found.file.string(), false});
      }
      if (listing.checkpoints.empty()) {
        said.problems +=
            fmt::format("{}: there are no checkpoints in this directory\n", in_one_line(argument));
        said.status = 2;
      }
      for (const std::filesystem::path& unfinished : listing.unfinished) {
        said.problems += fmt::format("{}: unfinished; never read, so not checked\n", unfinished);
      }
    }
  }
  return files;
}

// Says what came of `candidate`, which `reader` (null if it cannot be opened) has open: what all
// ranks have found of damage, and of problems.
void report(const Candidate& candidate, const CheckpointReader* reader,
            const std::vector<std::string>& all_damage,
            const std::vector<std::string>& all_problems, Said& said) {
  const std::string& file = candidate.file;
  const std::set<std::string> problems = lines_of(all_problems, file);
  const std::set<std::string> damage = lines_of(all_damage, file);
  const bool gone = (!problems.empty() || !damage.empty()) && !is_there(file);
  if (gone) {
    said.problems += fmt::format("{}: removed meanwhile; not checked\n", file);
    said.status = candidate.named ? 2 : said.status;
  } else if (!problems.empty()) {
    for (const std::string& text : problems) {
      said.problems += fmt::format("{}: {}\n", file, text);
    }
    said.status = 2;
  } else if (!damage.empty()) {
    said.text += file + ": ";
    said.say("DAMAGED", Colour::red);
    said.text += '\n';
    for (const std::string& text : damage) {
      said.text += fmt::format("  {}\n", text);
    }
    said.status = std::max(said.status, 1);
  } else {
    said.text += file + ": ";
    said.say("ok", Colour::green);
    said.text += fmt::format(": step {}, {} arrays in {} regions, {}\n", reader->state().step,
                             reader->tensors().size(), reader->regions().size(),
                             readable_bytes(reader->bytes()));
    if (!reader->protects_attributes()) {
      said.text += fmt::format(
          "  its format, version {}, does not protect attributes: step, epoch and learning rate "
          "may "
          "be others than were written\n",
          reader->format_version());
    }
  }
}

}  // namespace

Said verify(const CommandLine& line, const Communicator* all) {
  const bool root = all == nullptr || all->rank() == 0;
  const bool shared = all != nullptr && all->size() > 1;
  Said said;
  std::vector<Candidate> candidates;
  if (root) {
    try {
      candidates = files_of(line, said);
    } catch (const std::exception& error) {
      said.problems += fmt::format("{}\n", error.what());
      said.status = 2;
    }
  }
  // The root opens each file and tells the others of those that it has; a run may remove its older
  // ones at any moment. Whatever a rank meets, it comes to the gathering.
  for (std::size_t i = 0;; ++i) {
    std::optional<CheckpointReader> reader;
    Findings found;
    const std::string file = root && i < candidates.size() ? candidates[i].file : "";
    if (!file.empty()) {
      found = findings_of([&] {
        reader.emplace(file);
        return std::vector<std::string>();
      });
    }
    const std::string name = shared ? broadcast_text(*all, file) : file;
    if (name.empty()) {
      return said;
    }
    const bool open = !shared || broadcast_text(*all, found.none() ? "open" : "") == "open";
    if (open && found.none()) {
      found = findings_of([&] {
        if (!reader) {
          open_as_root_could(reader, name);
        }
        return reader->verify(shared ? all->rank() : 0, shared ? all->size() : 1);
      });
    }
    const auto gathered = [&](const std::string& text) {
      return shared ? gather_texts(*all, text) : std::vector{text};
    };
    const std::vector<std::string> damage = gathered(found.damage);
    const std::vector<std::string> problems = gathered(found.problems);
    if (root) {
      report(candidates[i], reader ? &*reader : nullptr, damage, problems, said);
    }
  }
}

}  // namespace meshwork
