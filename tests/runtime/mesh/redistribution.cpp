// Redistribution against the truth, without MPI: every pair of layouts is planned and played on
// vectors in one process, moving exactly the regions that `transfers` names.
#include "runtime/mesh/redistribution.h"

#include <algorithm>
#include <functional>
#include <random>

#include "collectives/error.h"
#include "tests/support/catch.h"
#include "tests/support/elements_sent.h"

namespace meshwork::redistribution_test {

namespace {

using Values = std::vector<std::int64_t>;  // of one block, row-major

/// Calls `visit` with every index of `block`.
template <class Visit>
void for_each_index(const Block& block, const Visit& visit) {
  Shape index;
  index.reserve(block.size());
  for (const Range& range : block) {
    if (range.length() <= 0) return;
    index.push_back(range.begin);
  }
  for (;;) {
    visit(index);
    std::size_t dimension = block.size();
    while (dimension > 0 && ++index[dimension - 1] == block[dimension - 1].end) {
      index[dimension - 1] = block[dimension - 1].begin;
      --dimension;
    }
    if (dimension == 0) return;
  }
}

std::int64_t offset_in(const Block& block, const Shape& index) {
  std::int64_t offset = 0;
  for (std::size_t dimension = 0; dimension < block.size(); ++dimension) {
    offset = offset * block[dimension].length() + index[dimension] - block[dimension].begin;
  }
  return offset;
}

bool inside(const Block& part, const Block& block) {
  if (size_of(part) == 0) return true;
  for (std::size_t dimension = 0; dimension < block.size(); ++dimension) {
    if (part[dimension].begin < block[dimension].begin ||
        part[dimension].end > block[dimension].end) {
      return false;
    }
  }
  return true;
}

/// A tensor on all ranks of a mesh, in one process.
class Simulation {
 public:
  Simulation(const MeshShape& mesh, const Shape& shape, const Layout& layout)
      : mesh_(mesh), shape_(shape), layout_(layout), blocks_(mesh.rank_count()) {
    for (std::int64_t rank = 0; rank < mesh.rank_count(); ++rank) {
      const Block block = block_of(layout, shape, mesh, rank);
      for_each_index(block, [&](const Shape& index) {
        // The addends of a partial sum differ from each other; the last one completes the truth.
        const std::int64_t addends = mesh.size_over(layout.partial);
        const std::int64_t addend = mesh.index_over(rank, layout.partial);
        std::int64_t value = truth(index);
        if (addend + 1 < addends) {
          value = 1000 * (addend + 1) + truth(index) * truth(index);
        } else {
          for (std::int64_t i = 0; i + 1 < addends; ++i) {
            value -= 1000 * (i + 1) + truth(index) * truth(index);
          }
        }
        blocks_[rank].push_back(value);
      });
    }
  }

  [[nodiscard]] std::int64_t truth(const Shape& index) const {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < index.size(); ++i) offset = offset * shape_[i] + index[i];
    return offset + 1;
  }

  /// What is wrong with the step, or "".
  std::string run(const RedistributionStep& step) {
    if (!(step.from == layout_)) return "does not start where the last step ended";
    layout_ = step.to;
    std::vector<Values> next(blocks_.size());
    const std::int64_t ranks = mesh_.rank_count();
    const std::int64_t n = mesh_.size_over(step.axes);
    const double bound = elements_sent_bound(step, shape_, mesh_);
    std::vector<TransferPlan> plans;
    const bool exchanges = communicates(step.kind) && step.kind != StepKind::all_reduce;
    if (exchanges) {
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        plans.push_back(transfers(step, shape_, mesh_, rank));
      }
    }
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const Block before = block_of(step.from, shape_, mesh_, rank);
      const Block after = block_of(step.to, shape_, mesh_, rank);
      Values& result = next[rank];
      result.assign(size_of(after), 0);
      const std::int64_t own = mesh_.index_over(rank, step.axes);
      std::int64_t sent = 0;
      if (step.kind == StepKind::slice) {
        if (!inside(after, before)) return "slices what a rank does not have";
        for_each_index(after, [&](const Shape& index) {
          result[offset_in(after, index)] = blocks_[rank][offset_in(before, index)];
        });
      } else if (step.kind == StepKind::keep_owner) {
        if (own == 0) result = blocks_[rank];
      } else if (step.kind == StepKind::all_reduce) {
        for (std::int64_t peer = 0; peer < n; ++peer) {
          const Values& addend = blocks_[mesh_.neighbour(rank, step.axes, peer)];
          if (addend.size() != result.size()) return "adds blocks of different sizes";
          for (std::size_t i = 0; i < result.size(); ++i) result[i] += addend[i];
        }
      } else {
        if (static_cast<std::int64_t>(plans[rank].sends.size()) != n ||
            static_cast<std::int64_t>(plans[rank].receives.size()) != n) {
          return "does not have one transfer a peer";
        }
        std::vector<int> written(result.size(), 0);
        for (std::int64_t peer = 0; peer < n; ++peer) {
          const std::int64_t other = mesh_.neighbour(rank, step.axes, peer);
          const Transfer& receive = plans[rank].receives[peer];
          const Transfer& send = plans[other].sends[own];
          if (receive.peer != peer || send.peer != own) return "misnumbers its peers";
          if (size_of(receive.region) != size_of(send.region) ||
              (size_of(receive.region) > 0 && receive.region != send.region)) {
            return "has sender and receiver disagree";
          }
          const Block theirs = block_of(step.from, shape_, mesh_, other);
          if (!inside(receive.region, theirs)) return "sends what a rank does not have";
          if (!inside(receive.region, after)) return "receives what a rank does not want";
          for_each_index(receive.region, [&](const Shape& index) {
            result[offset_in(after, index)] += blocks_[other][offset_in(theirs, index)];
            ++written[offset_in(after, index)];
          });
          if (peer != own) sent += size_of(plans[rank].sends[peer].region);
        }
        const int times = step.kind == StepKind::reduce_scatter ? static_cast<int>(n) : 1;
        for (const int count : written) {
          if (count != times) return "leaves or repeats elements";
        }
        if (step.kind == StepKind::permute) {
          const auto whole_sends = std::count_if(
              plans[rank].sends.begin(), plans[rank].sends.end(),
              [&](const Transfer& send) { return size_of(send.region) == size_of(before); });
          if (size_of(before) > 0 && whole_sends != 1) return "permutes parts of blocks";
        }
      }
      const std::int64_t held = size_of(before), gets = size_of(after);
      std::int64_t counted = 0;
      if (step.kind == StepKind::permute || step.kind == StepKind::all_to_all) {
        counted = sent;
      } else if (step.kind == StepKind::all_reduce) {
        counted = (2 * held * (n - 1) + n - 1) / n;
      } else if (step.kind == StepKind::all_gather) {
        counted = (gets * (n - 1) + n - 1) / n;
      } else if (step.kind == StepKind::reduce_scatter) {
        std::int64_t handed = 0;
        for (const Transfer& send : plans[rank].sends) handed += size_of(send.region);
        counted = (handed * (n - 1) + n - 1) / n;
      }
      if (static_cast<double>(counted) > bound + 1) {
        return "sends more than the bound";
      }
    }
    blocks_ = std::move(next);
    return "";
  }

  /// Whether the ranks hold the truth, lying as `layout`.
  [[nodiscard]] bool holds(const Layout& layout) const {
    bool right = layout_ == layout.canonical(mesh_);
    for (std::int64_t rank = 0; rank < mesh_.rank_count() && right; ++rank) {
      const Block block = block_of(layout, shape_, mesh_, rank);
      right = static_cast<std::int64_t>(blocks_[rank].size()) == size_of(block);
      if (!right) break;
      for_each_index(block, [&](const Shape& index) {
        std::int64_t sum = 0;
        for (std::int64_t i = 0; i < mesh_.size_over(layout.partial); ++i) {
          sum += blocks_[mesh_.neighbour(rank, layout.partial, i)][offset_in(block, index)];
        }
        right = right && sum == truth(index);
      });
    }
    return right;
  }

 private:
  MeshShape mesh_;
  Shape shape_;
  Layout layout_;
  std::vector<Values> blocks_;
};

/// Every layout of `dimensions` dimensions on a mesh of `axes` axes.
std::vector<Layout> all_layouts(int dimensions, int axes, bool with_partial) {
  std::vector<Layout> layouts{Layout::replicated(dimensions)};
  for (Axis axis = 0; axis < axes; ++axis) {
    std::vector<Layout> more;
    for (const Layout& layout : layouts) {
      more.push_back(layout);
      if (with_partial) {
        more.push_back(layout);
        more.back().partial.push_back(axis);
      }
      for (int dimension = 0; dimension < dimensions; ++dimension) {
        for (std::size_t place = 0; place <= layout.dimensions[dimension].size(); ++place) {
          Layout split = layout;
          std::vector<Axis>& list = split.dimensions[dimension];
          list.insert(list.begin() + static_cast<std::ptrdiff_t>(place), axis);
          more.push_back(split);
        }
      }
    }
    layouts = std::move(more);
  }
  return layouts;
}

bool has_meaning(const Layout& from, const Layout& to) {
  for (const Axis axis : to.partial) {
    if (from.is_partial(axis)) continue;
    if (from.dimension_of(axis) >= 0) return false;
    for (const Axis other : from.partial) {
      if (!to.is_partial(other)) return false;
    }
  }
  return true;
}

void for_each_pair(const MeshShape& mesh, int dimensions,
                   const std::function<std::string(const Layout&, const Layout&)>& what_is_wrong) {
  const std::vector<Layout> layouts = all_layouts(dimensions, mesh.axis_count(), true);
  int failures = 0;
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      if (!has_meaning(from, to)) continue;
      const std::string wrong = what_is_wrong(from, to);
      if (wrong.empty()) continue;
      if (++failures <= 3) {
        FAIL_CHECK(to_string(mesh) << ": " << to_string(from, mesh) << " -> " << to_string(to, mesh)
                                   << ": " << wrong);
      }
    }
  }
  CHECK(failures == 0);
}

std::string play(const MeshShape& mesh, const Shape& shape, const Layout& from, const Layout& to) {
  Simulation simulation(mesh, shape, from);
  for (const RedistributionStep& step : plan_redistribution(from, to, shape, mesh)) {
    const std::string wrong = simulation.run(step);
    if (!wrong.empty()) return std::string(name_of(step.kind)) + " " + wrong;
  }
  return simulation.holds(to) ? "" : "arrives at something else";
}

std::vector<MeshShape> small_meshes() {
  return {MeshShape({{"x", 3}}, 3), MeshShape({{"x", 2}, {"y", 3}}, 6),
          MeshShape({{"x", 2}, {"y", 2}, {"z", 2}}, 8),
          MeshShape({{"x", 2}, {"y", 3}, {"z", 2}}, 12)};
}

std::vector<std::string> kinds(const Layout& from, const Layout& to, const MeshShape& mesh) {
  std::vector<std::string> names;
  const Shape shape(from.dimensions.size(), 24);
  for (const RedistributionStep& step : plan_redistribution(from, to, shape, mesh)) {
    names.emplace_back(name_of(step.kind));
  }
  return names;
}

using Kinds = std::vector<std::string>;

}  // namespace

TEST_CASE("every pair of layouts arrives at the truth, with prime lengths") {
  const Shape lengths{7, 5, 3};
  for (const MeshShape& mesh : small_meshes()) {
    for (int dimensions = 0; dimensions <= 3; ++dimensions) {
      const Shape shape(lengths.begin(), lengths.begin() + dimensions);
      for_each_pair(mesh, dimensions, [&](const Layout& from, const Layout& to) {
        return play(mesh, shape, from, to);
      });
    }
  }
}

TEST_CASE("every pair of layouts arrives at the truth, with fewer elements than ranks") {
  for (const MeshShape& mesh : small_meshes()) {
    for (const Shape& shape : {Shape{1}, Shape{5}, Shape{0, 3}, Shape{2, 3}, Shape{2, 1, 3}}) {
      if (shape.size() == 3 && mesh.rank_count() == 12) continue;  // eight ranks show as much
      for_each_pair(
          mesh, static_cast<int>(shape.size()),
          [&](const Layout& from, const Layout& to) { return play(mesh, shape, from, to); });
    }
  }
}

TEST_CASE("random pairs of layouts over four axes arrive at the truth") {
  const MeshShape mesh({{"w", 2}, {"x", 2}, {"y", 2}, {"z", 3}}, 24);
  const std::vector<Layout> layouts = all_layouts(2, 4, true);
  std::mt19937 random(11);
  for (int done = 0; done < 400;) {
    const Layout& from = layouts[random() % layouts.size()];
    const Layout& to = layouts[random() % layouts.size()];
    if (!has_meaning(from, to)) continue;
    ++done;
    const std::string wrong = play(mesh, {11, 7}, from, to);
    if (!wrong.empty()) {
      FAIL(to_string(from, mesh) << " -> " << to_string(to, mesh) << ": " << wrong);
    }
  }
}

TEST_CASE("nothing grows before the end, and steps come in order") {
  for (const MeshShape& mesh : small_meshes()) {
    for (int dimensions = 1; dimensions <= 3; ++dimensions) {
      const Shape shape(dimensions, 72);  // divisible by every product of axes that occurs
      for_each_pair(mesh, dimensions, [&](const Layout& from, const Layout& to) -> std::string {
        const std::int64_t larger =
            std::max(largest_block(from, shape, mesh), largest_block(to, shape, mesh));
        const std::vector<RedistributionStep> steps = plan_redistribution(from, to, shape, mesh);
        for (std::size_t i = 0; i < steps.size(); ++i) {
          const RedistributionStep& step = steps[i];
          if (largest_block(step.to, shape, mesh) > larger) return "has a block that is too large";
          if (step.kind != StepKind::all_gather &&
              largest_block(step.to, shape, mesh) > largest_block(step.from, shape, mesh)) {
            return "grows in a step that is not all_gather";
          }
          if (i > 0 && steps[i - 1].kind >= step.kind) return "has steps out of order";
          if (i > 0 && steps[i - 1].kind == StepKind::permute &&
              step.kind == StepKind::all_to_all) {
            return "exchanges twice";
          }
          if (step.axes.empty() || !std::is_sorted(step.axes.begin(), step.axes.end()) ||
              mesh.size_over(step.axes) < 2) {
            return "has a step over no axes";
          }
          for (int dimension = 0; dimension < dimensions; ++dimension) {
            const std::vector<Axis>& first = from.dimensions[dimension];
            const std::vector<Axis>& last = to.dimensions[dimension];
            const std::vector<Axis>& now = step.to.dimensions[dimension];
            for (std::size_t place = 0;
                 place < first.size() && place < last.size() && first[place] == last[place];
                 ++place) {
              if (place >= now.size() || now[place] != first[place]) return "moves a major prefix";
              if (std::count(step.axes.begin(), step.axes.end(), first[place]) > 0) {
                return "talks over an axis of a major prefix";
              }
            }
          }
        }
        return "";
      });
    }
  }
}

TEST_CASE("for lengths that divide evenly the bound is what the busiest rank sends") {
  for (const MeshShape& mesh : small_meshes()) {
    for (int dimensions = 1; dimensions <= 2; ++dimensions) {
      const Shape shape(dimensions, 144);  // likewise, also for an exchange of two of them
      for_each_pair(mesh, dimensions, [&](const Layout& from, const Layout& to) -> std::string {
        for (const RedistributionStep& step : plan_redistribution(from, to, shape, mesh)) {
          std::int64_t most = 0;
          for (std::int64_t rank = 0; rank < mesh.rank_count(); ++rank) {
            most = std::max(most, elements_sent(step, shape, mesh, rank));
          }
          const double bound = elements_sent_bound(step, shape, mesh);
          if (bound > static_cast<double>(most) || bound < static_cast<double>(most) - 1) {
            return std::string(name_of(step.kind)) + " sends another number than the bound";
          }
        }
        return "";
      });
    }
  }
}

TEST_CASE("equal placements need no step") {
  const MeshShape mesh({{"x", 2}, {"one", 1}, {"y", 3}}, 6);
  CHECK(kinds({{{0}, {}}, {}}, {{{0}, {}}, {}}, mesh).empty());
  CHECK(kinds({{{0, 1}, {}}, {}}, {{{1, 0}, {}}, {}}, mesh).empty());
  CHECK(kinds({{{0}, {1}}, {}}, {{{0}, {}}, {1}}, mesh).empty());
  CHECK(kinds({{{0}, {}}, {1}}, {{{0}, {1}}, {}}, mesh).empty());
}

TEST_CASE("each transition of one axis is its one collective") {
  const MeshShape mesh({{"x", 4}, {"y", 4}}, 16);
  const Layout replicated = Layout::replicated(2);
  const Layout rows{{{0}, {}}, {}}, columns{{{}, {0}}, {}}, partial{{{}, {}}, {0}};
  CHECK(kinds(rows, replicated, mesh) == Kinds{"all_gather"});
  CHECK(kinds(rows, columns, mesh) == Kinds{"all_to_all"});
  CHECK(kinds(partial, replicated, mesh) == Kinds{"all_reduce"});
  CHECK(kinds(partial, rows, mesh) == Kinds{"reduce_scatter"});
  CHECK(kinds(replicated, rows, mesh) == Kinds{"slice"});
  CHECK(kinds(replicated, partial, mesh) == Kinds{"keep_owner"});
  CHECK(kinds({{{0, 1}, {}}, {}}, {{{1, 0}, {}}, {}}, mesh) == Kinds{"permute"});
  CHECK(kinds(rows, {{{1}, {}}, {}}, mesh) == Kinds{"permute"});

  // Bytes of the same table, G = 24 * 24 elements, L = G / 4, n = 4.
  const Shape shape{24, 24};
  const std::int64_t G = 24 * 24, L = G / 4;
  const auto sent = [&](const Layout& from, const Layout& to, std::int64_t rank) {
    std::int64_t sum = 0;
    for (const RedistributionStep& step : plan_redistribution(from, to, shape, mesh)) {
      sum += elements_sent(step, shape, mesh, rank);
    }
    return sum;
  };
  CHECK(sent(rows, replicated, 5) == 3 * G / 4);
  CHECK(sent(rows, columns, 5) == 3 * L / 4);
  CHECK(sent(partial, replicated, 5) == 2 * 3 * G / 4);
  CHECK(sent(partial, rows, 5) == 3 * G / 4);
  CHECK(sent(replicated, rows, 5) == 0);
  CHECK(sent(replicated, partial, 5) == 0);
  CHECK(sent(rows, {{{1}, {}}, {}}, 1) == L);  // coordinates (0, 1): its block is another's
  CHECK(sent(rows, {{{1}, {}}, {}}, 5) == 0);  // coordinates (1, 1): its block stays
}

TEST_CASE("several axes of one step are one collective") {
  const MeshShape mesh({{"x", 2}, {"y", 3}, {"z", 2}}, 12);
  CHECK(kinds({{{0, 1}, {2}}, {}}, Layout::replicated(2), mesh) == Kinds{"all_gather"});
  CHECK(kinds({{{}, {}}, {0, 1, 2}}, Layout::replicated(2), mesh) == Kinds{"all_reduce"});
  CHECK(kinds({{{}, {}}, {0, 1, 2}}, {{{0, 1}, {2}}, {}}, mesh) == Kinds{"reduce_scatter"});
  CHECK(kinds({{{}, {}}, {0, 1}}, {{{0}, {2}}, {}}, mesh) ==
        Kinds{"slice", "reduce_scatter", "all_reduce"});
  CHECK(kinds({{{0, 1, 2}, {}}, {}}, {{{0}, {}}, {}}, mesh) == Kinds{"all_gather"});
  CHECK(kinds({{{0}, {1}}, {}}, {{{1}, {0}}, {}}, mesh) == Kinds{"all_to_all"});
  // An axis behind a scattered one is sliced along with it, not exchanged afterwards.
  CHECK(kinds({{{}, {}}, {0}}, {{{0, 1}, {}}, {}}, mesh) == Kinds{"reduce_scatter"});
}

TEST_CASE("axes that take the place of others of their size go over in one permute") {
  const MeshShape mesh({{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}}, 16);
  CHECK(kinds({{{0, 1}, {}}, {}}, {{{2, 3}, {}}, {}}, mesh) == Kinds{"permute"});
  CHECK(kinds({{{0, 1}, {}}, {}}, {{{2}, {}}, {}}, mesh) == Kinds{"permute", "all_gather"});
  CHECK(kinds({{{0}, {1}}, {}}, {{{2}, {3}}, {}}, mesh) == Kinds{"permute"});
  // A size that fits none has to be gathered.
  const MeshShape uneven({{"a", 2}, {"b", 3}}, 6);
  CHECK(kinds({{{0}, {}}, {}}, {{{1}, {}}, {}}, uneven) == Kinds{"slice", "permute", "all_gather"});
}

TEST_CASE("fully sharded weights are gathered by one collective and their gradients scattered") {
  const MeshShape mesh({{"data", 4}, {"model", 2}}, 8);
  const Layout stored{{{0}, {1}}, {}}, used{{{}, {1}}, {}}, raw{{{}, {1}}, {0}};
  CHECK(kinds(stored, used, mesh) == Kinds{"all_gather"});
  CHECK(kinds(raw, stored, mesh) == Kinds{"reduce_scatter"});
}

TEST_CASE("an exchange involves only axes that change places") {
  const MeshShape mesh({{"x", 2}, {"y", 3}, {"z", 2}}, 12);
  const Shape shape{24, 24};
  const auto axes = [&](const Layout& from, const Layout& to) {
    return plan_redistribution(from, to, shape, mesh).at(0).axes;
  };
  CHECK(axes({{{1, 0}, {}}, {}}, {{{1}, {0}}, {}}) == std::vector<Axis>{0});
  CHECK(axes({{{1, 0, 2}, {}}, {}}, {{{1, 2, 0}, {}}, {}}) == std::vector<Axis>{0, 2});
  CHECK(axes({{{0, 1}, {}}, {}}, {{{2, 1}, {}}, {}}) == std::vector<Axis>{0, 2});
  CHECK(axes({{{0, 1}, {}}, {}}, {{{1}, {0}}, {}}) == std::vector<Axis>{0, 1});
}

TEST_CASE("what has no meaning is an error that names the axes") {
  const MeshShape mesh({{"x", 2}, {"y", 3}}, 6);
  const auto message_of = [&](const Layout& from, const Layout& to) -> std::string {
    try {
      (void)plan_redistribution(from, to, {8}, mesh);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message_of({{{0}}, {}}, {{{}}, {0}}) ==
        "a tensor that lies as [x] cannot be brought to [~] partial over x: a dimension split by "
        "axis \"x\" cannot become a partial sum over it");
  CHECK(message_of({{{}}, {0}}, {{{}}, {1}}) ==
        "a tensor that lies as [~] partial over x cannot be brought to [~] partial over y: a "
        "partial sum over axis \"x\" cannot become one over axis \"y\"");
  const std::vector<Layout> layouts = all_layouts(2, 2, true);
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      if (has_meaning(from, to)) continue;
      CHECK_THROWS_AS(plan_redistribution(from, to, {8, 8}, mesh), Error);
    }
  }
}

TEST_CASE("a planner of redistributions gives each its own steps, whatever it planned before") {
  const MeshShape mesh({{"x", 2}, {"y", 2}, {"z", 3}}, 12);
  const Shape shape{12, 12};
  RedistributionPlanner planner(mesh);
  const std::vector<Layout> layouts = all_layouts(2, 3, true);
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      if (!has_meaning(from, to)) continue;
      const std::span<const RedistributionStep> steps = planner.plan(from, to);
      const std::vector<RedistributionStep> expected = plan_redistribution(from, to, shape, mesh);
      REQUIRE(std::vector<RedistributionStep>(steps.begin(), steps.end()) == expected);
    }
  }
}

TEST_CASE("redistributions are planned for a mesh that nobody could walk over") {
  // 2^32 ranks: were they enumerated even once, this would take a minute, and for every plan hours.
  const std::int64_t size = 1 << 16;
  const MeshShape mesh({{"data", size}, {"model", size}}, size * size);
  const Shape shape{1'000'003, 4097};
  const std::vector<Layout> layouts = all_layouts(2, 2, true);
  double sent = 0;
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      if (!has_meaning(from, to)) continue;
      for (const RedistributionStep& step : plan_redistribution(from, to, shape, mesh)) {
        sent += elements_sent_bound(step, shape, mesh);
      }
    }
  }
  CHECK(sent > 0);
}

TEST_CASE("the transfers of a step are linear in its peers") {
  const MeshShape mesh({{"data", 4096}, {"model", 16}}, 65536);
  const Shape shape{1'000'003, 4097};
  const Layout rows{{{1}, {}}, {}}, columns{{{}, {1}}, {}};
  const RedistributionStep step = plan_redistribution(rows, columns, shape, mesh).at(0);
  CHECK(transfers(step, shape, mesh, 40'001).sends.size() == 16);
}

}  // namespace meshwork::redistribution_test
