#include "runtime/config/byte_count.h"

#include "runtime/config/load.h"
#include "tests/support/catch.h"

namespace meshwork::byte_count_test {

namespace {

std::int64_t bytes_of(const std::string& text) {
  ByteCount count;
  from_config(*parse_config("n: " + text, "a.yaml").find("n"), count);
  return count.bytes;
}

}  // namespace

TEST_CASE("numbers of bytes have units of 1024") {
  CHECK(bytes_of("512") == 512);
  CHECK(bytes_of("64 B") == 64);
  CHECK(bytes_of("3KiB") == 3072);
  CHECK(bytes_of("1.5 MiB") == 3 << 19);
  CHECK(bytes_of("2 GiB") == std::int64_t{1} << 31);
  CHECK(bytes_of("1 TiB") == std::int64_t{1} << 40);
  for (const std::string wrong : {"2 GB", "GiB", "0", "-1 MiB", "nan", "1e30 TiB", "2 GiB each"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(bytes_of(wrong),
                      Catch::Matchers::ContainsSubstring("a number of bytes, like 2 GiB"));
  }
}

TEST_CASE("a number of bytes is written in the largest unit that fits it") {
  CHECK(to_text(ByteCount{1000}) == "1000 B");
  CHECK(to_text(ByteCount{3072}) == "3 KiB");
  CHECK(to_text(ByteCount{std::int64_t{5} << 30}) == "5 GiB");
}

}  // namespace meshwork::byte_count_test
