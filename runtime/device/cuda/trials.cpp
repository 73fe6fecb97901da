#include "runtime/device/cuda/trials.h"

#include <fmt/format.h>

#include <vector>

#include "collectives/joined_text.h"

namespace meshwork::cuda {

bool Trials::stands(const std::string& name, std::string_view candidate, std::string_view key,
                    Untried untried, const std::function<std::string()>& try_it) {
  const std::string subject = fmt::format("{}\n{}", name, key);
  if (const auto known = verdicts_.find(subject); known != verdicts_.end()) return known->second;
  std::string reason;
  try {
    reason = try_it();
  } catch (const NoTrialMemory& lack) {
    if (untried == Untried::left) left_untried_.emplace(name, lack.what());
    return untried == Untried::taken;
  }
  verdicts_.emplace(subject, reason.empty());
  if (!reason.empty() && refused_++ == 0) {
    first_ = fmt::format("\"{}\" for {}: {}", candidate, name, reason);
  }
  return reason.empty();
}

void Trials::note_last_resort(const std::string& name, std::string_view taken) {
  last_resorts_[name] = taken;
}

std::string Trials::remark() const {
  std::vector<std::string> lines;
  if (!last_resorts_.empty()) {
    const auto& [name, taken] = *last_resorts_.begin();
    lines.push_back(fmt::format(
        "warning: the GPU's libraries have no kernel for {} of the specifications, such "
        "as {}; {} is taken there",
        last_resorts_.size(), name, taken));
  }
  if (refused_ > 0) {
    lines.push_back(
        fmt::format("kernels: {} of the GPU's libraries did not stand their trial and are not "
                    "taken; the first is {}",
                    refused_, first_));
  }
  if (!left_untried_.empty()) {
    const auto& [name, why] = *left_untried_.begin();
    lines.push_back(
        fmt::format("warning: there was no memory to try the fused kernels of {} specifications, "
                    "such as {}, and plain ones are taken, on this rank alone perhaps: {}",
                    left_untried_.size(), name, why));
  }
  return joined_text(lines, "\n");
}

}  // namespace meshwork::cuda
