#include "runtime/config/load.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/catch.h"

namespace meshwork::load_test {

namespace {

ConfigNode parse(const std::string& text) {
  return parse_config(text, "a.yaml");
}

void write(const std::string& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary);
  stream << text;
  stream.close();
  REQUIRE(stream.good());
}

}  // namespace

TEST_CASE("a file is read, and its name stands in its errors") {
  write("good.yaml", "\xef\xbb\xbf# a comment\r\nseed: 7\r\nmesh: {data: 2}\r\n");
  const ConfigNode root = load_config("good.yaml");
  CHECK(root.find("seed")->as<int>() == 7);
  CHECK(root.find("seed")->location() == "good.yaml:2:7");
  CHECK(root.find("mesh")->find("data")->location() == "good.yaml:3:14");
}

TEST_CASE("a file that is not there is an error with the nearest name") {
  std::filesystem::create_directories("configurations");
  write("configurations/mnist.yaml", "seed: 7");
  CHECK_THROWS_WITH(load_config("configurations/mnits.yaml"),
                    "configurations/mnits.yaml: there is no such file; did you mean "
                    "\"configurations/mnist.yaml\"?");
  CHECK_THROWS_WITH(load_config("configurations/other_data.txt"),
                    "configurations/other_data.txt: there is no such file");
  CHECK_THROWS_WITH(load_config("no_directory/mnist.yaml"),
                    "no_directory/mnist.yaml: there is no such file");
  CHECK_THROWS_WITH(load_config(""), "the name of the configuration file is empty");
}

TEST_CASE("what is no readable file is an error") {
  std::filesystem::create_directories("folder");
  CHECK_THROWS_WITH(load_config("folder"), "folder: this is a directory; expected a YAML file");
  CHECK_THROWS_WITH(load_config("/dev/zero"),
                    "/dev/zero: the file has more than 1048576 bytes; is it a configuration?");
  std::filesystem::remove("pipe");
  REQUIRE(::mkfifo("pipe", 0600) == 0);
  CHECK_THROWS_WITH(load_config("pipe"),
                    "pipe: this is a pipe without a writer; expected a YAML file");
  if (geteuid() != 0) {  // root may read everything
    write("secret.yaml", "seed: 7");
    REQUIRE(chmod("secret.yaml", 0) == 0);
    CHECK_THROWS_WITH(load_config("secret.yaml"),
                      "secret.yaml: the file cannot be opened: Permission denied");
  }
}

TEST_CASE("a configuration of nothing is an error") {
  const std::string empty = "the configuration is empty";
  CHECK_THROWS_WITH(parse(""), "a.yaml:1:1: " + empty);
  CHECK_THROWS_WITH(parse("# only a comment\n"), Catch::EndsWith(empty));
  CHECK_THROWS_WITH(parse("---\n...\n"), Catch::EndsWith(empty));
  CHECK(parse("{}").entries().empty());
}

TEST_CASE("broken YAML is an error at its place, in words") {
  const std::string broken = "not valid YAML: ";
  const std::string colon =
      "a \":\" is not expected here; is the indentation right, or a quote missing?";
  CHECK_THROWS_WITH(parse("a: b: c"), "a.yaml:1:5: " + broken + colon);
  CHECK_THROWS_WITH(parse("a: 1\n  b: 2"), "a.yaml:2:4: " + broken + colon);
  CHECK_THROWS_WITH(parse("a:\n\tb: 2"), "a.yaml:2:3: " + broken + colon +
                                             "; there is a tab in the indentation, use spaces");
  CHECK_THROWS_WITH(parse("a: \"x"), "a.yaml:1:6: " + broken + "a quote is not closed");
  CHECK_THROWS_WITH(parse("a: @b"), "a.yaml:1:4: " + broken +
                                        "this character cannot begin a value; quote the value");
  CHECK_THROWS_WITH(parse("a: *b"),
                    "a.yaml:1:4: " + broken + "no anchor of this name stands before the alias");
  CHECK_THROWS_WITH(parse("a: [1, 2\nb: 3"), "a.yaml:1:4: " + broken +
                                                 "this list is not closed: expected \",\" or \"]\" "
                                                 "before line 2");
  CHECK_THROWS_WITH(
      parse("a: 1\nb: {c: 1"),
      "a.yaml:2:4: " + broken + "this map is not closed: expected \",\" or \"}\" before the end");
  CHECK_THROWS_WITH(parse("a: ]"), "a.yaml:1:4: " + broken + "there is nothing here to be closed");
  CHECK_THROWS_WITH(
      parse("a:\n  - b\n c: d"),
      "a.yaml:3:2: " + broken + "expected a key of the map; is the indentation right?");
  CHECK_THROWS_WITH(parse("- a\nb: 1"),
                    "a.yaml:2:1: " + broken +
                        "this line does not continue the one above; is the indentation right?");
}

TEST_CASE("a key that is written twice is an error that names both lines") {
  CHECK_THROWS_WITH(parse("a: 1\nb: 2\na: 3"),
                    "a.yaml:3:1: key \"a\" is written at line 1 and again at line 3");
  CHECK_THROWS_WITH(parse("x:\n  - {b: 1,\n     b: 2}"),
                    "a.yaml:3:6: x[0]: key \"b\" is written at line 2 and again at line 3");
  CHECK_THROWS_WITH(parse("a: 1\n\"a\": 3"),
                    "a.yaml:2:1: key \"a\" is written at line 1 and again at line 2");
  CHECK_THROWS_WITH(parse("x: {a: 1, a: 3}"), "a.yaml:1:11: x: key \"a\" is written twice");
}

TEST_CASE("a key must be a name") {
  CHECK_THROWS_WITH(parse("? [a, b]\n: 1"), "a.yaml:1:3: expected a name as key, found a list");
  CHECK_THROWS_WITH(parse("x: {~: 1}"), "a.yaml:1:5: x: expected a name as key, found nothing");
  CHECK_THROWS_WITH(parse("? " + std::string(251, 'k') + "\n: 1"),
                    "a.yaml:1:3: key \"" + std::string(60, 'k') + "...\" has more than 250 bytes");
}

TEST_CASE("a configuration is one document without tags of its own") {
  CHECK_THROWS_WITH(parse("a: 1\n---\nb: 2"),
                    "a.yaml:2:1: a second document begins here; a configuration is one document");
  CHECK_THROWS_WITH(parse("a: 1\n...\nb: 2"),
                    "a.yaml:3:1: a second document begins here; a configuration is one document");
  CHECK(parse("---\na: 1\n...\n").find("a")->as<int>() == 1);
  CHECK_THROWS_WITH(parse("a: !secret b"),
                    "a.yaml:1:4: a: unknown tag \"!secret\"; a configuration needs none");
}

TEST_CASE("bytes that are no text are an error at their place") {
  const auto message = [](const std::string& place, const std::string& byte) {
    return "a.yaml:" + place + ": byte " + byte + " is no text; is this a YAML file in UTF-8?";
  };
  CHECK_THROWS_WITH(parse(std::string("a: \0b", 5)), message("1:4", "0x00"));
  CHECK_THROWS_WITH(parse("\x89HDF\r\n"), message("1:1", "0x89"));
  CHECK_THROWS_WITH(parse("a: 1\nb: \xff"), message("2:4", "0xff"));
  CHECK_THROWS_WITH(parse("a: \xc3"), message("1:4", "0xc3"));              // cut off
  CHECK_THROWS_WITH(parse("a: \xc0\x80"), message("1:4", "0xc0"));          // overlong
  CHECK_THROWS_WITH(parse("a: \xed\xa0\x80"), message("1:4", "0xed"));      // a surrogate
  CHECK_THROWS_WITH(parse("a: \xf4\x90\x80\x80"), message("1:4", "0xf4"));  // beyond U+10FFFF
  CHECK_THROWS_WITH(parse("a: 1\rb: 2"), message("1:5", "0x0d"));
  CHECK(parse("a: \xf0\x9f\x99\x82").find("a")->as<std::string>() == "\xf0\x9f\x99\x82");
}

TEST_CASE("deep nesting is an error") {
  const auto lists = [](int count) {
    return "a: " + std::string(static_cast<std::size_t>(count), '[') +
           std::string(static_cast<std::size_t>(count), ']');
  };
  CHECK(parse(lists(63)).find("a")->is_sequence());
  CHECK_THROWS_WITH(parse(lists(64)), Catch::EndsWith("more than 64 levels of nesting"));
  CHECK_THROWS_WITH(parse(lists(100000)), Catch::EndsWith("more than 64 levels of nesting"));
  std::string dashes;
  for (int i = 0; i < 100000; ++i) dashes += "- ";
  CHECK_THROWS_WITH(parse(dashes), Catch::EndsWith("more than 64 levels of nesting"));
}

TEST_CASE("aliases may share values, but not multiply them without end") {
  const ConfigNode shared = parse("a: &a {b: 1}\nc: [*a, *a]");
  CHECK(shared.find("c")->elements()[1].find("b")->as<int>() == 1);
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 40; ++i) {
    bomb +=
        fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n", i, i - 1);
  }
  CHECK_THROWS_WITH(parse(bomb),
                    Catch::EndsWith("more than 200000 values once aliases are written out"));
  std::string repeated = "a: &a \"" + std::string(150'000, 'x') + "\"\nb:\n";
  for (int i = 0; i < 6000; ++i) repeated += "- *a\n";
  CHECK_THROWS_WITH(
      parse(repeated),
      Catch::EndsWith("more than 8388608 bytes of text once aliases are written out"));
  std::string chain = "a0: &a0 [x]\n";
  for (int i = 1; i < 100; ++i) chain += fmt::format("a{0}: &a{0} [*a{1}]\n", i, i - 1);
  CHECK_THROWS_WITH(parse(chain), Catch::EndsWith("more than 64 levels of nesting"));
  CHECK_THROWS_WITH(parse("a: &a [1, *a]"), "a.yaml:1:11: a[1]: the alias is part of itself");
}

TEST_CASE("a configuration may have 200,000 values and no more") {
  // The map, the list and its elements.
  const auto list = [](int count) {
    std::string text = "a: [x";
    for (int i = 1; i < count; ++i) text += ",x";
    return text + "]";
  };
  CHECK(parse(list(199998)).find("a")->elements().size() == 199998);
  CHECK_THROWS_WITH(parse(list(199999)),
                    Catch::EndsWith("more than 200000 values once aliases are written out"));
}

TEST_CASE("a huge scalar is read, a huge text is an error") {
  const std::string large(1000000, 'x');
  CHECK(parse("a: " + large).find("a")->as<std::string>() == large);
  CHECK(parse("a: \"" + large + "\"").find("a")->as<std::string>() == large);
  CHECK_THROWS_WITH(parse("a: " + std::string(1 << 20, 'x')),
                    "a.yaml: the text has 1048579 bytes; a configuration may have 1048576");
}

}  // namespace meshwork::load_test
