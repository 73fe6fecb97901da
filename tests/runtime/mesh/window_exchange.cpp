// Window plans of all ranks at once, in one process, held against plain loops over elements.
#include "runtime/mesh/window_exchange.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/window_sum.h"

namespace meshwork::window_exchange_test {

using namespace meshwork::test;

namespace {

DimensionWindows slid(int dimension, const Slide& slide, std::int64_t length) {
  return {dimension, slide.outputs(length),
          [slide, length](Range output) { return slide.inputs(output, length); }};
}

/// Whether there is an output at all.
bool fits(const Slide& slide, std::int64_t length) {
  return slide.same || length >= slide.reach();
}

/// The inputs that block `index` of `parts` of the outputs looks at, found one by one.
std::set<std::int64_t> looked_at(const Slide& slide, std::int64_t length, std::int64_t parts,
                                 std::int64_t index) {
  std::set<std::int64_t> inputs;
  const Range outputs = block_range(slide.outputs(length), parts, index);
  for (std::int64_t o = outputs.begin; o < outputs.end; ++o) {
    for (std::int64_t k = 0; k < slide.window; ++k) {
      const std::int64_t input = o * slide.stride - slide.padding(length) + k * slide.dilation;
      if (input >= 0 && input < length) inputs.insert(input);
    }
  }
  return inputs;
}

bool inside(const Block& part, const Block& block) {
  for (std::size_t d = 0; d < part.size(); ++d) {
    if (part[d].begin < block[d].begin || part[d].end > block[d].end) return false;
  }
  return true;
}

std::int64_t common(const Block& a, const Block& b) {
  std::int64_t count = 1;
  for (std::size_t d = 0; d < a.size(); ++d) count *= intersection(a[d], b[d]).length();
  return count;
}

std::string describe(const Windows& windows, const MeshShape& mesh) {
  std::string text =
      to_string(windows.shape) + " " + to_string(windows.layout, mesh) + " on " + to_string(mesh);
  for (const DimensionWindows& at : windows.dimensions) {
    text +=
        "; dimension " + std::to_string(at.dimension) + " to " + std::to_string(at.output_length);
  }
  return text;
}

/// What is wrong with the plans of all ranks: "" if every box arrives, from the right owners and
/// with the right bytes, and if the reverse adds what it should.
std::string wrong(const Windows& windows, const MeshShape& mesh) {
  const std::int64_t ranks = mesh.rank_count();
  std::vector<WindowPlan> plans;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    plans.push_back(plan_windows(windows, mesh, rank));
  }
  const std::vector<Axis>& axes = plans[0].axes;
  std::vector<double> expected_sums(element_count(windows.shape), 0.0);
  std::vector<double> sums = expected_sums;
  std::vector<Axis> others;
  for (Axis axis = 0; axis < mesh.axis_count(); ++axis) {
    if (windows.layout.replicates(axis)) others.push_back(axis);
  }
  const auto value = [](std::int64_t rank, std::int64_t index) {
    return static_cast<double>((rank + 1) * 1000 + index);
  };
  bool anybody = false;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const WindowPlan& plan = plans[rank];
    const std::string who = "rank " + std::to_string(rank) + ": ";
    if (plan.axes != axes) return who + "other axes than rank 0";
    if (plan.own != mesh.index_over(rank, axes)) return who + "a wrong number";
    if (plan.block != block_of(windows.layout, windows.shape, mesh, rank)) {
      return who + "a wrong block";
    }
    if (plan.box != box_of(windows, mesh, rank)) return who + "another box than box_of gives";

    // Every element of the box is there once: own, or received from the rank that owns it.
    std::map<std::int64_t, int> held;
    const auto take = [&](const Block& region) {
      for_each_in_block(windows.shape, region, [&](std::int64_t index) { ++held[index]; });
    };
    Block own;
    for (std::size_t d = 0; d < plan.box.size(); ++d) {
      own.push_back(intersection(plan.box[d], plan.block[d]));
    }
    take(own);
    std::int64_t before = -1;
    for (const Transfer& transfer : plan.receives) {
      anybody = true;
      if (transfer.peer <= before || transfer.peer == plan.own) return who + "peers out of order";
      before = transfer.peer;
      const std::int64_t peer = mesh.neighbour(rank, axes, transfer.peer);
      if (!inside(transfer.region, plans[peer].block)) return who + "received from no owner";
      if (element_count(shape_of(transfer.region)) == 0) return who + "an empty region";
      const auto sent = std::find_if(plans[peer].sends.begin(), plans[peer].sends.end(),
                                     [&](const Transfer& t) { return t.peer == plan.own; });
      if (sent == plans[peer].sends.end() || sent->region != transfer.region) {
        return who + "the owner does not send what is received";
      }
      take(transfer.region);
    }
    std::int64_t missing = 0;
    for_each_in_block(windows.shape, plan.box, [&](std::int64_t index) {
      missing += held.contains(index) && held[index] == 1 ? 0 : 1;
      held.erase(index);
    });
    if (missing > 0 || !held.empty()) return who + "the box is not what arrives";

    // Traffic, counted over all ranks of the group in plain words.
    WindowTraffic traffic;
    for (std::int64_t number = 0; number < mesh.size_over(axes); ++number) {
      const std::int64_t peer = mesh.neighbour(rank, axes, number);
      if (peer == rank) continue;
      const std::int64_t out = common(plan.block, plans[peer].box);
      const std::int64_t in = common(plan.box, plans[peer].block);
      traffic.messages_sent += out > 0 ? 1 : 0;
      traffic.messages_received += in > 0 ? 1 : 0;
      traffic.elements_sent += out;
      traffic.elements_received += in;
    }
    if (traffic != window_traffic(windows, mesh, rank)) return who + "other traffic";
    if (static_cast<std::int64_t>(plan.sends.size()) != traffic.messages_sent) {
      return who + "other messages";
    }

    // The reverse, onto the owners among the replicas.
    if (mesh.neighbour(rank, others, 0) != rank) continue;
    for_each_in_block(windows.shape, plan.box,
                      [&](std::int64_t index) { expected_sums[index] += value(rank, index); });
    for_each_in_block(windows.shape, own,
                      [&](std::int64_t index) { sums[index] += value(rank, index); });
    for (const Transfer& transfer : plan.sends) {
      const std::int64_t peer = mesh.neighbour(rank, axes, transfer.peer);
      for_each_in_block(windows.shape, transfer.region,
                        [&](std::int64_t index) { sums[index] += value(peer, index); });
    }
  }
  if (anybody == axes.empty()) return "axes without an exchange, or an exchange without axes";
  if (sums != expected_sums) return "the reverse does not add what the boxes say";
  return "";
}

}  // namespace

TEST_CASE("a box is its block where that holds the window, and else exactly the window") {
  for (std::int64_t length = 1; length < 12; ++length) {
    for (std::int64_t parts = 1; parts <= 4; ++parts) {
      const MeshShape mesh({{"x", parts}}, parts);
      for (const bool same : {true, false}) {
        for (std::int64_t window = 1; window <= 7; ++window) {
          for (std::int64_t stride = 1; stride <= 3; ++stride) {
            for (std::int64_t dilation = 1; dilation <= 3; ++dilation) {
              const Slide slide{window, stride, dilation, same};
              if (!fits(slide, length)) continue;
              Windows windows{{length}, {{{0}}, {}}, {slid(0, slide, length)}};
              std::string found;
              for (std::int64_t rank = 0; rank < parts; ++rank) {
                const Range block = block_range(length, parts, rank);
                const Range box = box_of(windows, mesh, rank)[0];
                const std::set<std::int64_t> inputs = looked_at(slide, length, parts, rank);
                const Range output = block_range(slide.outputs(length), parts, rank);
                const bool holds = !inputs.empty() && *inputs.begin() >= block.begin &&
                                   *inputs.rbegin() < block.end;
                // A window whose places lie beyond the edge may end before its last place would.
                const bool right = output.length() == 0 ? box.length() == 0
                                   : inputs.empty()     ? box.length() >= 0
                                   : box == block       ? holds
                                                        : box.begin <= *inputs.begin() &&
                                                        box.end > *inputs.rbegin() &&
                                                        box == slide.inputs(output, length);
                if (!right) found = "wrong box on rank " + std::to_string(rank);
              }
              if (found.empty()) found = wrong(windows, mesh);
              if (!found.empty()) {
                FAIL_CHECK(describe(windows, mesh)
                           << ", window " << window << ", stride " << stride << ", dilation "
                           << dilation << (same ? ", same" : ", valid") << ": " << found);
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("windows in two and three dimensions bring corners, over any axes") {
  // Axes: a and b split windowed dimensions, alone or together, in either order; c others or none.
  std::mt19937 words(7);
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(words() % static_cast<std::uint64_t>(bound));
  };
  int exchanged = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::int64_t a = 1 + below(4), b = 1 + below(4), c = 1 + below(3);
    const MeshShape mesh({{"a", a}, {"b", b}, {"c", c}}, a * b * c);
    const std::size_t dimension_count = 2 + static_cast<std::size_t>(below(3));
    Windows windows{{}, Layout::replicated(dimension_count), {}};
    for (std::size_t d = 0; d < dimension_count; ++d) windows.shape.push_back(1 + below(11));
    std::vector<Axis> axes{0, 1, 2};
    std::shuffle(axes.begin(), axes.end(), words);
    for (const Axis axis : axes) {
      const std::int64_t at = below(static_cast<std::int64_t>(dimension_count) + 1);
      if (at < static_cast<std::int64_t>(dimension_count)) {
        windows.layout.dimensions[static_cast<std::size_t>(at)].push_back(axis);
      }
    }
    for (std::size_t d = 0; d < dimension_count; ++d) {
      const Slide slide{1 + below(7), 1 + below(3), 1 + below(2), below(2) == 0};
      if (below(4) > 0 && fits(slide, windows.shape[d])) {
        windows.dimensions.push_back(slid(static_cast<int>(d), slide, windows.shape[d]));
      }
    }
    const std::string found = wrong(windows, mesh);
    if (!found.empty()) FAIL_CHECK(describe(windows, mesh) << ": " << found);
    exchanged += exchange_axes(windows, mesh).empty() ? 0 : 1;
  }
  CHECK(exchanged > 1000);
}

TEST_CASE("rows of an image on four ranks send exactly the rows beside the cuts") {
  // (2, 8, 5, 3) over rows; a 3x3 convolution wants one row more on each side inside.
  const MeshShape mesh({{"rows", 4}}, 4);
  const Slide slide{3, 1, 1, true};
  const Windows windows{
      {2, 8, 5, 3}, {{{}, {0}, {}, {}}, {}}, {slid(1, slide, 8), slid(2, slide, 5)}};
  CHECK(exchange_axes(windows, mesh) == std::vector<Axis>{0});
  const std::int64_t row = 2 * 5 * 3;
  CHECK(window_traffic(windows, mesh, 0) == WindowTraffic{1, row, 1, row});
  CHECK(window_traffic(windows, mesh, 1) == WindowTraffic{2, 2 * row, 2, 2 * row});
  CHECK(window_traffic(windows, mesh, 3) == WindowTraffic{1, row, 1, row});
  const WindowPlan plan = plan_windows(windows, mesh, 1);
  CHECK(plan.block == Block{{0, 2}, {2, 4}, {0, 5}, {0, 3}});
  CHECK(plan.box == Block{{0, 2}, {1, 5}, {0, 5}, {0, 3}});
  REQUIRE(plan.sends.size() == 2);
  CHECK(plan.sends[0].peer == 0);
  CHECK(plan.sends[0].region == Block{{0, 2}, {2, 3}, {0, 5}, {0, 3}});
  CHECK(plan.sends[1].peer == 2);
  CHECK(plan.sends[1].region == Block{{0, 2}, {3, 4}, {0, 5}, {0, 3}});
}

TEST_CASE("a window wider than a block reaches over several ranks") {
  const MeshShape mesh({{"rows", 4}}, 4);
  const Windows windows{{7}, {{{0}}, {}}, {slid(0, Slide{7, 1, 1, true}, 7)}};
  // Blocks [0,1) [1,3) [3,5) [5,7); rank 0's output 0 needs inputs 0 to 3.
  const WindowPlan plan = plan_windows(windows, mesh, 0);
  CHECK(plan.box == Block{{0, 4}});
  REQUIRE(plan.receives.size() == 2);
  CHECK(plan.receives[0].region == Block{{1, 3}});
  CHECK(plan.receives[1].region == Block{{3, 4}});
}

TEST_CASE("windows that stay inside blocks exchange nothing and leave the box the block") {
  // Pooling 2x2 with stride 2 over 8 rows on 4 ranks; over 7 rows the last is looked at by nobody.
  const MeshShape mesh({{"rows", 4}}, 4);
  const Windows even{{8}, {{{0}}, {}}, {slid(0, Slide{2, 2, 1, false}, 8)}};
  CHECK(exchange_axes(even, mesh).empty());
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const WindowPlan plan = plan_windows(even, mesh, rank);
    CHECK(plan.box == plan.block);
    CHECK(plan.sends.empty());
  }
  const MeshShape one({{"rows", 1}}, 1);
  const Windows odd{{7}, {{{}}, {}}, {slid(0, Slide{2, 2, 1, false}, 7)}};
  CHECK(box_of(odd, one, 0) == Block{{0, 7}});
}

TEST_CASE("that every box is its block is told from that of one rank, where nothing is exchanged") {
  const MeshShape mesh({{"rows", 2}}, 2);
  const Windows every{{8}, {{{0}}, {}}, {slid(0, Slide{2, 2, 1, false}, 8)}};
  CHECK(boxes_are_blocks(every, mesh));
  CHECK_FALSE(boxes_are_blocks({{8}, {{{0}}, {}}, {slid(0, Slide{3, 1, 1, true}, 8)}}, mesh));
  // One output, of the second rank, which has what it looks at; the first needs nothing.
  const Windows second{{8}, {{{0}}, {}}, {{0, 1, [](Range) { return Range{4, 8}; }}}};
  CHECK(exchange_axes(second, mesh).empty());
  CHECK(box_of(second, mesh, 1) == Block{{4, 8}});
  CHECK(box_of(second, mesh, 0) == Block{{0, 0}});
  CHECK_FALSE(boxes_are_blocks(second, mesh));
}

TEST_CASE("only the dimensions that exchange take part") {
  // Rows slide, columns do not.
  const MeshShape mesh({{"rows", 2}, {"columns", 3}}, 6);
  const Windows windows{{8, 9},
                        {{{0}, {1}}, {}},
                        {slid(0, Slide{3, 1, 1, true}, 8), slid(1, Slide{1, 1, 1, true}, 9)}};
  CHECK(exchange_axes(windows, mesh) == std::vector<Axis>{0});
  CHECK(wrong(windows, mesh) == "");
}

TEST_CASE("the same boxes are told from others that agree on one rank") {
  const MeshShape mesh({{"rows", 2}}, 2);
  const Layout rows{{{0}}, {}};
  const Windows three{{8}, rows, {slid(0, Slide{3, 1, 1, true}, 8)}};
  const Windows three_again{{8}, rows, {slid(0, Slide{3, 1, 1, true}, 8)}};
  const Windows dilated{{8}, rows, {slid(0, Slide{2, 1, 2, true}, 8)}};
  CHECK(same_boxes(three, three_again, mesh));
  CHECK(box_of(three, mesh, 0) == box_of(dilated, mesh, 0));
  CHECK(same_boxes(three, dilated, mesh) == (box_of(three, mesh, 1) == box_of(dilated, mesh, 1)));
  const Windows five{{8}, rows, {slid(0, Slide{5, 1, 1, true}, 8)}};
  CHECK_FALSE(same_boxes(three, five, mesh));
}

TEST_CASE("a layout that keeps windows whole holds every box") {
  const Windows windows{{4, 8, 9},
                        {{{0}, {1}, {}}, {}},
                        {slid(1, Slide{3, 1, 1, true}, 8), slid(2, Slide{3, 1, 1, true}, 9)}};
  CHECK(layout_around_boxes(windows) == Layout{{{0}, {}, {}}, {}});
  CHECK(holds_boxes(Layout{{{0}, {}, {}}, {}}, windows));
  CHECK(holds_boxes(Layout{{{}, {}, {0}}, {}}, windows));  // nobody's columns are cut for windows
  // Whoever has all rows of some images has not the others.
  CHECK_FALSE(holds_boxes(Layout{{{1}, {}, {}}, {}}, windows));
  CHECK_FALSE(holds_boxes(windows.layout, windows));
}

TEST_CASE("the peers among 65,536 ranks are found without asking for every window") {
  const MeshShape mesh({{"rows", 65536}}, 65536);
  std::int64_t asked = 0;
  const std::int64_t length = 1 << 20;
  const Slide slide{5, 1, 1, true};
  const Windows windows{{length}, {{{0}}, {}}, {{0, length, [&](Range output) {
                                                   ++asked;
                                                   return slide.inputs(output, length);
                                                 }}}};
  const WindowPlan plan = plan_windows(windows, mesh, 40000);
  CHECK(plan.sends.size() == 2);
  CHECK(plan.receives.size() == 2);
  CHECK(asked < 60);
}

TEST_CASE("fewer outputs than ranks leave gaps between the ranks that want something") {
  const MeshShape mesh({{"rows", 64}}, 64);
  const Windows windows{{40}, {{{0}}, {}}, {slid(0, Slide{4, 4, 1, true}, 40)}};
  CHECK(windows.dimensions[0].output_length == 10);
  CHECK(wrong(windows, mesh) == "");
}

}  // namespace meshwork::window_exchange_test
