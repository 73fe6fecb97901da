#include "runtime/train/losses/class_weights.h"

#include <string>
#include <vector>

#include "collectives/error.h"
#include "tests/support/catch.h"

namespace meshwork::class_weights_test {

TEST_CASE("a class is called by its number or by its text") {
  const std::vector<std::string> none, animals{"cat", "dog", "owl"};
  CHECK(class_number(2, none) == 2);
  CHECK(class_number("2", none) == 2);
  CHECK(class_number("dog", animals) == 1);
  CHECK(class_number(2, animals) == 2);
  CHECK(numbered({{"owl", 5}, {0, 0.5}}, animals) == WeightsByNumber{{0, 0.5}, {2, 5}});
  CHECK(numbered({}, animals).empty());
}

TEST_CASE("texts that are numbers are what numbers mean") {
  const std::vector<std::string> years{"1999", "2", "3"};
  CHECK(class_number(2, years) == 1);
  CHECK(class_number(1999, years) == 0);
  CHECK_THROWS_WITH(class_number(0, years), Catch::Contains("there is no class \"0\""));
}

TEST_CASE("a class that is not there is an error with the nearest one") {
  const std::vector<std::string> animals{"cat", "dog", "owl"};
  CHECK_THROWS_WITH(class_number("cta", animals),
                    "there is no class \"cta\"; did you mean \"cat\"?");
  CHECK_THROWS_WITH(class_number("elephant", animals),
                    Catch::StartsWith("there is no class \"elephant\"; there are ") &&
                        Catch::Contains("\"cat\"") && Catch::Contains("\"owl\""));
  CHECK_THROWS_WITH(class_number("cat", {}),
                    "expected the number of a class, counted from 0, found \"cat\"");
  CHECK_THROWS_WITH(class_number(-1, {}),
                    "expected the number of a class, counted from 0, found \"-1\"");
  CHECK_THROWS_WITH(numbered({{"dog", 1}, {1, 2}}, animals),
                    Catch::Contains("class 1 has two weights"));
}

TEST_CASE("weights are shown by class, texts first, then numbers") {
  CHECK(to_text(ClassWeights{{10, 1}, {2, 0.5}, {"cat", 3}}) == "{cat: 3, 2: 0.5, 10: 1}");
  CHECK(to_text(ClassWeights()) == "none");
}

}  // namespace meshwork::class_weights_test
