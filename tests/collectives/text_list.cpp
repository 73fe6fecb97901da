#include "collectives/text_list.h"

#include "tests/support/catch.h"

namespace meshwork::text_list_test {

TEST_CASE("a list gives back its entries, whatever stands in them") {
  const std::vector<std::string> entries{
      "", "a", "3:b", "line\nend\ttab", std::string(300, ':'), std::string("\0", 1), ""};
  std::string list;
  for (const std::string& entry : entries) append_entry(list, entry);
  CHECK(entries_of(list) == entries);
  CHECK(entries_of("").empty());
}

TEST_CASE("lists are entries of lists") {
  std::string inner, outer;
  append_entry(inner, "1:x");
  append_entry(inner, "y");
  append_entry(outer, inner);
  append_entry(outer, "z");
  REQUIRE(entries_of(outer) == std::vector<std::string>{inner, "z"});
  CHECK(entries_of(entries_of(outer)[0]) == std::vector<std::string>{"1:x", "y"});
}

}  // namespace meshwork::text_list_test
