#include "collectives/huge_pages.h"

#include <sys/mman.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace meshwork::huge_pages_test {
namespace {

/// What the system says, in KiB, of the mapping that holds `address`: "AnonHugePages:", say.
std::int64_t kibibytes_of(const void* address, const std::string& what) {
  std::ifstream maps("/proc/self/smaps");
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (std::istringstream range(line); range >> std::hex >> begin >> dash >> end && dash == '-') {
      found = place >= begin && place < end;
    }
    std::istringstream field(line);
    std::string name;
    std::int64_t value = 0;
    if (found && field >> name && name == what && field >> value) return value;
  }
  return 0;
}

TEST_CASE("memory that is worth it is rounded to whole huge pages") {
  CHECK(rounded_to_huge_pages(0) == 0);
  CHECK(rounded_to_huge_pages(1000) == 1000);
  CHECK(rounded_to_huge_pages(least_bytes_for_huge_pages) == huge_page_bytes);
  CHECK(rounded_to_huge_pages(huge_page_bytes) == huge_page_bytes);
  CHECK(rounded_to_huge_pages(huge_page_bytes + 1) == 2 * huge_page_bytes);
}

TEST_CASE("reserved addresses begin at a huge page and can be given memory") {
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{3} << 20}) {
    std::byte* const at = reserve_addresses(bytes);
    REQUIRE(at != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(at) % huge_page_bytes == 0);
    REQUIRE(::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                   0) == at);
    at[0] = at[bytes - 1] = std::byte{1};
    CHECK(::munmap(at, bytes) == 0);
  }
}

TEST_CASE("what is in memory stays when it becomes huge pages, wherever it begins") {
  constexpr std::size_t count = 7 << 20;
  for (const std::size_t offset : {0, 1, 4096, 12345}) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, count - offset}) {
      std::vector<unsigned char> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<unsigned char>(i * 31 % 251);
      make_huge_pages(values.data() + offset, static_cast<std::int64_t>(bytes));
      ask_for_huge_pages(values.data() + offset, static_cast<std::int64_t>(bytes));
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < count; ++i) wrong += values[i] == i * 31 % 251 ? 0 : 1;
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("private and shared memory comes in huge pages where the system makes them") {
  constexpr std::size_t bytes = 4 << 20;
  const int sharing = GENERATE(MAP_PRIVATE, MAP_SHARED);
  std::byte* const at = reserve_addresses(bytes);
  REQUIRE(at != nullptr);
  REQUIRE(::mmap(at, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
          at);
  make_huge_pages(at, bytes);
  const std::int64_t huge =
      kibibytes_of(at, sharing == MAP_SHARED ? "ShmemPmdMapped:" : "AnonHugePages:");
  ::munmap(at, bytes);
  // All of them or, where the system makes none, none.
  CHECK((huge == bytes / 1024 || huge == 0));
  if (huge == 0)
    WARN("this system makes none of " << (sharing == MAP_SHARED ? "shared" : "private"));
}

}  // namespace
}  // namespace meshwork::huge_pages_test
