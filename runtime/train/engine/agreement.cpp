#include "runtime/train/engine/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/rank_names.h"
#include "collectives/text_list.h"

namespace meshwork {
namespace {

using AxisLists = std::set<std::vector<Axis>>;

// Lists of axes as a list of lists of names.
std::string text_of(const AxisLists& lists, const MeshShape& mesh) {
  std::string text;
  for (const std::vector<Axis>& list : lists) {
    std::string names;
    for (const Axis axis : list) append_entry(names, mesh.name(axis));
    append_entry(text, names);
  }
  return text;
}

AxisLists lists_in(const std::string& text, const MeshShape& mesh) {
  AxisLists lists;
  for (const std::string& names : entries_of(text)) {
    std::vector<Axis> list;
    for (const std::string& name : entries_of(names)) list.push_back(mesh.axis(name));
    lists.insert(std::move(list));
  }
  return lists;
}

// What one rank sends to others, or expects from them: by the other's number and what it is, how
// often. Messages of one tensor come in their order, those of different ones in any.
using Messages = std::map<std::pair<std::int64_t, std::string>, int>;

// The same in words that both ranks have for it.
std::string text_of(const Messages& messages, std::int64_t rank, bool sends) {
  std::string text;
  for (const auto& [message, times] : messages) {
    const auto& [other, entry] = message;
    const auto named = [](std::int64_t one) { return name_of_rank(static_cast<int>(one)); };
    const int from = named(sends ? rank : other), to = named(sends ? other : rank);
    text += fmt::format("from rank {} to rank {}, {} times: {}\n", from, to, times, entry);
  }
  return text;
}

std::vector<std::string> sorted_lines(const std::vector<std::string>& texts) {
  std::vector<std::string> lines;
  for (const std::string& text : texts) {
    std::size_t begin = 0;
    for (std::size_t end = text.find('\n'); end != std::string::npos;
         end = text.find('\n', begin)) {
      lines.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  std::ranges::sort(lines);
  return lines;
}

// Rank 0 compares what is sent with what is expected, and tells all of the first that differs.
void require_matching(const DeviceMesh& mesh, const Messages& sent, const Messages& expected,
                      const std::string& what) {
  const std::vector<std::string> all_sent =
      sorted_lines(gather_texts(mesh.all(), text_of(sent, mesh.rank(), true)));
  const std::vector<std::string> all_expected =
      sorted_lines(gather_texts(mesh.all(), text_of(expected, mesh.rank(), false)));
  std::string difference;
  if (all_sent != all_expected) {
    const auto [left, right] = std::ranges::mismatch(all_sent, all_expected);
    difference = fmt::format("{} do not match: sent {}; expected {}", what,
                             left != all_sent.end() ? *left : "nothing more",
                             right != all_expected.end() ? *right : "nothing more");
  }
  difference = broadcast_text(mesh.all(), difference);
  if (!difference.empty()) fail("{}", difference);
}

}  // namespace

void agree_on_collectives(DeviceMesh& mesh, Transport& transport, const std::vector<Axis>& placing,
                          const MeshCollectives& booked, const std::string& what) {
  const MeshShape& shape = mesh.shape();
  std::vector<std::string> together, of_part;
  AxisLists axes;
  Messages sent, expected;
  for (const CollectiveRecord& record : booked.records()) {
    const std::string entry = describe(record, shape);
    if (!record.axes.empty()) axes.insert(record.axes);
    const bool between_parts = std::ranges::any_of(
        record.axes, [&](Axis axis) { return std::ranges::find(placing, axis) != placing.end(); });
    if (!between_parts || (record.sends_to.empty() && record.receives_from.empty())) {
      (between_parts ? together : of_part).push_back(entry);
      continue;
    }
    for (const int peer : record.sends_to) {
      ++sent[{shape.neighbour(mesh.rank(), record.axes, peer), entry}];
    }
    for (const int peer : record.receives_from) {
      ++expected[{shape.neighbour(mesh.rank(), record.axes, peer), entry}];
    }
  }
  if (placing.empty()) {
    require_agreement(mesh.all(), of_part, what);
    return;
  }
  require_agreement(mesh.all(), together, what);
  std::vector<Axis> others;
  for (Axis axis = 0; axis < shape.axis_count(); ++axis) {
    if (std::ranges::find(placing, axis) == placing.end()) others.push_back(axis);
  }
  if (!others.empty()) {
    mesh.prepare(others);
    require_agreement(mesh.communicator(others), of_part, what);
  }
  require_matching(mesh, sent, expected, what);
  // All ranks have agreed, so that all of them get here.
  AxisLists wanted;
  for (const DistinctText& text : distinct_texts(mesh.all(), text_of(axes, shape))) {
    wanted.merge(lists_in(text.text, shape));
  }
  for (const std::vector<Axis>& list : wanted) {
    mesh.prepare(list);
    transport.prepare(mesh.communicator(list));
  }
}

}  // namespace meshwork
