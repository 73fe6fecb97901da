// What of a text reaches a terminal as it is.
#include "collectives/printable.h"

#include "tests/support/catch.h"

namespace meshwork::printable_test {

TEST_CASE("letters, line feeds and tabs stay, all else is written out") {
  CHECK(printable("a\tb\n\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80") ==
        "a\tb\n\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
  CHECK(in_one_line("a\tb\n\xc3\xa4\x1b") == "a\\tb\\n\xc3\xa4\\x1b");
  CHECK(printable("\x1b[31mred\r\x07") == "\\x1b[31mred\\x0d\\x07");
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(printable("\x7f\xc2\x9b"
                  "31m") ==
        "\\x7f\\xc2\\x9b"
        "31m");
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");
  CHECK(printable("\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80") ==
        "\\xc0\\xaf \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80");
}

TEST_CASE("a line of letters has no control characters") {
  CHECK(is_one_line_of_letters("d1 \xc3\xa4"));
  CHECK(is_one_line_of_letters(""));
  for (const char* text : {"a\nb", "a\tb", "\x1b", "\xff", "\xc2\x85"}) {
    CHECK_FALSE(is_one_line_of_letters(text));
  }
  CHECK_FALSE(is_one_line_of_letters(std::string_view("a\0b", 3)));
}

}  // namespace meshwork::printable_test
