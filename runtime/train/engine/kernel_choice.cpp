#include "runtime/train/engine/kernel_choice.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/hosted.h"
#include "collectives/joined_text.h"
#include "collectives/path_text.h"
#include "collectives/rank_names.h"
#include "collectives/text_list.h"
#include "runtime/config/nearest.h"
#include "runtime/device/kernel_candidates.h"
#include "runtime/train/engine/kernels_file.h"

namespace meshwork {

KernelsOption kernels_option(const std::string& text) {
  if (text == "fixed") return {};
  if (text == "timed") return {.timed = true, .file = {}};
  if (text.find_first_of("./") == text.npos) {
    fail(
        "unknown choice of kernels \"{}\"{} (known: fixed, timed, or the name of a file, with a "
        "\".\" or a \"/\")",
        text, did_you_mean(text, std::vector<std::string>{"fixed", "timed"}));
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
  record_.platform = joined_text(platforms, " and ");
  if (!file_.empty()) read_file();
}

void KernelChooser::say(const std::string& line) const {
  if (ranks_->rank() == 0) say_(line);
}

void KernelChooser::read_file() {
  std::string list;  // names after their keys
  together(*ranks_, [&] {
    if (ranks_->rank() != 0) return;
    KernelRecords records = read_kernel_records(file_);
    require_writable(file_);
    std::vector<std::string> others;
    for (const auto& [platform, record] : records) {
      if (platform != record_.platform) others.push_back(platform);
    }
    in_file_ = std::move(records[record_.platform].chosen);
    for (const auto& [key, name] : in_file_) {
      append_entry(list, key);
      append_entry(list, name);
    }
    if (in_file_.empty() && !others.empty()) {
      say(fmt::format("kernels: {} is of {}; they are timed anew for {}", file_,
                      joined_text(others, ", of "), record_.platform));
    }
  });
  const std::vector<std::string> entries = entries_of(broadcast_text(*ranks_, list));
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
    record_.chosen[entries[i]] = entries[i + 1];
  }
}

void KernelChooser::write_file(const std::vector<std::string>& changed) {
  if (file_.empty()) return;
  const TracePoint waiting(
      trace_, fmt::format("waiting until rank {} has written the kernels' file", name_of_rank(0)));
  together(
      *ranks_,
      [&] {
        if (ranks_->rank() != 0) return;
        // What another run has added meanwhile stays, and so does what is of other platforms.
        KernelRecords records = read_kernel_records(file_);
        KernelRecord& mine = records[record_.platform];
        const auto before = mine.chosen;
        mine.platform = record_.platform;
        mine.chosen.insert(record_.chosen.begin(), record_.chosen.end());
        for (const std::string& key : changed) mine.chosen[key] = record_.chosen.at(key);
        if (mine.chosen != before) write_kernel_records(file_, records);
        in_file_ = std::move(mine.chosen);
      },
      waiting);
}

std::vector<KernelChooser::Wanted> KernelChooser::wanted(
    const std::map<std::string, Own>& own) const {
  std::string lists;  // of keys with the names after them
  for (const auto& [key, one] : own) {
    std::string list;
    append_entry(list, key);
    for (const KernelCandidate& candidate : one.candidates) append_entry(list, candidate.name);
    append_entry(lists, list);
  }
  std::vector<Wanted> found;
  std::map<std::string, std::size_t> places;
  for (const DistinctText& text : distinct_texts(*ranks_, lists)) {
    for (const std::string& list : entries_of(text.text)) {
      std::vector<std::string> names = entries_of(list);
      const std::string key = std::move(names.front());
      names.erase(names.begin());
      const auto [place, is_new] = places.emplace(key, found.size());
      if (is_new) {
        found.push_back({key, std::move(names), text.rank});
        continue;
      }
      std::erase_if(found[place->second].names, [&](const std::string& name) {
        return std::find(names.begin(), names.end(), name) == names.end();
      });
    }
  }
  std::erase_if(found, [](const Wanted& one) { return one.names.empty(); });
  return found;
}

std::size_t KernelChooser::fastest(const Own& own, const std::vector<std::string>& names) const {
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (const std::string& name : names) {
    const auto found =
        std::find_if(own.candidates.begin(), own.candidates.end(),
                     [&](const KernelCandidate& candidate) { return candidate.name == name; });
    kernels.push_back(found->compile());
  }
  return clearly_fastest(time_kernels(*device_, own.spec, kernels));
}

KernelChooser::Word KernelChooser::word_on(const Wanted& one, const std::map<std::string, Own>& own,
                                           const StopRequest* stop_request) const {
  const int asked = stop_request == nullptr ? 0 : stop_request->reason();
  std::array<std::int64_t, 2> word{0, asked};
  const TracePoint waiting(trace_, "waiting until other ranks have timed their kernels");
  together(
      *ranks_,
      [&] {
        const auto mine = own.find(one.key);
        if (mine == own.end() || asked > 0) return;
        const std::size_t place = fastest(mine->second, one.names);
        if (one.decider == ranks_->rank()) word[0] = static_cast<std::int64_t>(place);
      },
      waiting);
  const TracedCollective inside(waiting);
  await_ranks(*ranks_);
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, word.data(), 2, MPI_INT64_T, MPI_MAX, ranks_->native()),
            "MPI_Allreduce");
  return {word[0], word[1]};
}

void KernelChooser::choose(const std::vector<KernelSpec>& specs, const StopRequest* stop_request) {
  std::map<std::string, Own> own;
  for (const KernelSpec& spec : specs) {
    std::vector<KernelCandidate> candidates = device_->candidates(spec);
    if (!candidates.empty()) own.try_emplace(spec.key(), Own{spec, std::move(candidates)});
  }

  std::vector<Wanted> open;
  {
    const TracedCollective inside(TracePoint(trace_, "agreement on which kernels are timed"));
    open = wanted(own);
  }
  // What no candidate is common for is compiled by the rule, whatever a record says.
  for (const KernelSpec& spec : specs) {
    const std::string key = spec.key();
    const bool is_chosen =
        std::any_of(open.begin(), open.end(), [&](const Wanted& one) { return one.key == key; });
    if (!is_chosen) record_.chosen.erase(key);
  }
  std::vector<std::string> changed;
  std::erase_if(open, [&](const Wanted& one) {
    const auto known = record_.chosen.find(one.key);
    if (known != record_.chosen.end() &&
        std::find(one.names.begin(), one.names.end(), known->second) != one.names.end()) {
      return true;
    }
    if (one.names.size() > 1) return false;
    record_.chosen[one.key] = one.names.front();
    changed.push_back(one.key);
    return true;
  });
  if (!open.empty() && !std::exchange(told_, true)) {
    say(fmt::format("kernels: timing {} of them", open.size()));
  }

  const auto begin = std::chrono::steady_clock::now();
  int reason = 0;
  std::size_t timed = 0;
  for (; timed < open.size(); ++timed) {
    const Wanted& one = open[timed];
    const Word word = word_on(one, own, stop_request);
    reason = static_cast<int>(word.reason);
    if (reason > 0) break;
    record_.chosen[one.key] = one.names[static_cast<std::size_t>(word.place)];
    changed.push_back(one.key);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  constexpr double worth_a_line = 1;
  if (seconds.count() > worth_a_line) {
    say(fmt::format("kernels: timed {} of them in {:.1f} s", timed, seconds.count()));
  }
  if (!changed.empty()) write_file(changed);
  if (reason > 0) {
    throw Stopped(reason, fmt::format("stopped by {} while kernels were timed, {} of {} done",
                                      stop_reason_name(reason), timed, open.size()));
  }
}

bool KernelChooser::take_up(const KernelRecord& earlier) {
  if (earlier.platform != record_.platform) return false;
  bool changed = false;
  std::size_t differing = 0;
  std::string example;
  for (const auto& [key, name] : earlier.chosen) {
    std::string& mine = record_.chosen[key];
    changed = changed || (!mine.empty() && mine != name);
    mine = name;
    const auto kept = in_file_.find(key);
    if (kept != in_file_.end() && kept->second != name && differing++ == 0) {
      example = fmt::format("\"{}\" (\"{}\" there, \"{}\" here)", key, kept->second, name);
    }
  }
  if (differing > 0) {
    say(
        fmt::format("kernels: {} differs from the checkpoint in {} of them, such as {}; those of "
                    "the checkpoint are used",
                    file_, differing, example));
  }
  write_file({});
  return changed;
}

}  // namespace meshwork
