// Options that are described once: read, checked, listed, and told to people.
#include "runtime/config/options.h"

#include "runtime/config/catalog.h"
#include "runtime/config/load.h"
#include "tests/support/catch.h"

namespace meshwork::options_test {

namespace {

enum class Colour : std::uint8_t { red, green };

struct PaintOptions {
  std::int64_t coats = 0;
  double gloss = 0.5;
  std::optional<double> hours;
  std::vector<double> mixture{1, 2};
  bool wet = false;
  Colour colour = Colour::green;
  std::string name = "wall";
};

template <class Visitor>
void describe(PaintOptions& options, Visitor& option) {
  option.about("a coat of paint");
  option.required("coats", options.coats, positive, "how many");
  option("gloss", options.gloss, between(0, 1), "how much it shines");
  option("hours", options.hours, finite_positive, "to dry");
  option("mixture", options.mixture, at_least(0), "parts of each");
  option("wet", options.wet, "on what is wet");
  option.choice("colour", options.colour, {{"red", Colour::red}, {"green", Colour::green}},
                "of it");
  option("name", options.name, "of what is painted");
}

PaintOptions read(const std::string& text) {
  return read_options<PaintOptions>(parse_config(text, "paint.yaml"), Catalog(), "Paint",
                                    {"inputs"});
}

struct Painted {
  PaintOptions options;
};

std::string refusal(const PaintOptions& options) {
  try {
    check_options("Paint", options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

}  // namespace meshwork::options_test

template <>
struct meshwork::KindOf<meshwork::options_test::Painted> {
  static constexpr const char* word = "painted thing";
  static constexpr const char* article = "a painted thing";
};

namespace meshwork::options_test {

TEST_CASE("classes that share options have defaults and words of their own") {
  const auto make = [](const PaintOptions& options) { return Painted{options}; };
  Catalog catalog;
  catalog.add<Painted, PaintOptions>("Door", {"door"}, make, {.coats = 2, .gloss = 0.25}, "a door");
  catalog.add<Painted, PaintOptions>("Fence", {}, make);
  const auto told = [&](const char* name) {
    return catalog.described().at("painted thing").at(name).explain();
  };
  CHECK(told("Door").about == "a door");
  CHECK(told("Door").options[1].initial == "0.25");
  CHECK(told("Fence").about == "a coat of paint");
  CHECK(told("Fence").options[1].initial == "0.5");
  const auto made = [&](const std::string& text) {
    return catalog.make<Painted>(parse_config(text, "paint.yaml")).options;
  };
  CHECK(made("{Door: {coats: 3}}").coats == 3);
  CHECK(made("{Door: {coats: 3}}").gloss == 0.25);
  CHECK(made("{Fence: {coats: 3}}").gloss == 0.5);
  CHECK_THROWS_WITH(made("{Door: {coats: 0}}"),
                    "paint.yaml:1:16: Door.coats: expected a positive integer, found 0 (meshwork "
                    "reference Door)");
}

TEST_CASE("what a configuration does not say is as the struct has it") {
  const PaintOptions options = read("{coats: 2, hours: 3, colour: red, mixture: [4], inputs: x}");
  CHECK(options.coats == 2);
  CHECK(options.gloss == 0.5);
  CHECK(options.hours == 3.0);
  CHECK(options.mixture == std::vector<double>{4});
  CHECK(options.colour == Colour::red);
  CHECK(options.name == "wall");
}

TEST_CASE("a configuration that does not fit the description is an error with its place") {
  CHECK_THROWS_WITH(read("{gloss: 0.5}"), Catch::Contains("key \"coats\" is missing; expected a "
                                                          "positive integer"));
  CHECK_THROWS_WITH(read("{coats: 1, gloss: 2}"),
                    Catch::StartsWith("paint.yaml:1:19: gloss: expected a number between 0 and 1"));
  CHECK_THROWS_WITH(read("{coats: 1, mixture: [1, -1]}"), Catch::Contains("at least 0"));
  CHECK_THROWS_WITH(read("{coats: 1, colour: gren}"), Catch::Contains("did you mean \"green\"?"));
  CHECK_THROWS_WITH(read("{coats: 1, glos: 1}"), Catch::Contains("did you mean \"gloss\"?"));
  CHECK_THROWS_WITH(read("{coats: 1, colour: blue, gloss: 3}"),
                    "paint.yaml:1:20: colour: expected one of red, green, found \"blue\" (meshwork "
                    "reference Paint)\npaint.yaml:1:33: gloss: expected a number between 0 and 1, "
                    "found 3 (meshwork reference Paint)");
}

TEST_CASE("the same ranges hold for options that C++ gives") {
  CHECK(refusal({.coats = 1}).empty());
  CHECK(refusal({}) == "Paint: coats: expected a positive integer, found 0");
  CHECK(refusal({.coats = 1, .gloss = -1}) ==
        "Paint: gloss: expected a number between 0 and 1, found -1");
  CHECK(refusal({.coats = 1, .hours = 0}) ==
        "Paint: hours: expected a positive finite number, found 0");
  CHECK(refusal({.coats = 1, .mixture = {1, -2}}) ==
        "Paint: mixture: expected a number of at least 0, found -2");
  CHECK(refusal({.coats = 1, .colour = static_cast<Colour>(7)}) ==
        "Paint: colour: expected one of red, green");
}

TEST_CASE("ranks and people are told all of them, in their order") {
  CHECK(settings_of(PaintOptions{.coats = 3, .hours = 1.5}) == Settings{{"coats", "3"},
                                                                        {"gloss", "0.5"},
                                                                        {"hours", "1.5"},
                                                                        {"mixture", "[1, 2]"},
                                                                        {"wet", "false"},
                                                                        {"colour", "green"},
                                                                        {"name", "wall"}});
  const std::vector<OptionText> texts = explained<PaintOptions>().options;
  CHECK(explained<PaintOptions>().about == "a coat of paint");
  REQUIRE(texts.size() == 7);
  CHECK(texts[0].name == "coats");
  CHECK(texts[0].expected == "a positive integer");
  CHECK(texts[0].initial.empty());
  CHECK(texts[0].required);
  CHECK_FALSE(texts[1].required);
  CHECK(texts[0].help == "how many");
  CHECK(texts[2].initial == "none");
  CHECK(texts[3].expected == "a list, each a number of at least 0");
  CHECK(texts[5].expected == "one of red, green");
  CHECK(texts[5].initial == "green");
}

}  // namespace meshwork::options_test
