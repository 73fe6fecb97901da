#include <string>
#include <utility>
#include <vector>

#include "runtime/config/load.h"
#include "tests/support/catch.h"

namespace meshwork::emit_test {

namespace {

std::string emitted(const std::string& text) {
  return to_yaml(parse_config(text, "a.yaml"));
}

}  // namespace

TEST_CASE("a configuration is printed one entry a line, lists of scalars on one") {
  CHECK(emitted("{seed: 7, mesh: {data: 2}, layout: {d1/kernel: [~, model]},"
                " model: {layers: [{Flatten: }, {Dense: {name: d1, units: 0x10}}, ReLU, [1, [2]]]},"
                " none: [], nothing: {}}") ==
        "seed: 7\n"
        "mesh:\n"
        "  data: 2\n"
        "layout:\n"
        "  d1/kernel: [~, model]\n"
        "model:\n"
        "  layers:\n"
        "    - Flatten:\n"
        "    - Dense:\n"
        "        name: d1\n"
        "        units: 0x10\n"
        "    - ReLU\n"
        "    - - 1\n"
        "      - [2]\n"
        "none: []\n"
        "nothing: {}\n");
}

TEST_CASE("strings that would read as something else are quoted") {
  CHECK(emitted("a: '10'") == "a: \"10\"\n");
  CHECK(emitted("a: 10") == "a: 10\n");
  CHECK(emitted("a: 'true'") == "a: \"true\"\n");
  CHECK(emitted("a: 'null'") == "a: \"null\"\n");
  CHECK(emitted("a: '~'") == "a: \"~\"\n");
  CHECK(emitted("a: ''") == "a: \"\"\n");
  CHECK(emitted("a: 'relu'") == "a: relu\n");
  CHECK(emitted("a: x y") == "a: \"x y\"\n");
  CHECK(emitted("a: -1.5e3") == "a: -1.5e3\n");
  CHECK(emitted("a: |\n  x\n  \"y\\\n") == "a: \"x\\n\\\"y\\\\\\n\"\n");
  CHECK(emitted("'f.*': 1") == "\"f.*\": 1\n");
  CHECK(emitted("a: \"\\0\\e\"") == "a: \"\\x00\\x1b\"\n");
  CHECK(emitted("a: ä") == "a: \"ä\"\n");
}

TEST_CASE("aliases are written out") {
  CHECK(emitted("a: &a {b: 1}\nc: *a") == "a:\n  b: 1\nc:\n  b: 1\n");
}

TEST_CASE("a scalar or a list alone is a document") {
  CHECK(emitted("7") == "7\n");
  CHECK(emitted("[1, a]") == "[1, a]\n");
  CHECK(emitted("[{a: }]") == "- a:\n");
  CHECK(emitted("{}") == "{}\n");
}

TEST_CASE("the entries of a document are its values by their paths") {
  const std::vector<std::pair<std::string, std::string>> expected{
      {"optimizer.Adam.learning_rate", "1e-3"},
      {"layout.\"a.b/kernel\"", "[~, model]"},
      {"model[0].Flatten", "~"},
      {"model[1].Dense.name", "\"7\""},
      {"mesh", "{}"}};
  CHECK(entries_of(parse_config("optimizer: {Adam: {learning_rate: 1e-3}}\n"
                                "layout: {a.b/kernel: [~, model]}\n"
                                "model: [{Flatten: }, {Dense: {name: '7'}}]\n"
                                "mesh: {}\n",
                                "text")) == expected);
}

}  // namespace meshwork::emit_test
