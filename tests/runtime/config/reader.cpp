#include "runtime/config/reader.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/catalog.h"
#include "runtime/config/load.h"
#include "tests/support/catch.h"

namespace meshwork::reader_test {

namespace {

enum class Activation { linear, relu };

struct DenseOptions {
  std::string name;
  std::int64_t units = 0;
  bool use_bias = true;
  Activation activation = Activation::linear;
  std::optional<double> limit = 3.0;
};

template <class Visitor>
void describe(DenseOptions& options, Visitor& option) {
  option("name", options.name, "of the layer");
  option.required("units", options.units, positive, "number of outputs");
  option("use_bias", options.use_bias, "add a bias");
  option.choice("activation", options.activation,
                {{"linear", Activation::linear}, {"relu", Activation::relu}}, "of each output");
  option("limit", options.limit, between(0, 10), "of outputs");
}

DenseOptions read_dense(const std::string& text) {
  return read_options<DenseOptions>(parse_config(text, "a.yaml").single_entry().value, Catalog(),
                                    "Dense");
}

}  // namespace

TEST_CASE("given options are read and absent ones keep their defaults") {
  const DenseOptions some = read_dense("Dense: {units: 5, activation: relu, limit: ~}");
  CHECK(some.units == 5);
  CHECK(some.activation == Activation::relu);
  CHECK(some.limit == std::nullopt);
  CHECK(some.use_bias);
  const DenseOptions others =
      read_dense("Dense:\n  limit: 2\n  units: 1\n  use_bias: false\n  name: d");
  CHECK(others.limit == 2.0);
  CHECK_FALSE(others.use_bias);
  CHECK(others.name == "d");
  CHECK(others.activation == Activation::linear);
}

TEST_CASE("errors in options name them, and the command that explains them") {
  CHECK_THROWS_WITH(read_dense("Dense: {units: ten}"),
                    "a.yaml:1:16: Dense.units: expected a positive integer, found \"ten\" "
                    "(meshwork reference Dense)");
  CHECK_THROWS_WITH(
      read_dense("Dense: {units: -1}"),
      "a.yaml:1:16: Dense.units: expected a positive integer, found -1 (meshwork reference Dense)");
  CHECK_THROWS_WITH(read_dense("Dense: {units: 1, limit: 11}"),
                    "a.yaml:1:26: Dense.limit: expected a number between 0 and 10, found 11 "
                    "(meshwork reference Dense)");
  CHECK_THROWS_WITH(read_dense("Dense: {units: 1, activation: rleu}"),
                    "a.yaml:1:31: Dense.activation: expected one of linear, relu, found \"rleu\"; "
                    "did you mean \"relu\"? (meshwork reference Dense)");
  CHECK_THROWS_WITH(
      read_dense("Dense: {units: 1, name: }"),
      "a.yaml:1:23: Dense.name: expected a string, found nothing (meshwork reference Dense)");
}

TEST_CASE("an unknown key is an error with the nearest known one") {
  CHECK_THROWS_WITH(
      read_dense("Dense:\n  units: 1\n  use_bais: true"),
      "a.yaml:3:3: Dense: unknown key \"use_bais\"; did you mean \"use_bias\"? (known: "
      "name, units, use_bias, activation, limit) (meshwork reference Dense)");
  CHECK_THROWS_WITH(read_dense("Dense: {units: 1, regularisation: 3}"),
                    "a.yaml:1:19: Dense: unknown key \"regularisation\" (known: name, units, "
                    "use_bias, activation, limit) (meshwork reference Dense)");
}

TEST_CASE("a missing key is an error that says what it must be") {
  CHECK_THROWS_WITH(read_dense("Dense:\n  name: d"),
                    "a.yaml:2:3: Dense: key \"units\" is missing; expected a positive integer "
                    "(meshwork reference Dense)");
  CHECK_THROWS_WITH(read_dense("Dense:"),
                    "a.yaml:1:6: Dense: key \"units\" is missing; expected a positive integer "
                    "(meshwork reference Dense)");
  CHECK_THROWS_WITH(read_dense("Dense: {unit: 3}"),
                    "a.yaml:1:9: Dense: key \"units\" is missing; expected a positive integer; is "
                    "\"unit\" meant for it? (meshwork reference Dense)");
  ConfigReader reader(parse_config("a: 1", "a.yaml"));
  CHECK_THROWS_WITH(reader.required_node("colour", "one of red"),
                    "a.yaml:1:1: key \"colour\" is missing; expected one of red");
  CHECK_THROWS_WITH(reader.required_node("b"), "a.yaml:1:1: key \"b\" is missing");
}

TEST_CASE("options that are no map are an error") {
  CHECK_THROWS_WITH(read_dense("Dense: 5"), "a.yaml:1:8: Dense: expected a map, found 5");
  CHECK_THROWS_WITH(read_dense("Dense: [units]"),
                    "a.yaml:1:8: Dense: expected a map, found a list");
}

TEST_CASE("a null node reads as an empty map") {
  ConfigReader reader(*parse_config("a:", "a.yaml").find("a"));
  CHECK_FALSE(reader.node("b").has_value());
  reader.finish();
}

TEST_CASE("nested nodes are handed on, and count as asked for") {
  ConfigReader reader(parse_config("fit: {epochs: 3}\nlog:\n", "a.yaml"));
  REQUIRE(reader.node("log").has_value());
  CHECK(reader.node("log")->is_null());
  CHECK_FALSE(reader.node("optimizer").has_value());
  ConfigReader fit(reader.section("fit"));
  CHECK(fit.required_node("epochs").as<std::int64_t>(positive) == 3);
  ConfigReader data(reader.section("data"));
  CHECK_THROWS_WITH(data.required_node("train", "a data source"),
                    "a.yaml:1:1: data: key \"train\" is missing; expected a data source");
  reader.finish();
  fit.finish();
}

}  // namespace meshwork::reader_test
