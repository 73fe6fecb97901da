#include "collectives/joined_text.h"

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "tests/support/catch.h"

namespace meshwork::joined_text_test {

TEST_CASE("elements are joined as fmt writes them") {
  CHECK(joined_text(std::vector<std::string>{"a", "b", "c"}, ", ") == "a, b, c");
  CHECK(joined_text(std::vector<std::int64_t>{-1, 28, 28}, "x") == "-1x28x28");
  CHECK(joined_text(std::vector<double>{0.1, 1, 1e30}, " ") == "0.1 1 1e+30");
  CHECK(joined_text(std::array<const char*, 2>{"one", "two"}, " or ") == "one or two");
  CHECK(joined_text(std::set<std::string_view>{"b", "a"}, "") == "ab");
  const std::vector<int> numbers{1, 2, 3};
  CHECK(joined_text(std::span(numbers).first(2), "\n") == "1\n2");
}

TEST_CASE("nothing stands before the first element or behind the last") {
  CHECK(joined_text(std::vector<std::string>{}, ", ").empty());
  CHECK(joined_text(std::vector<std::string>{"a"}, ", ") == "a");
  CHECK(joined_text(std::vector<std::string>{"", "", "a", ""}, ",") == ",,a,");
}

}  // namespace meshwork::joined_text_test
