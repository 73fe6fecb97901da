#include "runtime/mesh/layout_map.h"

#include <chrono>
#include <functional>
#include <string>

#include "collectives/error.h"
#include "tests/support/catch.h"

namespace meshwork::layout_map_test {

namespace {

const MeshShape mesh({{"data", 2}, {"model", 4}}, 8);

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string message_of_key(const std::string& key) {
  return message_of([&] { LayoutMap(mesh).insert(key, {"model"}, "c.yaml:7:14"); });
}

std::string unmatched_message(const std::string& key, const std::vector<std::string>& paths) {
  LayoutMap layouts(mesh);
  layouts.insert(key, {"model"}, "c.yaml:7:14");
  const std::vector<UnmatchedKey> unmatched = layouts.unmatched(paths);
  return unmatched.size() == 1 ? unmatched[0].message : "";
}

}  // namespace

TEST_CASE("a layout map reads as in Keras") {
  LayoutMap layouts(mesh);
  layouts["d1/kernel"] = {unsharded, "model"};
  layouts["d1/bias"] = {"model"};
  layouts[".*/embeddings"] = {{"data", "model"}, unsharded};
  layouts["scale"] = {};
  CHECK(layouts.size() == 4);
  CHECK(layouts.find("d1/kernel")->layout == TensorLayout{unsharded, "model"});
  CHECK(layouts.find("block/tokens/embeddings")->key == ".*/embeddings");
  CHECK(layouts.find("scale")->layout.empty());
  CHECK_FALSE(layouts.find("d2/kernel").has_value());
  CHECK(layouts.contains("d1/bias"));
  CHECK_FALSE(layouts.contains("d1/b.*"));
}

TEST_CASE("a pattern has to match the whole path") {
  LayoutMap layouts(mesh);
  layouts["d1/ker"] = {"model"};
  layouts["eature_.*"] = {"model"};
  CHECK_FALSE(layouts.find("d1/kernel").has_value());
  CHECK_FALSE(layouts.find("feature_2/kernel").has_value());
}

TEST_CASE("an exact key wins over patterns, wherever it stands") {
  LayoutMap layouts(mesh);
  layouts[".*kernel"] = {"model", unsharded};
  layouts["d1/kernel"] = {unsharded, "model"};
  layouts["d1/.*"] = {"data", unsharded};
  CHECK(layouts.find("d1/kernel")->key == "d1/kernel");
  CHECK(layouts.find("d2/kernel")->key == ".*kernel");
  CHECK(layouts.find("d1/bias")->key == "d1/.*");
}

TEST_CASE("a thousand keys that are no expressions are found in time") {
  LayoutMap layouts(mesh);
  const auto path_of = [](int i) {
    return "block_" + std::to_string(i) + "/attention/query/kernel";
  };
  for (int i = 0; i < 1000; ++i) layouts[path_of(i)] = {"model"};
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(layouts.find(path_of(i))->key == path_of(i));
    REQUIRE(!layouts.find(path_of(i) + "s"));
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
}

TEST_CASE("a path that two patterns match is an error, even if their layouts are equal") {
  LayoutMap layouts(mesh);
  layouts.insert(".*kernel", {"model"}, "c.yaml:3:5");
  layouts.insert("d1/.*", {"model"}, "c.yaml:4:5");
  CHECK(message_of([&] { (void)layouts.find("d1/kernel"); }) ==
        "c.yaml:3:5, c.yaml:4:5: d1/kernel: 2 layout keys match it, \".*kernel\" and \"d1/.*\"; "
        "one at most may. The exact key \"d1/kernel\" would settle it");
}

TEST_CASE("entries keep the order in which they were added, and can be deleted by exact key") {
  LayoutMap layouts(mesh);
  layouts["b"] = {"model"};
  layouts["a.*"] = {"data"};
  layouts["c"] = {"model"};
  layouts.erase("b");
  REQUIRE(layouts.entries().size() == 2);
  CHECK(layouts.entries()[0].key == "a.*");
  CHECK(layouts.entries()[1].key == "c");
  CHECK(message_of([&] { layouts.erase("a"); }) ==
        "there is no layout key \"a\" to delete; did you mean \"c\"?");
  layouts["b"] = {"data"};
  CHECK(layouts.find("b")->layout == TensorLayout{"data"});
}

TEST_CASE("a key that is set twice is an error") {
  LayoutMap layouts(mesh);
  layouts.insert("d1/kernel", {"model"}, "c.yaml:3:5");
  CHECK(message_of([&] { layouts.insert("d1/kernel", {"data"}, "c.yaml:9:5"); }) ==
        "c.yaml:9:5: layout key \"d1/kernel\" is given twice, before at c.yaml:3:5; delete one of "
        "them");
  CHECK(message_of([&] { layouts["d1/kernel"] = {"data"}; }) ==
        "layout key \"d1/kernel\" is given twice, before at c.yaml:3:5; delete one of them");
  CHECK(message_of([&] { layouts[""] = {"data"}; }) ==
        "layout key \"\" is empty; expected a path or a regular expression");
}

TEST_CASE("a malformed expression is an error with its position and reason") {
  CHECK(message_of_key("d1/(kernel") ==
        "c.yaml:7:14: layout key \"d1/(kernel\" is not a regular expression: parentheses that do "
        "not match, at character 4 (\"(kernel\")");
  CHECK(message_of_key("*kernel") ==
        "c.yaml:7:14: layout key \"*kernel\" is not a regular expression: nothing before it to "
        "repeat, at character 1 (\"*kernel\")");
  const auto position = [](const std::string& key) {
    const std::string message = message_of_key(key);
    const std::size_t at = message.find("at character ");
    return at == std::string::npos ? -1 : std::stoi(message.substr(at + 13));
  };
  CHECK(position("a(b|*c)d") == 5);
  CHECK(position("a(b)(c") == 5);
  CHECK(position("ab)c") == 3);
  CHECK(position("d[0-9/kernel") == 2);
  CHECK(position("d[9-0]/kernel") == 2);
  CHECK(position("d{2,1}") == 2);
  CHECK(position("kernel\\") == 7);
  CHECK(position("\\(kernel") == -1);
  CHECK(position("[(]kernel") == -1);
}

TEST_CASE("an expression that backtracks without end is matched in time") {
  LayoutMap layouts(mesh);
  layouts["(.*)*(.*)*x"] = {"model"};
  CHECK_FALSE(layouts.find(std::string(200, 'a') + "/kernel").has_value());
}

TEST_CASE("an axis that the mesh lacks or that is used twice is an error when the key is set") {
  LayoutMap layouts(mesh);
  CHECK(message_of([&] {
          layouts.insert("d1/kernel", {unsharded, "modell"}, "c.yaml:7:14");
        }) ==
        "c.yaml:7:14: layout of \"d1/kernel\" [~, modell]: dimension 1 is split by axis "
        "\"modell\", which the mesh data=2 x model=4 does not have; did you mean \"model\"?");
  CHECK(message_of([&] {
          layouts.insert("d1/kernel", {"model", "model"}, "c.yaml:7:14");
        }) ==
        "c.yaml:7:14: layout of \"d1/kernel\" [model, model]: axis \"model\" (size 4) is used for "
        "dimension 0 and for dimension 1; an axis splits one dimension only");
  CHECK(layouts.empty());
}

TEST_CASE("a layout is resolved for a tensor of its rank only") {
  LayoutMap layouts(mesh);
  layouts.insert("d.*", {unsharded, "model"}, "c.yaml:7:14");
  layouts["e"] = {"model"};
  CHECK(layouts.resolve(*layouts.find("d1/kernel"), "d1/kernel", {784, 200}) ==
        Layout{{{}, {1}}, {}});
  CHECK(message_of([&] { (void)layouts.resolve(*layouts.find("d1/bias"), "d1/bias", {200}); }) ==
        "c.yaml:7:14: d1/bias: the layout [~, model] of layout key \"d.*\" has 2 dimensions, but "
        "the tensor has 1, its shape is (200)");
  CHECK(message_of([&] {
          (void)layouts.resolve(*layouts.find("e"), "e", {-1, 10});
        }) ==
        "e: the layout [model] has 1 dimension, but the tensor has 2, its shape is (batch, 10)");
}

TEST_CASE("a key that matches nothing is answered with the near misses") {
  const std::vector<std::string> paths{"d1/kernel",      "d1/output",        "d2/kernel",
                                       "d2/bias",        "d2/output",        "feature/kernel",
                                       "feature/output", "feature_2/kernel", "feature_2/output"};
  CHECK(unmatched_message("d1/bias", paths) ==
        "c.yaml:7:14: layout key \"d1/bias\" matches nothing in the model: d1 has no \"bias\", it "
        "has \"kernel\" and \"output\"");
  CHECK(unmatched_message("d1/kernal", paths) ==
        "c.yaml:7:14: layout key \"d1/kernal\" matches nothing in the model: d1 has no \"kernal\", "
        "it has \"kernel\" and \"output\"; did you mean \"kernel\"?");
  CHECK(unmatched_message("eature_2/kern", paths) ==
        "c.yaml:7:14: layout key \"eature_2/kern\" matches nothing in the model; a key has to "
        "match the whole path: \".*eature_2/kern.*\" would match \"feature_2/kernel\"");
  CHECK(unmatched_message("kernel|bias", paths) ==
        "c.yaml:7:14: layout key \"kernel|bias\" matches nothing in the model; a key has to match "
        "the whole path: \".*(kernel|bias).*\" would match \"d1/kernel\", \"d2/kernel\", "
        "\"d2/bias\", \"feature/kernel\", and 1 more");
  CHECK(unmatched_message("d3/kernel", paths) ==
        "c.yaml:7:14: layout key \"d3/kernel\" matches nothing in the model; did you mean "
        "\"d1/kernel\"?");
  CHECK(unmatched_message("zzz", paths) ==
        "c.yaml:7:14: layout key \"zzz\" matches nothing in the model; the nearest there are: "
        "\"d2/bias\", \"d1/kernel\" and \"d1/output\"");
  CHECK(unmatched_message("zzz", {}) ==
        "c.yaml:7:14: layout key \"zzz\" matches nothing in the model, which has no variables and "
        "no outputs");
}

TEST_CASE("a pattern whose only path an exact key takes is not unmatched") {
  LayoutMap layouts(mesh);
  layouts[".*kernel"] = {"model"};
  layouts["d1/kernel"] = {"model"};
  CHECK(layouts.unmatched(std::vector<std::string>{"d1/kernel"}).empty());
}

}  // namespace meshwork::layout_map_test
