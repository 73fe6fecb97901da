#include "runtime/checkpoint/regions.h"

#include <algorithm>
#include <ctime>
#include <set>

#include "tests/support/catch.h"
#include "tests/support/tensor.h"

namespace meshwork::regions_test {

using namespace meshwork::test;

namespace {

std::vector<Layout> layouts_of(std::size_t dimensions) {
  std::vector<Layout> layouts{Layout::replicated(dimensions)};
  for (std::size_t d = 0; d < dimensions; ++d) {
    for (const std::vector<Axis>& axes : {std::vector<Axis>{0}, std::vector<Axis>{1},
                                          std::vector<Axis>{0, 1}, std::vector<Axis>{1, 0}}) {
      Layout layout = Layout::replicated(dimensions);
      layout.dimensions[d] = axes;
      layouts.push_back(layout);
      if (axes.size() == 1) {
        layout.dimensions[(d + 1) % dimensions] = {1 - axes[0]};
        layouts.push_back(layout);
      }
    }
  }
  return layouts;
}

// How often each element of a tensor belongs to somebody.
std::vector<int> owners(const Layout& layout, const Shape& shape, const MeshShape& mesh,
                        std::int64_t turn) {
  std::vector<int> counts(static_cast<std::size_t>(element_count(shape)), 0);
  for (std::int64_t rank = 0; rank < mesh.rank_count(); ++rank) {
    const Block region = region_of(layout, shape, mesh, rank, turn);
    if (!is_empty(region)) for_each_in_block(shape, region, [&](std::int64_t i) { ++counts[i]; });
  }
  return counts;
}

}  // namespace

TEST_CASE("every element has one owner, for all layouts, small and large") {
  const MeshShape mesh({{"data", 2}, {"model", 3}}, 6);
  for (const Shape& shape : {Shape{1}, Shape{5}, Shape{7, 3}, Shape{2, 2}, Shape{0, 4},
                             Shape{300, 200}, Shape{1, 40001}}) {
    for (const Layout& layout : layouts_of(shape.size())) {
      if (shape.size() == 1 && !layout.dimensions[0].empty() && layout.dimensions.size() != 1)
        continue;
      for (std::int64_t turn : {0, 1, 5}) {
        const std::vector<int> counts = owners(layout, shape, mesh, turn);
        CHECK(std::count(counts.begin(), counts.end(), 1) ==
              static_cast<std::ptrdiff_t>(counts.size()));
      }
    }
  }
  for (std::int64_t turn = 0; turn < 6; ++turn) {
    CHECK(owners(Layout::replicated(0), {}, mesh, turn) == std::vector<int>{1});
  }
}

TEST_CASE("a large replicated tensor is dealt out evenly, small ones in turn") {
  const MeshShape mesh({{"data", 4}}, 4);
  const Layout layout = Layout::replicated(2);
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    CHECK(region_of(layout, {400, 100}, mesh, rank, 0) ==
          Block{{rank * 100, rank * 100 + 100}, {0, 100}});
  }
  std::set<std::int64_t> writers;
  for (std::int64_t turn = 0; turn < 4; ++turn) {
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      if (!is_empty(region_of(layout, {3, 3}, mesh, rank, turn))) writers.insert(rank);
    }
  }
  CHECK(writers.size() == 4);
}

TEST_CASE("a region is contiguous in its rank's block") {
  const MeshShape mesh({{"data", 2}, {"model", 3}}, 6);
  const Shape shape{300, 200};
  for (const Layout& layout : layouts_of(2)) {
    for (std::int64_t rank = 0; rank < 6; ++rank) {
      const Block block = block_of(layout, shape, mesh, rank);
      const Block region = region_of(layout, shape, mesh, rank, 0);
      if (is_empty(region)) continue;
      std::vector<std::int64_t> in_block, in_region;
      for_each_in_block(shape, block, [&](std::int64_t i) { in_block.push_back(i); });
      for_each_in_block(shape, region, [&](std::int64_t i) { in_region.push_back(i); });
      const std::int64_t offset = offset_of(region, block);
      CHECK(std::equal(in_region.begin(), in_region.end(), in_block.begin() + offset));
    }
  }
}

TEST_CASE("a cover with a gap, an overlap or something outside is found") {
  const Shape shape{4, 6};
  CHECK(flaw_of_cover(shape, {{{0, 4}, {0, 6}}}) == "");
  CHECK(flaw_of_cover(shape, {{{0, 2}, {0, 6}}, {{2, 4}, {0, 3}}, {{2, 4}, {3, 6}}}) == "");
  CHECK(flaw_of_cover(shape, {{{0, 2}, {0, 6}}, {{2, 4}, {0, 3}}}) ==
        "6 of 24 elements belong to no region");
  CHECK(flaw_of_cover(shape, {{{0, 3}, {0, 6}}, {{2, 4}, {0, 6}}}) ==
        "the regions [0:3, 0:6] and [2:4, 0:6] overlap");
  CHECK(flaw_of_cover(shape, {{{0, 4}, {0, 7}}}) ==
        "the region [0:4, 0:7] is not inside the shape (4, 6)");
  CHECK(flaw_of_cover(shape, {{{0, 4}}}) == "the region [0:4] is none of a tensor of shape (4, 6)");
  CHECK(flaw_of_cover({}, {{}}) == "");
  CHECK(flaw_of_cover({}, {{}, {}}) != "");
  CHECK(flaw_of_cover({}, {}) != "");
  CHECK(flaw_of_cover({0, 3}, {}) == "");
}

TEST_CASE("the parts of a block are the block, in order") {
  const Shape shape{4, 5, 6};
  for (const Block& block : {Block{{0, 4}, {0, 5}, {0, 6}}, Block{{1, 3}, {2, 5}, {1, 6}},
                             Block{{2, 2}, {0, 5}, {0, 6}}}) {
    std::vector<std::int64_t> expected;
    for_each_in_block(shape, block, [&](std::int64_t i) { expected.push_back(i); });
    for (std::int64_t most = 1; most < 130; most += most < 8 ? 1 : 9) {
      std::vector<std::int64_t> found;
      for_each_part(block, most, [&](const Block& part) {
        CHECK(element_count(shape_of(part)) <= most);
        for_each_in_block(shape, part, [&](std::int64_t i) { found.push_back(i); });
      });
      CHECK(found == expected);
    }
  }
  int scalars = 0;
  for_each_part({}, 1, [&](const Block& part) { scalars += part.empty() ? 1 : 0; });
  CHECK(scalars == 1);
}

TEST_CASE("a cover of many columns is judged in the time that it takes to sort them") {
  const auto seconds_of = [](std::int64_t columns) {
    std::vector<Block> regions;
    for (std::int64_t i = 0; i < columns; ++i) regions.push_back({{0, 4}, {i, i + 1}});
    const std::clock_t start = std::clock();
    CHECK(flaw_of_cover({4, columns}, regions) == "");
    regions.back() = regions.front();
    CHECK(flaw_of_cover({4, columns}, regions) == "the regions [0:4, 0:1] and [0:4, 0:1] overlap");
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  const double of_some = seconds_of(5'000);
  CHECK(seconds_of(80'000) < 96 * of_some);  // 256 times where each is held against all the others
}

}  // namespace meshwork::regions_test
