#include "runtime/device/cuda/parts.h"

#include "runtime/device/cuda/team_memory.h"
#include "runtime/device/cuda/workspace.h"
#include "tests/support/catch.h"

namespace meshwork::cuda::parts_test {

namespace {

constexpr std::int64_t huge = std::int64_t{1} << 40;
constexpr std::int64_t most_grid_rows = 65535;  // CUDA's limit for the second dimension of a grid

}  // namespace

TEST_CASE("parts of rows cover all rows once and none is empty") {
  for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{1}, std::int64_t{7},
                                  std::int64_t{512}, std::int64_t{50176}, huge}) {
    for (const std::int64_t columns : {1, 2, 12, 31, 32, 33, 256, 1000}) {
      const ColumnParts parts(rows, columns);
      CHECK(parts.width * parts.deep <= block_threads);
      CHECK(parts.deep >= 1);
      CHECK(parts.tiles() * parts.width >= columns);
      CHECK(parts.parts >= 1);
      CHECK(parts.parts <= most_grid_rows);
      CHECK(parts.parts * parts.rows_a_part >= rows);
      CHECK((parts.parts - 1) * parts.rows_a_part < std::max<std::int64_t>(rows, 1));
    }
  }
}

TEST_CASE("parts of sums cover all terms once and none is empty") {
  for (const std::int64_t count :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{4096}, std::int64_t{8193}, huge}) {
    const SumParts parts(count);
    CHECK(parts.parts * parts.length >= count);
    CHECK((parts.parts - 1) * parts.length < std::max<std::int64_t>(count, 1));
    CHECK(parts.bytes() == (parts.parts > 1 ? parts.parts * 8 : 0));
  }
  CHECK(SumParts(4096).parts == 1);  // one launch for a small batch
  CHECK(SumParts(1 << 20).parts > 100);
}

TEST_CASE("a workspace is aligned and what was asked for lies behind it") {
  alignas(256) static std::byte memory[2048];
  for (std::int64_t offset = 0; offset <= 256; offset += 64) {
    std::byte* const start = memory + offset;
    std::byte* const aligned = aligned_workspace(start);
    CHECK(reinterpret_cast<std::uintptr_t>(aligned) % 256 == 0);
    CHECK(aligned >= start);
    CHECK(aligned + 1000 <= start + with_alignment(1000));
  }
  CHECK(rounded_up(0) == 0);
  CHECK(rounded_up(1) == 256);
}

namespace {

struct Stretch {
  const unsigned char *begin, *end;
};

template <class Value>
Stretch stretch_of_warp(TeamMemory& memory, int first) {
  const auto* begin =
      reinterpret_cast<const unsigned char*>(team_values<narrow_group, Value>(memory, first));
  return {begin, begin + narrow_group * sizeof(Value)};
}

}  // namespace

TEST_CASE("warps of a block leave values of any size in stretches that do not meet") {
  struct Largest {
    double sums[3];
  };
  TeamMemory memory;
  for (int first = 0; first < block_threads; first += narrow_group) {
    const Stretch largest = stretch_of_warp<Largest>(memory, first);
    CHECK(largest.begin >= memory.bytes);
    CHECK(largest.end <= memory.bytes + sizeof(memory.bytes));
    for (int other = 0; other < block_threads; other += narrow_group) {
      if (other == first) continue;
      for (const Stretch& there :
           {stretch_of_warp<double>(memory, other), stretch_of_warp<float>(memory, other),
            stretch_of_warp<Largest>(memory, other)}) {
        CHECK((largest.end <= there.begin || there.end <= largest.begin));
      }
    }
  }
}

}  // namespace meshwork::cuda::parts_test
