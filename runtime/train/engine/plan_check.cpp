#include "runtime/train/engine/plan_check.h"

#include <algorithm>
#include <tuple>

#include "collectives/error.h"

namespace meshwork {
namespace {

Traffic* find(std::vector<Traffic>& traffic, std::string_view collective, int ranks) {
  const auto found = std::find_if(traffic.begin(), traffic.end(), [&](const Traffic& entry) {
    return entry.collective == collective && entry.ranks == ranks;
  });
  return found == traffic.end() ? nullptr : &*found;
}

std::string text_of(const Traffic& traffic) {
  return fmt::format("{} with {} bytes sent", traffic.operations, traffic.bytes);
}

}  // namespace

std::vector<Traffic> planned_traffic(const std::vector<CollectiveRecord>& records,
                                     const MeshShape& mesh) {
  std::vector<Traffic> planned;
  for (const CollectiveRecord& record : records) {
    const int ranks = static_cast<int>(mesh.size_over(record.axes));
    Traffic* entry = find(planned, record.collective, ranks);
    if (entry == nullptr) {
      entry = &planned.emplace_back(Traffic{.collective = record.collective, .ranks = ranks});
    }
    entry->operations += 1;
    entry->bytes += record.bytes_sent;
  }
  const auto place = [](const Traffic& entry) { return std::tuple(entry.collective, entry.ranks); };
  std::sort(planned.begin(), planned.end(),
            [&](const Traffic& left, const Traffic& right) { return place(left) < place(right); });
  return planned;
}

void require_planned(const std::vector<Traffic>& planned, const std::vector<Traffic>& sent,
                     const std::string& what) {
  if (planned == sent) {
    return;
  }
  std::vector<Traffic> left = sent;
  std::string differences;
  const auto differ = [&](const Traffic& kind, const std::string& plan, const std::string& run) {
    differences += fmt::format("\n  {} over {} ranks: {} planned, {} counted", kind.collective,
                               kind.ranks, plan, run);
  };
  for (const Traffic& entry : planned) {
    Traffic* found = find(left, entry.collective, entry.ranks);
    if (found == nullptr) {
      differ(entry, text_of(entry), "none");
    } else if (*found != entry) {
      differ(entry, text_of(entry), text_of(*found));
    }
  }
  for (Traffic& entry : left) {
    const bool known = std::any_of(planned.begin(), planned.end(), [&](const Traffic& other) {
      return other.collective == entry.collective && other.ranks == entry.ranks;
    });
    if (!known) {
      differ(entry, "none", text_of(entry));
    }
  }
  fail("{} sent messages that its plan lacks:{}", what, differences);
}

}  // namespace meshwork
