#include <functional>

#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/elementwise.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::copy_test {

namespace {

/// The specification, by an index that counts through the extents.
template <class T>
void reference(const CopyRegion& region, const T* source, T* destination) {
  std::function<void(std::size_t, std::int64_t, std::int64_t)> walk = [&](std::size_t d,
                                                                          std::int64_t from,
                                                                          std::int64_t to) {
    if (d == region.extents.size()) {
      destination[to] = static_cast<T>(region.add ? destination[to] + source[from] : source[from]);
      return;
    }
    for (std::int64_t i = 0; i < region.extents[d]; ++i) {
      walk(d + 1, from + i * region.source_strides[d], to + i * region.destination_strides[d]);
    }
  };
  walk(0, region.source_offset, region.destination_offset);
}

template <class T>
void check_copy(ElementType type, const std::vector<CopyRegion>& regions, std::int64_t source_count,
                std::int64_t destination_count) {
  Array<T> source(source_count), destination(destination_count), expected(destination_count);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<T>(i * 7 + 1);
  for (const CopyRegion& region : regions) reference(region, source.data(), expected.data());
  const CopySpec spec{type, regions};
  run(spec, source, destination);
  CHECK(destination.values() == expected.values());
  Array<T> shared(destination_count);
  run_kernel(spec, {source.data(), shared.data()}, 3);
  CHECK(shared.values() == expected.values());
}

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> strides(extents.size(), 1);
  for (std::size_t d = extents.size(); d-- > 1;) strides[d - 1] = strides[d] * extents[d];
  return strides;
}

}  // namespace

TEST_CASE("whole tensors, blocks, single elements and nothing are copied") {
  check_copy<std::int32_t>(ElementType::int32, {{{3, 4, 5}, 0, 0, {20, 5, 1}, {20, 5, 1}}}, 60, 60);
  check_copy<std::int32_t>(ElementType::int32, {{{2, 3}, 9, 0, {8, 1}, {3, 1}}}, 64, 6);
  check_copy<std::int32_t>(ElementType::int32, {{{}, 3, 1, {}, {}}}, 5, 2);
  check_copy<std::int32_t>(ElementType::int32, {{{1, 1}, 4, 0, {9, 9}, {2, 7}}}, 5, 1);
  check_copy<std::int32_t>(ElementType::int32, {{{3, 0, 2}, 0, 0, {2, 2, 1}, {2, 2, 1}}}, 4, 4);
  check_copy<std::int32_t>(ElementType::int32, {}, 4, 4);
}

TEST_CASE("regions are added to what stands there, in turn") {
  for (const ElementType type : {ElementType::float32, ElementType::float64}) {
    // All of it, then a block, strided elements, a transposition and nothing.
    std::vector<CopyRegion> regions{{{20}, 0, 0, {1}, {1}},
                                    {{3, 4}, 24, 2, {8, 1}, {5, 1}, true},
                                    {{2, 2}, 1, 2, {9, 2}, {5, 2}, true},
                                    {{4, 3}, 3, 7, {1, 8}, {1, 4}, true},
                                    {{0, 3}, 0, 0, {3, 1}, {3, 1}, true}};
    if (type == ElementType::float32) {
      check_copy<float>(type, regions, 64, 20);
    } else {
      check_copy<double>(type, regions, 64, 20);
    }
  }
}

TEST_CASE("a region large enough for several threads is added once") {
  std::vector<CopyRegion> regions{{{300, 700}, 0, 0, {700, 1}, {700, 1}},
                                  {{300, 600}, 50, 0, {700, 1}, {700, 1}, true}};
  check_copy<float>(ElementType::float32, regions, 210000, 210000);
}

TEST_CASE("transpositions are copied") {
  for (const std::int64_t rows : {1, 3, 16, 33}) {
    for (const std::int64_t columns : {1, 5, 16, 40}) {
      check_copy<std::uint8_t>(ElementType::uint8,
                               {{{rows, columns}, 0, 0, {columns, 1}, {1, rows}}}, rows * columns,
                               rows * columns);
      // Into a wider destination, from a longer source: tiles, and what is left at their sides.
      check_copy<std::int32_t>(ElementType::int32,
                               {{{rows, columns}, 3, 2, {1, rows + 5}, {columns + 7, 1}}},
                               3 + (rows + 5) * columns, 2 + (columns + 7) * rows);
    }
  }
}

TEST_CASE("reversed and repeated elements are copied") {
  check_copy<std::int64_t>(ElementType::int64, {{{5}, 4, 0, {-1}, {1}}}, 5, 5);
  check_copy<std::int64_t>(ElementType::int64, {{{4, 3}, 0, 0, {0, 1}, {3, 1}}}, 3, 12);
}

TEST_CASE("regions are copied in turn") {
  check_copy<std::int32_t>(ElementType::int32,
                           {{{4}, 0, 0, {1}, {1}}, {{2}, 10, 1, {1}, {1}}, {{2}, 5, 6, {2}, {1}}},
                           12, 8);
}

TEST_CASE("random boxes of up to four dimensions are copied, in every element size") {
  std::mt19937 engine(3);
  for (int round = 0; round < 300; ++round) {
    const std::size_t dimension_count = 1 + engine() % 4;
    std::vector<std::int64_t> whole, extents, order;
    for (std::size_t d = 0; d < dimension_count; ++d) {
      whole.push_back(1 + engine() % 6);
      extents.push_back(static_cast<std::int64_t>(engine() % static_cast<unsigned>(whole[d] + 1)));
      order.push_back(static_cast<std::int64_t>(d));
    }
    std::shuffle(order.begin(), order.end(), engine);
    // The source is a box inside `whole`, the destination the same with its dimensions permuted.
    CopyRegion region;
    region.extents = extents;
    region.source_strides = row_major(whole);
    std::vector<std::int64_t> permuted;
    for (const std::int64_t d : order) permuted.push_back(whole[static_cast<std::size_t>(d)]);
    const std::vector<std::int64_t> strides = row_major(permuted);
    region.destination_strides.resize(dimension_count);
    for (std::size_t place = 0; place < dimension_count; ++place) {
      region.destination_strides[static_cast<std::size_t>(order[place])] = strides[place];
    }
    for (std::size_t d = 0; d < dimension_count; ++d) {
      const auto room = static_cast<unsigned>(whole[d] - extents[d] + 1);
      region.source_offset += static_cast<std::int64_t>(engine() % room) * region.source_strides[d];
      region.destination_offset +=
          static_cast<std::int64_t>(engine() % room) * region.destination_strides[d];
    }
    const std::int64_t count = element_count(whole);
    check_copy<std::uint8_t>(ElementType::uint8, {region}, count, count);
    check_copy<std::int32_t>(ElementType::int32, {region}, count, count);
    check_copy<std::int64_t>(ElementType::float64, {region}, count, count);
  }
}

TEST_CASE("large boxes are shared by threads") {
  check_copy<std::int32_t>(ElementType::int32, {{{500, 300}, 7, 0, {333, 1}, {300, 1}}}, 333 * 501,
                           150000);
  check_copy<std::int32_t>(ElementType::int32, {{{400, 500}, 0, 0, {1, 400}, {500, 1}}}, 200000,
                           200000);
  check_copy<std::int32_t>(ElementType::int32, {{{200000}, 0, 0, {1}, {1}}}, 200000, 200000);
  check_copy<std::int32_t>(ElementType::int32, {{{50, 40, 60}, 0, 0, {60, 3000, 1}, {2400, 60, 1}}},
                           120000, 120000);
}

TEST_CASE("strides that do not fit the extents are refused") {
  CHECK_THROWS_WITH(run_kernel(CopySpec{ElementType::float32, {{{2, 3}, 0, 0, {3}, {3, 1}}}}, {}),
                    Catch::Contains("one stride a dimension"));
}

TEST_CASE("zeroing writes its bytes and no other") {
  for (const std::int64_t bytes : {0, 1, 63, 64, 1000, 400001}) {
    Array<std::uint8_t> x(bytes);
    run_kernel(ZeroSpec{bytes}, {x.data()}, 3);
    CHECK(x.values() == std::vector<std::uint8_t>(static_cast<std::size_t>(bytes), 0));
    CHECK(x.intact());
  }
}

}  // namespace meshwork::test::copy_test
