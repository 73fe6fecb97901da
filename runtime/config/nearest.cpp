#include "runtime/config/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <tuple>

namespace meshwork {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return lower;
}

constexpr std::size_t shortest_beginning = 3;  // letters
constexpr std::size_t shortest_word = 5;

/// Whether a word of `name`, which are joined by underscores, is `word` but for one slip.
bool has_word_like(std::string_view name, std::string_view word) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('_', begin), name.size());
    if (edit_distance(name.substr(begin, end - begin), word) <= 1) return true;
    begin = end + 1;
  }
  return false;
}

/// Distance without regard to case, then with it: a name in the wrong case is the nearest there is.
/// A name cut short is one slip, however much is missing: "val_acc" means "val_accuracy". A word
/// out of a name is two: "causal" means "use_causal_mask".
std::pair<std::int64_t, std::int64_t> distances(std::string_view written, std::string_view name) {
  const std::string folded = lower_case(written);
  const bool cut_short = written.size() >= shortest_beginning && written.size() < name.size() &&
                         lower_case(name).starts_with(folded);
  std::int64_t distance = cut_short ? 1 : edit_distance(folded, lower_case(name));
  if (distance > 2 && written.size() >= shortest_word && has_word_like(lower_case(name), folded)) {
    distance = 2;
  }
  return {distance, edit_distance(written, name)};
}

}  // namespace

std::int64_t edit_distance(std::string_view a, std::string_view b) {
  // Row i holds the distances of the first i letters of `a` to every beginning of `b`.
  std::vector<std::int64_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<std::int64_t>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<std::int64_t>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::int64_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  const std::vector<std::string> nearest = nearest_names(name, candidates, 1);
  if (nearest.empty()) return "";
  const auto longer = static_cast<std::int64_t>(std::max(name.size(), nearest[0].size()));
  const std::int64_t limit = longer <= 3 ? 1 : longer / 2;
  return distances(name, nearest[0]).first <= limit ? nearest[0] : "";
}

std::vector<std::string> nearest_names(std::string_view name,
                                       std::span<const std::string> candidates, std::size_t count) {
  std::vector<std::tuple<std::int64_t, std::int64_t, std::size_t>> order;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto [folded, exact] = distances(name, candidates[i]);
    order.emplace_back(folded, exact, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::string> nearest;
  for (const auto& [folded, exact, i] : order) {
    if (nearest.size() == count) break;
    nearest.push_back(candidates[i]);
  }
  return nearest;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest);
}

std::string quoted_list(std::span<const std::string> names) {
  if (names.empty()) return "none";
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += fmt::format("\"{}\"", names[i]);
  }
  return text;
}

}  // namespace meshwork
