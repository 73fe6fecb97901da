#include "runtime/train/kernel_choice.h"

#include <fmt/ranges.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "runtime/config/load.h"
#include "runtime/config/nearest.h"
#include "runtime/device/kernel_candidates.h"

namespace meshwork {
namespace {

// Lists as texts: neither keys nor names contain a tab or a line end.

std::string line_of(const std::vector<std::string>& fields) {
  return fmt::format("{}\n", fmt::join(fields, "\t"));
}

std::vector<std::vector<std::string>> lines_of(const std::string& text) {
  std::vector<std::vector<std::string>> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    std::vector<std::string>& fields = lines.emplace_back();
    while (at <= end) {
      const std::size_t stop = std::min(text.find('\t', at), end);
      fields.push_back(text.substr(at, stop - at));
      at = stop + 1;
    }
  }
  return lines;
}

// As YAML reads back.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::map<std::string, KernelRecord> read_records(const std::filesystem::path& file) {
  std::map<std::string, KernelRecord> records;
  if (!std::filesystem::exists(file)) return records;
  const ConfigNode document = load_config(file.string());
  if (document.is_null()) return records;
  for (const ConfigEntry& platform : document.entries()) {
    KernelRecord& record = records[platform.name];
    record.platform = platform.name;
    for (const ConfigEntry& entry : platform.value.entries()) {
      record.chosen[entry.name] = entry.value.as<std::string>();
    }
  }
  return records;
}

// Aside, then under its name, so that nobody reads half of it.
void write_records(const std::filesystem::path& file,
                   const std::map<std::string, KernelRecord>& records) {
  const std::filesystem::path aside = fmt::format("{}.{}", file.string(), ::getpid());
  std::ofstream out(aside);
  out << "# Kernels chosen by timing, by processor or GPU and library. What is not here is timed "
         "and added.\n";
  for (const auto& [platform, record] : records) {
    out << quoted(platform) << ":\n";
    for (const auto& [key, name] : record.chosen) {
      out << "  " << quoted(key) << ": " << quoted(name) << "\n";
    }
  }
  out.close();
  if (!out || std::rename(aside.c_str(), file.c_str()) != 0) {
    const int reason = errno;
    ::unlink(aside.c_str());
    fail("kernels: {} cannot be written: {}", file.string(), std::strerror(reason));
  }
}

}  // namespace

KernelsOption kernels_option(const std::string& text) {
  if (text == "fixed") return {};
  if (text == "timed") return {.timed = true, .file = {}};
  if (text.find_first_of("./") == text.npos) {
    const std::string nearest = nearest_name(text, std::vector<std::string>{"fixed", "timed"});
    fail(
        "unknown choice of kernels \"{}\"{} (known: fixed, timed, or the name of a file, with a "
        "\".\" or a \"/\")",
        text, nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest));
  }
  return {.timed = true, .file = text};
}

KernelChooser::KernelChooser(const Communicator& ranks, Device& device, CollectiveTrace* trace,
                             std::filesystem::path file,
                             std::function<void(const std::string&)> say)
    : ranks_(&ranks),
      device_(&device),
      trace_(trace),
      file_(std::move(file)),
      say_(std::move(say)) {
  const TracedCollective inside(TracePoint(trace_, "agreement on what kernels are timed on"));
  std::vector<std::string> platforms;
  for (const DistinctText& platform : distinct_texts(ranks, device.platform())) {
    platforms.push_back(platform.text);
  }
  std::sort(platforms.begin(), platforms.end());
  record_.platform = fmt::format("{}", fmt::join(platforms, " and "));
  if (!file_.empty()) read_file();
}

void KernelChooser::read_file() {
  std::string lines;
  together(*ranks_, [&] {
    if (ranks_->rank() != 0) return;
    in_file_ = read_records(file_);
    for (const auto& [key, name] : in_file_[record_.platform].chosen) lines += line_of({key, name});
    if (lines.empty() && in_file_.size() > 1) {
      std::vector<std::string> others;
      for (const auto& [platform, record] : in_file_) {
        if (platform != record_.platform) others.push_back(platform);
      }
      say_(fmt::format("kernels: {} is of {}; they are timed anew for {}", file_.string(),
                       fmt::join(others, ", of "), record_.platform));
    }
  });
  for (const std::vector<std::string>& fields : lines_of(broadcast_text(*ranks_, lines))) {
    record_.chosen[fields[0]] = fields[1];
  }
}

void KernelChooser::write_file(const std::vector<std::string>& timed) {
  if (ranks_->rank() != 0) return;
  // What another run has added meanwhile stays, and so does what is of other platforms. What this
  // one has timed takes the place of names that are none.
  in_file_ = read_records(file_);
  KernelRecord& mine = in_file_[record_.platform];
  mine.platform = record_.platform;
  mine.chosen.insert(record_.chosen.begin(), record_.chosen.end());
  for (const std::string& key : timed) mine.chosen[key] = record_.chosen.at(key);
  write_records(file_, in_file_);
}

std::vector<KernelChooser::Wanted> KernelChooser::wanted(
    const std::map<std::string, Own>& own) const {
  std::string lines;
  for (const auto& [key, one] : own) {
    std::vector<std::string> fields{key};
    for (const KernelCandidate& candidate : one.candidates) fields.push_back(candidate.name);
    lines += line_of(fields);
  }
  std::vector<Wanted> found;
  std::map<std::string, std::size_t> places;
  for (const DistinctText& list : distinct_texts(*ranks_, lines)) {
    for (std::vector<std::string>& fields : lines_of(list.text)) {
      const std::string key = std::move(fields.front());
      fields.erase(fields.begin());
      const auto [place, is_new] = places.emplace(key, found.size());
      if (is_new) {
        found.push_back({key, std::move(fields), list.rank});
        continue;
      }
      std::erase_if(found[place->second].names, [&](const std::string& name) {
        return std::find(fields.begin(), fields.end(), name) == fields.end();
      });
    }
  }
  std::erase_if(found, [](const Wanted& one) { return one.names.empty(); });
  return found;
}

std::size_t KernelChooser::fastest(const Own& own, const std::vector<std::string>& names) const {
  if (names.size() < 2) return 0;
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (const std::string& name : names) {
    const auto found =
        std::find_if(own.candidates.begin(), own.candidates.end(),
                     [&](const KernelCandidate& candidate) { return candidate.name == name; });
    kernels.push_back(found->compile());
  }
  return clearly_fastest(time_kernels(*device_, own.spec, kernels));
}

void KernelChooser::choose(const std::vector<KernelSpec>& specs) {
  std::map<std::string, Own> own;
  for (const KernelSpec& spec : specs) {
    std::vector<KernelCandidate> candidates = device_->candidates(spec);
    if (!candidates.empty()) own.try_emplace(key_of(spec), Own{spec, std::move(candidates)});
  }

  std::vector<Wanted> open;
  {
    const TracedCollective inside(TracePoint(trace_, "agreement on which kernels are timed"));
    open = wanted(own);
  }
  // What no candidate is common for is compiled by the rule, whatever a record says.
  for (const KernelSpec& spec : specs) {
    const std::string key = key_of(spec);
    const bool is_chosen =
        std::any_of(open.begin(), open.end(), [&](const Wanted& one) { return one.key == key; });
    if (!is_chosen) record_.chosen.erase(key);
  }
  std::erase_if(open, [&](const Wanted& one) {
    const auto known = record_.chosen.find(one.key);
    return known != record_.chosen.end() &&
           std::find(one.names.begin(), one.names.end(), known->second) != one.names.end();
  });
  if (open.empty()) return;

  std::vector<std::int64_t> answers(open.size(), 0);
  const TracePoint waiting(trace_, "waiting until other ranks have timed their kernels");
  together(
      *ranks_,
      [&] {
        for (std::size_t i = 0; i < open.size(); ++i) {
          const auto mine = own.find(open[i].key);
          if (mine == own.end()) continue;
          const std::size_t found = fastest(mine->second, open[i].names);
          if (open[i].decider == ranks_->rank()) answers[i] = static_cast<std::int64_t>(found);
        }
      },
      waiting);
  {
    const TracedCollective inside(waiting);
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, answers.data(), static_cast<int>(answers.size()),
                            MPI_INT64_T, MPI_MAX, ranks_->native()),
              "MPI_Allreduce");
  }
  std::vector<std::string> timed;
  for (std::size_t i = 0; i < open.size(); ++i) {
    record_.chosen[open[i].key] = open[i].names[static_cast<std::size_t>(answers[i])];
    timed.push_back(open[i].key);
  }
  if (!file_.empty())
    together(
        *ranks_, [&] { write_file(timed); }, waiting);
}

bool KernelChooser::take_up(const KernelRecord& earlier) {
  if (earlier.platform != record_.platform) return false;
  bool changed = false;
  for (const auto& [key, name] : earlier.chosen) {
    std::string& mine = record_.chosen[key];
    changed = changed || (!mine.empty() && mine != name);
    mine = name;
  }
  return changed;
}

}  // namespace meshwork
