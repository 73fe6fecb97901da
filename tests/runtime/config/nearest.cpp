#include "runtime/config/nearest.h"

#include "tests/support/catch.h"

namespace meshwork::nearest_test {

TEST_CASE("the edit distance counts letters inserted, deleted, replaced and swapped") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("dense", "dense") == 0);
  CHECK(edit_distance("dens", "dense") == 1);
  CHECK(edit_distance("dence", "dense") == 1);
  CHECK(edit_distance("desne", "dense") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("ca", "abc") == 3);  // no letter is touched twice
}

TEST_CASE("the nearest name ignores case first and then prefers it") {
  const std::vector<std::string> names{"Dense", "Dropout", "dense", "Flatten"};
  CHECK(nearest_name("Dens", names) == "Dense");
  CHECK(nearest_name("dense", names) == "dense");
  CHECK(nearest_name("DENSE", names) == "Dense");
  CHECK(nearest_name("dropuot", names) == "Dropout");
}

TEST_CASE("a name cut short is nearest to the one that it begins") {
  const std::vector<std::string> names{"loss", "accuracy", "val_loss", "val_accuracy"};
  CHECK(nearest_name("val_acc", names) == "val_accuracy");  // 5 letters away, and "val_loss" 4
  CHECK(nearest_name("ACC", names) == "accuracy");
  CHECK(nearest_name("ac", names).empty());  // two letters could begin anything
}

TEST_CASE("a word is near to the names that have it") {
  const std::vector<std::string> names{"name", "use_causal_mask", "dropout"};
  CHECK(nearest_name("causal", names) == "use_causal_mask");
  CHECK(nearest_name("casual", names) == "use_causal_mask");
  CHECK(nearest_name("mask", names).empty());  // four letters are near to too much
}

TEST_CASE("a name that is near to nothing has no nearest") {
  const std::vector<std::string> names{"data", "model", "lr"};
  CHECK(nearest_name("foo", names).empty());
  CHECK(nearest_name("l", names) == "lr");
  CHECK(nearest_name("xy", names).empty());
  CHECK(nearest_name("anything", {}).empty());
  CHECK(did_you_mean("modle", names) == "; did you mean \"model\"?");
  CHECK(did_you_mean("foo", names).empty());
}

TEST_CASE("the nearest names come nearest first, as many as there are") {
  const std::vector<std::string> names{"d1/kernel", "d2/bias", "d1/bias"};
  CHECK(nearest_names("d1/bia", names, 2) == std::vector<std::string>{"d1/bias", "d2/bias"});
  CHECK(nearest_names("d1/bia", names, 9).size() == 3);
}

TEST_CASE("lists of names are quoted and joined") {
  CHECK(quoted_list(std::vector<std::string>{}) == "none");
  CHECK(quoted_list(std::vector<std::string>{"a"}) == "\"a\"");
  CHECK(quoted_list(std::vector<std::string>{"a", "b"}) == "\"a\" and \"b\"");
  CHECK(quoted_list(std::vector<std::string>{"a", "b", "c"}) == "\"a\", \"b\" and \"c\"");
}

}  // namespace meshwork::nearest_test
