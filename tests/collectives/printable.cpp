// What of a text reaches a terminal as it is.
#include "collectives/printable.h"

#include "collectives/error.h"
#include "collectives/path_text.h"
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

TEST_CASE("paths stand in messages in one line") {
  const std::filesystem::path path = "a b/\x1b[31m\nc.h5";
  CHECK(fmt::format("{}:", path) == "a b/\\x1b[31m\\nc.h5:");
  CHECK(fmt::format("{}|{}", std::filesystem::path(), std::filesystem::path("/x")) == "|/x");
  CHECK_THROWS_WITH(fail("{}: there is no such file", path),
                    "a b/\\x1b[31m\\nc.h5: there is no such file");
}

TEST_CASE("what turns the direction of writing or ends a line is a control character") {
  CHECK(printable("a\xe2\x80\xae"
                  "b") ==
        "a\\xe2\\x80\\xae"
        "b");
  for (const char* text :
       {"\xe2\x80\x8e", "\xe2\x80\x8f", "\xd8\x9c", "\xe2\x80\xa8", "\xe2\x80\xaa", "\xe2\x80\xae",
        "\xe2\x81\xa6", "\xe2\x81\xa9", "\xc2\x80", "\xc2\x9f"}) {
    CHECK_FALSE(is_one_line_of_letters(text));
    CHECK(printable(text).front() == '\\');
  }
  // Their neighbours: a joiner, a hyphen, a narrow space, an invisible operator, an Arabic letter, a
  // space that does not break.
  for (const char* text : {"\xe2\x80\x8d", "\xe2\x80\x90", "\xe2\x80\xaf", "\xe2\x81\xa5",
                           "\xe2\x81\xaa", "\xd8\x9b", "\xd8\x9d", "\xc2\xa0"}) {
    CHECK(is_one_line_of_letters(text));
  }
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
