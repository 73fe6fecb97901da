#include "runtime/mesh/path_pattern.h"

#include "tests/support/catch.h"

namespace meshwork::path_pattern_test {

TEST_CASE("a key matches whole paths, and is found in parts of them") {
  const PathPattern kernel("key", "kernel");
  CHECK(kernel.matches("kernel"));
  CHECK_FALSE(kernel.matches("d1/kernel"));
  CHECK(kernel.is_found_in("d1/kernel"));
  CHECK_FALSE(kernel.is_found_in("d1/bias"));
  const PathPattern first("key", "^d[12]/|norm$");
  CHECK(first.is_found_in("d1/bias"));
  CHECK(first.is_found_in("block/norm"));
  CHECK_FALSE(first.is_found_in("block/d1/norm/gamma"));
  CHECK_FALSE(first.matches("d1/bias"));
}

TEST_CASE("a copy of a pattern means the same paths") {
  const auto of = [](const std::string& key) { return PathPattern("key", key); };
  PathPattern pattern = of("d./bias");
  const PathPattern copy = pattern;
  pattern = of("d./kernel");
  CHECK(copy.matches("d1/bias"));
  CHECK_FALSE(copy.matches("d1/kernel"));
  CHECK(pattern.matches("d1/kernel"));
}

TEST_CASE("a key that refers back to a group is refused, as it may take exponential time") {
  CHECK_THROWS_WITH(PathPattern("key", "(.)\\1", "a.yaml:1:2"),
                    "a.yaml:1:2: key \"(.)\\1\" is not a regular expression: a construction that "
                    "cannot be matched in a reasonable time, at character 4 (\"\\1\")");
}

// With backtracking the time doubles with each letter, and this takes years.
TEST_CASE("an expression that repeats repetitions takes no time that is exponential") {
  const std::string path(60, 'a');
  CHECK_FALSE(PathPattern("key", "(a*)*b").is_found_in(path));
  CHECK_FALSE(PathPattern("key", "(a*)*b").matches(path));
}

}  // namespace meshwork::path_pattern_test
