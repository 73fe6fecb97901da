#include "runtime/device/cuda/copy_table.h"
#include "runtime/device/kernels/copies.h"

#include "tests/support/catch.h"

namespace meshwork::cuda::copy_table_test {

namespace {

CopyTable table_of(std::vector<CopyRegion> regions) {
  return copy_table({ElementType::float32, std::move(regions)}, "copy");
}

}  // namespace

TEST_CASE("regions that write apart share a launch and those that meet wait") {
  const CopyRegion first{{4}, 0, 0, {1}, {1}}, behind{{4}, 0, 4, {1}, {1}};
  const CopyRegion over{{2}, 0, 3, {1}, {1}}, nothing{{0}, 0, 0, {1}, {1}};
  CHECK(table_of({first, behind}).launches.size() == 1);
  CHECK(table_of({first, nothing, behind}).entries.size() == 2);
  const CopyTable table = table_of({first, behind, over, first});
  REQUIRE(table.launches.size() == 3);  // the last one meets `over` again
  CHECK(table.launches[0].count == 2);
  CHECK(table.launches[0].elements == 8);
  CHECK(table.launches[1].first == 2);
  CHECK(table.launches[1].elements == 2);
  CHECK(table.launches[2].first == 3);
}

TEST_CASE("an interval reaches as far as negative strides do") {
  const CopyRegion backwards{{4}, 0, 7, {1}, {-1}};  // writes 4 to 7
  CHECK(table_of({backwards, {{4}, 0, 0, {1}, {1}}}).launches.size() == 1);
  CHECK(table_of({backwards, {{5}, 0, 0, {1}, {1}}}).launches.size() == 2);
}

TEST_CASE("every element of a launch is found in its entry") {
  const CopyTable table = table_of({{{2, 3}, 5, 0, {10, 2}, {3, 1}}, {{7}, 0, 6, {3}, {1}}});
  REQUIRE(table.launches.size() == 1);
  const int count = table.launches[0].count;
  for (std::int64_t i = 0; i < 13; ++i) {
    const int entry = entry_of(table.entries.data(), count, i);
    CHECK(entry == (i < 6 ? 0 : 1));
    const CopyEntry& found = table.entries[static_cast<std::size_t>(entry)];
    const CopyPlace place = place_of(found, i - found.first);
    CHECK(place.destination == i);
    CHECK(place.source == (i < 6 ? 5 + i / 3 * 10 + i % 3 * 2 : (i - 6) * 3));
  }
}

TEST_CASE("only one plain run of elements is a copy of bytes") {
  CHECK(table_of({{{3, 4}, 1, 2, {4, 1}, {4, 1}}}).is_contiguous());
  CHECK_FALSE(table_of({{{3, 4}, 1, 2, {5, 1}, {4, 1}}}).is_contiguous());
  CHECK_FALSE(table_of({{{4}, 0, 0, {1}, {1}, true}}).is_contiguous());
  CHECK(table_of({{{4}, 0, 0, {1}, {1}, true}}).adds());
}

TEST_CASE("more dimensions than a table has are refused") {
  CopyRegion region{std::vector<std::int64_t>(9, 2), 0, 0, {}, {}};
  for (std::int64_t d = 0; d < 9; ++d) {
    region.source_strides.push_back(std::int64_t{1} << d);
    region.destination_strides.push_back(std::int64_t{256} >> d);
  }
  CHECK_THROWS_WITH(table_of({region}), Catch::Contains("copy: a region has 9 dimensions"));
}

}  // namespace meshwork::cuda::copy_table_test
