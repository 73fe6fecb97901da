#include "runtime/config/node.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "runtime/config/load.h"
#include "tests/support/catch.h"

namespace meshwork::node_test {

namespace {

// The value of `x` in `x: text`, which stands at 1:4.
ConfigNode node_of(const std::string& text) {
  return *parse_config("x: " + text, "a.yaml").find("x");
}

template <class Value>
std::string message(const std::string& text, const ValueRange& range = {}) {
  try {
    (void)node_of(text).as<Value>(range);
  } catch (const ConfigError& problem) {
    return problem.what();
  }
  return "no error";
}

enum class Colour { red, green };
const ChoiceTable<Colour> colours = {{"red", Colour::red}, {"green", Colour::green}};

struct Interval {
  double from = 0, to = 0;
};
void from_config(const ConfigNode& node, Interval& value) {
  const auto ends = node.as<std::vector<double>>();
  if (ends.size() != 2) node.fail("expected two numbers, found {}", ends.size());
  value = {ends[0], ends[1]};
}

}  // namespace

TEST_CASE("a node knows its kind") {
  CHECK(node_of("{a: 1}").is_map());
  CHECK(node_of("[1]").is_sequence());
  CHECK(node_of("1").is_scalar());
  CHECK(node_of("~").is_null());
  CHECK(node_of("null").is_null());
  CHECK(node_of("").is_null());
  CHECK(node_of("'~'").is_scalar());
  CHECK(node_of("''").is_scalar());
}

TEST_CASE("integers are read exactly") {
  CHECK(node_of("64").as<std::int64_t>() == 64);
  CHECK(node_of("-3").as<int>() == -3);
  CHECK(node_of("+3").as<int>() == 3);
  CHECK(node_of("010").as<int>() == 10);
  CHECK(node_of("0x1F").as<int>() == 31);
  CHECK(node_of("0o17").as<int>() == 15);
  CHECK(node_of("9223372036854775807").as<std::int64_t>() ==
        std::numeric_limits<std::int64_t>::max());
  CHECK(node_of("-9223372036854775808").as<std::int64_t>() ==
        std::numeric_limits<std::int64_t>::min());
  CHECK(node_of("18446744073709551615").as<std::uint64_t>() ==
        std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("what is no integer is an error that says what was found") {
  using std::int64_t;
  const std::string place = "a.yaml:1:4: x: ";
  CHECK(message<int64_t>("ten") == place + "expected an integer, found \"ten\"");
  CHECK(message<int64_t>("ten", positive) == place + "expected a positive integer, found \"ten\"");
  CHECK(message<int64_t>("64.0") == place + "expected an integer, found 64.0; write 64");
  CHECK(message<int64_t>("1e3") == place + "expected an integer, found 1e3; write 1000");
  CHECK(message<int64_t>("0.5") == place + "expected an integer, found 0.5");
  CHECK(message<int64_t>("\"10\"") == place + "expected an integer, found the string \"10\"");
  CHECK(message<int64_t>("!!str 10") == place + "expected an integer, found the string \"10\"");
  CHECK(message<int64_t>("60_000") == place + "expected an integer, found \"60_000\"");
  CHECK(message<int64_t>("true") == place + "expected an integer, found true");
  CHECK(message<int64_t>("~") == place + "expected an integer, found nothing");
  CHECK(message<int64_t>("[1]") == place + "expected an integer, found a list");
  CHECK(message<int64_t>("[]") == place + "expected an integer, found an empty list");
  CHECK(message<int64_t>("{a: 1}") == place + "expected an integer, found a map");
  CHECK(message<int64_t>("''") == place + "expected an integer, found \"\"");
  CHECK(message<int64_t>("-0x10") == place + "expected an integer, found \"-0x10\"");
  CHECK(message<int64_t>(".nan") == place + "expected an integer, found .nan");
  CHECK(message<int64_t>(".inf") == place + "expected an integer, found .inf");
}

TEST_CASE("an integer that its type cannot hold is an error that names the limit") {
  const std::string place = "a.yaml:1:4: x: ";
  CHECK(message<std::int64_t>("9223372036854775808") ==
        place +
            "expected an integer, found 9223372036854775808; the largest possible is "
            "9223372036854775807");
  CHECK(message<int>("2147483648") ==
        place + "expected an integer, found 2147483648; the largest possible is 2147483647");
  CHECK(message<int>("-2147483649") ==
        place + "expected an integer, found -2147483649; the least possible is -2147483648");
  CHECK(message<std::uint64_t>("-1") ==
        place + "expected an integer, found -1; the least possible is 0");
  CHECK(message<std::uint64_t>("-1", at_least(0)) ==
        place + "expected an integer of at least 0, found -1");
}

TEST_CASE("numbers are those of the core schema") {
  CHECK(node_of("1e-3").as<double>() == 1e-3);
  CHECK(node_of("1").as<double>() == 1.0);
  CHECK(node_of("+.5E+1").as<double>() == 5.0);
  CHECK(node_of("1.").as<double>() == 1.0);
  CHECK(node_of("-0.25").as<float>() == -0.25F);
  CHECK(node_of("0x10").as<double>() == 16.0);
  CHECK(node_of(".inf").as<double>() == std::numeric_limits<double>::infinity());
  CHECK(node_of("-.Inf").as<float>() == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(node_of(".nan").as<double>()));
}

TEST_CASE("what is no number is an error") {
  const std::string place = "a.yaml:1:4: x: ";
  CHECK(message<double>("fast") == place + "expected a number, found \"fast\"");
  CHECK(message<double>("1e") == place + "expected a number, found \"1e\"");
  CHECK(message<double>(".") == place + "expected a number, found \".\"");
  CHECK(message<double>("inf") == place + "expected a number, found \"inf\"");
  CHECK(message<double>("nan") == place + "expected a number, found \"nan\"");
  CHECK(message<double>("1,5") == place + "expected a number, found \"1,5\"");
  CHECK(message<double>("true") == place + "expected a number, found true");
  CHECK(message<double>("'1.5'") == place + "expected a number, found the string \"1.5\"");
  CHECK(message<double>("1e999") ==
        place + "expected a number, found 1e999, which is too large or too small to be stored");
  CHECK(message<float>("1e39") ==
        place + "expected a number, found 1e39, which is too large or too small to be stored");
}

TEST_CASE("a range is part of what is expected") {
  using std::int64_t;
  const std::string place = "a.yaml:1:4: x: ";
  CHECK(message<int64_t>("0", positive) == place + "expected a positive integer, found 0");
  CHECK(message<int64_t>("1", positive) == "no error");
  CHECK(message<int64_t>("1", at_least(2)) == place + "expected an integer of at least 2, found 1");
  CHECK(message<int64_t>("9", ValueRange{.high = 8}) ==
        place + "expected an integer of at most 8, found 9");
  CHECK(message<double>("1.5", between(0, 1)) ==
        place + "expected a number between 0 and 1, found 1.5");
  CHECK(message<double>("1", between(0, 1)) == "no error");
  CHECK(message<double>("-2", between(-1, 2147483647)) ==
        place + "expected a number between -1 and 2147483647, found -2");
  CHECK(message<double>(".nan", between(0, 1)) ==
        place + "expected a number between 0 and 1, found .nan");
  CHECK(message<double>("1", at_least(0).below(1)) ==
        place + "expected a number of at least 0 and below 1, found 1");
  CHECK(message<double>("0", positive.up_to(1)) ==
        place + "expected a positive number of at most 1, found 0");
  CHECK(message<double>("0", positive) == place + "expected a positive number, found 0");
  CHECK(message<double>(".inf", positive) == "no error");
  CHECK(message<double>(".inf", any_finite) == place + "expected a finite number, found .inf");
  CHECK(message<double>(".nan", any_finite) == place + "expected a finite number, found .nan");
  CHECK(message<double>("1e308", any_finite) == "no error");
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CHECK(message<double>(".inf", at_least(0).below(infinity)) ==
        place + "expected a finite number of at least 0, found .inf");
  CHECK(message<double>(".inf", positive.below(infinity)) ==
        place + "expected a positive finite number, found .inf");
}

TEST_CASE("only true and false are booleans") {
  CHECK(node_of("true").as<bool>());
  CHECK(node_of("True").as<bool>());
  CHECK_FALSE(node_of("false").as<bool>());
  CHECK_FALSE(node_of("FALSE").as<bool>());
  const std::string place = "a.yaml:1:4: x: ";
  CHECK(message<bool>("yes") == place + "expected true or false, found \"yes\"; write true");
  CHECK(message<bool>("Off") == place + "expected true or false, found \"Off\"; write false");
  CHECK(message<bool>("1") == place + "expected true or false, found 1; write true");
  CHECK(message<bool>("maybe") == place + "expected true or false, found \"maybe\"");
  CHECK(message<bool>("'true'") == place + "expected true or false, found the string \"true\"");
}

TEST_CASE("every scalar is a string, but nothing is none") {
  CHECK(node_of("relu").as<std::string>() == "relu");
  CHECK(node_of("10").as<std::string>() == "10");
  CHECK(node_of("''").as<std::string>().empty());
  CHECK(node_of("yes").as<std::string>() == "yes");
  CHECK(message<std::string>("~") == "a.yaml:1:4: x: expected a string, found nothing");
  CHECK(message<std::string>("[a]") == "a.yaml:1:4: x: expected a string, found a list");
}

TEST_CASE("a list is read element by element, and its errors name the element") {
  CHECK(node_of("[1, 2]").as<std::vector<std::int64_t>>() == std::vector<std::int64_t>{1, 2});
  CHECK(node_of("[]").as<std::vector<std::string>>().empty());
  CHECK(node_of("[[1], []]").as<std::vector<std::vector<int>>>() ==
        std::vector<std::vector<int>>{{1}, {}});
  CHECK(node_of("[1, ~]").as<std::vector<std::optional<int>>>() ==
        std::vector<std::optional<int>>{1, std::nullopt});
  CHECK(message<std::vector<int>>("[1, a]") ==
        "a.yaml:1:8: x[1]: expected an integer, found \"a\"");
  CHECK(message<std::vector<int>>("[1, -2]", positive) ==
        "a.yaml:1:8: x[1]: expected a positive integer, found -2");
  CHECK(message<std::vector<int>>("1") == "a.yaml:1:4: x: expected a list, found 1");
}

TEST_CASE("null clears an optional") {
  CHECK(node_of("~").as<std::optional<int>>() == std::nullopt);
  CHECK(node_of("3").as<std::optional<int>>() == 3);
  CHECK(message<std::optional<int>>("a") == "a.yaml:1:4: x: expected an integer, found \"a\"");
}

TEST_CASE("a type with a from_config is read by it") {
  CHECK(node_of("[1, 2]").as<Interval>().to == 2);
  CHECK(node_of("[[1, 2]]").as<std::vector<Interval>>()[0].from == 1);
  CHECK_FALSE(node_of("~").as<std::optional<Interval>>().has_value());
  CHECK(message<Interval>("[1]") == "a.yaml:1:4: x: expected two numbers, found 1");
}

TEST_CASE("a choice knows its names") {
  CHECK(node_of("green").choice(colours) == Colour::green);
  CHECK_THROWS_WITH(node_of("gren").choice(colours),
                    "a.yaml:1:4: x: expected one of red, green, found \"gren\"; did you mean "
                    "\"green\"?");
  CHECK_THROWS_WITH(node_of("purple").choice(colours),
                    "a.yaml:1:4: x: expected one of red, green, found \"purple\"");
  CHECK_THROWS_WITH(node_of("~").choice(colours),
                    "a.yaml:1:4: x: expected one of red, green, found nothing");
  CHECK_THROWS_WITH(node_of("a").choice(ChoiceTable<int>{{"b", 1}}),
                    Catch::StartsWith("a.yaml:1:4: x: expected b, found \"a\""));
}

TEST_CASE("a file name is taken as it is written") {
  CHECK(node_of("data/a.h5").as_path() == "data/a.h5");
  CHECK(node_of("/a").as<std::filesystem::path>() == "/a");
  CHECK_THROWS_WITH(node_of("''").as_path(), "a.yaml:1:4: x: expected a file name, found \"\"");
  CHECK_THROWS_WITH(node_of("~").as_path(), "a.yaml:1:4: x: expected a file name, found nothing");
  CHECK_THROWS_WITH(node_of("\"a\\0b\"").as_path(),
                    "a.yaml:1:4: x: expected a file name, found \"a\\x00b\", which contains a zero "
                    "byte");
}

TEST_CASE("entries keep their order and know the places of their keys") {
  const ConfigNode root = parse_config("b: 1\na:\n  c: [7]\n", "a.yaml");
  const std::vector<ConfigEntry> entries = root.entries();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].name == "b");
  CHECK(entries[0].value.location() == "a.yaml:1:4");
  CHECK(entries[1].key.location() == "a.yaml:2:1");
  CHECK(entries[1].key.path().empty());
  const ConfigNode seven = entries[1].value.find("c")->elements()[0];
  CHECK(seven.path() == "a.c[0]");
  CHECK(seven.location() == "a.yaml:3:7");
  CHECK_FALSE(root.find("z").has_value());
  CHECK_THROWS_WITH(seven.entries(), "a.yaml:3:7: a.c[0]: expected a map, found 7");
  CHECK_THROWS_WITH(root.elements(), "a.yaml:1:1: expected a list, found a map");
}

TEST_CASE("null has no entries and is no list") {
  CHECK(node_of("").entries().empty());
  CHECK_FALSE(node_of("").find("a").has_value());
  CHECK_THROWS_WITH(node_of("~").elements(), "a.yaml:1:4: x: expected a list, found nothing");
}

TEST_CASE("an object is a name with or without options") {
  const auto root = parse_config(
      "- Dense: {units: 3}\n- Flatten:\n- ReLU\n- {a: 1, b: 2}\n- {}\n- 3\n-\n", "a.yaml");
  const std::vector<ConfigNode> nodes = root.elements();
  const ConfigEntry dense = nodes[0].single_entry("a layer");
  CHECK(dense.name == "Dense");
  CHECK(dense.key.location() == "a.yaml:1:3");
  CHECK(dense.key.path() == "[0]");
  CHECK(dense.value.path() == "[0].Dense");
  CHECK(dense.value.location() == "a.yaml:1:10");
  const ConfigEntry flatten = nodes[1].single_entry("a layer");
  CHECK(flatten.name == "Flatten");
  CHECK(flatten.value.is_null());
  CHECK(flatten.value.location() == "a.yaml:2:10");
  const ConfigEntry relu = nodes[2].single_entry("a layer");
  CHECK(relu.name == "ReLU");
  CHECK(relu.value.is_null());
  CHECK(relu.value.path() == "[2].ReLU");
  CHECK(relu.value.location() == "a.yaml:3:3");
  CHECK_THROWS_WITH(
      nodes[3].single_entry("a layer"),
      "a.yaml:4:3: [3]: expected a layer, as Name: {option: value}, found a map with 2 "
      "entries (a, b); is the indentation right?");
  CHECK_THROWS_WITH(
      nodes[4].single_entry("a layer"),
      "a.yaml:5:3: [4]: expected a layer, as Name: {option: value}, found an empty map");
  CHECK(nodes[5].single_entry("a layer").name == "3");
  CHECK_THROWS_WITH(nodes[6].single_entry("a layer"),
                    "a.yaml:7:1: [6]: expected a layer, as Name: {option: value}, found nothing");
}

TEST_CASE("an unknown name is reported with the nearest one and all there are") {
  const ConfigEntry entry = node_of("{Dens: {}}").single_entry();
  CHECK(std::string(entry.key.unknown("layer", {"Add", "Dense"}).what()) ==
        "a.yaml:1:5: x: unknown layer \"Dens\"; did you mean \"Dense\"? (known: Add, Dense)");
  CHECK(std::string(entry.key.unknown("layer", {"Flatten"}).what()) ==
        "a.yaml:1:5: x: unknown layer \"Dens\" (known: Flatten)");
}

TEST_CASE("columns count characters, not bytes") {
  CHECK(parse_config("{ä: é, b: 1}", "a.yaml").find("b")->location() == "a.yaml:1:11");
}

TEST_CASE("a value that was left out is placed at its key") {
  const ConfigNode root =
      parse_config("a:\n# comment\nb: # comment\nnull_rate: {c: , d}\ne:\n  null\n", "a.yaml");
  CHECK(root.find("a")->location() == "a.yaml:1:2");
  CHECK(root.find("b")->location() == "a.yaml:3:2");
  CHECK(root.find("null_rate")->find("c")->location() == "a.yaml:4:14");
  CHECK(root.find("e")->location() == "a.yaml:6:3");
}

TEST_CASE("an alias shows where its value was written, under its own path") {
  const ConfigNode root = parse_config("a: &a {b: ten}\nc: *a\n", "a.yaml");
  CHECK_THROWS_WITH(root.find("c")->find("b")->as<int>(),
                    "a.yaml:1:11: c.b: expected an integer, found \"ten\"");
}

TEST_CASE("a path quotes keys that need it") {
  const ConfigNode root = parse_config("layout: {\"f.*/kernel\": 1, d1/kernel: 2}", "a.yaml");
  CHECK(root.find("layout")->entries()[0].value.path() == "layout.\"f.*/kernel\"");
  CHECK(root.find("layout")->entries()[1].value.path() == "layout.d1/kernel");
}

TEST_CASE("a message is one line and does not repeat a long text") {
  CHECK(message<int>("\"a\\nb\\e\"") == "a.yaml:1:4: x: expected an integer, found \"a\\nb\\x1b\"");
  CHECK(message<int>(std::string(1000, 'a')) ==
        "a.yaml:1:4: x: expected an integer, found \"" + std::string(60, 'a') + "...\"");
  CHECK(message<bool>(std::string(1000, '7')) ==
        "a.yaml:1:4: x: expected true or false, found " + std::string(60, '7') + "...");
  CHECK_THROWS_WITH(node_of("1").fail("two\nlines {}", 7), "a.yaml:1:4: x: two\\nlines 7");
}

TEST_CASE("an error without a place gets one") {
  const ConfigNode node = node_of("1");
  CHECK_THROWS_WITH(node.located([] { fail("units {} do not fit", 3); }),
                    "a.yaml:1:4: x: units 3 do not fit");
  CHECK_THROWS_WITH(node.located([&] { node_of("a").fail("inner"); }), "a.yaml:1:4: x: inner");
  CHECK(node.located([] { return 5; }) == 5);
  CHECK_THROWS_WITH(node.located([] { fail("Dense: no units"); }, "Dense: "),
                    "a.yaml:1:4: x: no units");
  // What an extension throws may be anything.
  CHECK_THROWS_WITH(node.located([] { throw std::out_of_range("no such row"); }),
                    "a.yaml:1:4: x: no such row");
  CHECK_THROWS_WITH(node.located([] { throw std::bad_alloc(); }),
                    "a.yaml:1:4: x: there is not enough memory");
  CHECK_THROWS_WITH(node.located([] { throw 7; }), "a.yaml:1:4: x: an exception of unknown type");
}

}  // namespace meshwork::node_test
