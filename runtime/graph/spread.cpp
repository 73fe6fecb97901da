#include "runtime/graph/spread.h"

#include <algorithm>
#include <bit>

namespace meshwork {
namespace {

bool contains(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

Layout split_by_letters(const std::string& letters, const Split& split) {
  Layout layout = Layout::replicated(letters.size());
  for (std::size_t d = 0; d < letters.size(); ++d) {
    if (const auto found = split.find(letters[d]); found != split.end()) {
      layout.dimensions[d] = found->second;
    }
  }
  return layout;
}

// Adds the axes of every split letter that `letters` lacks and that the operation does not
// complete.
void make_partial(Layout& layout, const std::string& letters, const Rule& rule,
                  const Split& split) {
  for (const auto& [letter, axes] : split) {
    if (!contains(letters, letter) && !contains(rule.own, letter)) {
      layout.partial.insert(layout.partial.end(), axes.begin(), axes.end());
    }
  }
  std::sort(layout.partial.begin(), layout.partial.end());
}

double all_reduce_seconds(double bytes, std::int64_t ranks, const CostModel& costs) {
  const double n = static_cast<double>(ranks);
  return message_seconds(2 * (n - 1) / n * bytes, ranks, costs);
}

}  // namespace

Layout needed_layout(const Rule& rule, const Split& split, int input) {
  return split_by_letters(rule.inputs[input], split);
}

Layout natural_layout(const Rule& rule, const Split& split) {
  Layout layout = split_by_letters(rule.output, split);
  make_partial(layout, rule.output, rule, split);
  return layout;
}

Layout raw_layout(const Rule& rule, const Split& split, int input) {
  Layout layout = split_by_letters(rule.inputs[input], split);
  make_partial(layout, rule.inputs[input], rule, split);
  return layout;
}

double message_seconds(double bytes, std::int64_t ranks, const CostModel& costs) {
  return costs.latency_seconds * std::bit_width(static_cast<std::uint64_t>(ranks - 1)) +
         bytes / costs.bytes_per_second;
}

double step_seconds(const RedistributionStep& step, const Shape& shape, const MeshShape& mesh,
                    const CostModel& costs) {
  if (!communicates(step.kind)) {
    return 0;
  }
  return message_seconds(float32_bytes * elements_sent_bound(step, shape, mesh),
                         mesh.size_over(step.axes), costs);
}

double sum_seconds(const Layout& natural, const MeshShape& mesh, const CostModel& costs) {
  if (!natural.dimensions.empty() || natural.partial.empty()) {
    return 0;
  }
  return all_reduce_seconds(8, mesh.size_over(natural.partial), costs);
}

double own_reduction_seconds(const OwnReduction& reduction, const Split& split,
                             const std::map<char, std::int64_t>& lengths, const MeshShape& mesh,
                             const CostModel& costs) {
  std::int64_t ranks = 1;
  for (const char letter : reduction.over) {
    if (const auto axes = split.find(letter); axes != split.end()) {
      ranks *= mesh.size_over(axes->second);
    }
  }
  if (ranks == 1) {
    return 0;
  }
  double bytes = static_cast<double>(reduction.bytes_per_element);
  for (const char letter : reduction.of) {
    const auto axes = split.find(letter);
    bytes *= static_cast<double>(lengths.at(letter)) /
             (axes == split.end() ? 1.0 : static_cast<double>(mesh.size_over(axes->second)));
  }
  return all_reduce_seconds(bytes, ranks, costs);
}

double largest_share(const Operation& operation, std::span<const Shape> inputs, const Split& split,
                     const std::map<char, std::int64_t>& lengths, const MeshShape& mesh) {
  double share = 1;
  for (const auto& [letter, axes] : split) {
    const std::int64_t parts = std::min(lengths.at(letter), mesh.size_over(axes));
    share *= operation.largest_share(letter, std::max<std::int64_t>(parts, 1), inputs);
  }
  return share;
}

}  // namespace meshwork
