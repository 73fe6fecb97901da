#include "runtime/mesh/picture.h"

#include <algorithm>
#include <sstream>

#include "collectives/error.h"
#include "tests/support/catch.h"

namespace meshwork::picture_test {

namespace {

const MeshShape mesh({{"data", 2}, {"model", 4}}, 8);

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::ptrdiff_t width_of(const std::string& line) {
  return std::count_if(line.begin(), line.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

}  // namespace

TEST_CASE("a matrix is drawn with a cell for each block") {
  CHECK(picture({{{0}, {1}}, {}}, {784, 200}, mesh) ==
        "(784, 200) as [data, model] on data=2 x model=4\n"
        "          0:50   50:100   100:150   150:200\n"
        "        ┌──────┬────────┬─────────┬─────────┐\n"
        "  0:392 │  0   │   1    │    2    │    3    │\n"
        "        ├──────┼────────┼─────────┼─────────┤\n"
        "392:784 │  4   │   5    │    6    │    7    │\n"
        "        └──────┴────────┴─────────┴─────────┘\n");
}

TEST_CASE("a vector is one row, replicas share a cell, and empty blocks stand in parentheses") {
  CHECK(picture({{{1}}, {}}, {3}, mesh) ==
        "(3) as [model] on data=2 x model=4\n"
        "    0:0    0:1   1:2   2:3\n"
        " ┌───────┬─────┬─────┬─────┐\n"
        " │ (0,4) │ 1,5 │ 2,6 │ 3,7 │\n"
        " └───────┴─────┴─────┴─────┘\n");
}

TEST_CASE("addends of a partial sum are joined by a plus") {
  CHECK(picture({{{1}}, {0}}, {4}, mesh).find("│ 0 + 4 │ 1 + 5 │ 2 + 6 │ 3 + 7 │") !=
        std::string::npos);
  CHECK(picture({{{}}, {1}}, {4}, mesh).find("│ 0,4 + 1,5 + … + 3,7 │") != std::string::npos);
}

TEST_CASE("a scalar is one cell") {
  CHECK(picture({{}, {}}, {}, mesh) ==
        "() as [] on data=2 x model=4\n"
        " ┌─────┐\n"
        " │ 0-7 │\n"
        " └─────┘\n");
}

TEST_CASE("more than two dimensions are folded") {
  const MeshShape cube({{"a", 2}, {"b", 2}, {"c", 2}}, 8);
  CHECK(picture({{{0}, {1}, {}, {2}}, {}}, {6, 4, 9, 2}, cube) ==
        "(6, 4, 9, 2) as [a, b, ~, c] on a=2 x b=2 x c=2, rows: dimension 0 x 1, columns: "
        "dimension 3\n"
        "           0:1   1:2\n"
        "         ┌─────┬─────┐\n"
        "0:3, 0:2 │  0  │  1  │\n"
        "         ├─────┼─────┤\n"
        "0:3, 2:4 │  2  │  3  │\n"
        "         ├─────┼─────┤\n"
        "3:6, 0:2 │  4  │  5  │\n"
        "         ├─────┼─────┤\n"
        "3:6, 2:4 │  6  │  7  │\n"
        "         └─────┴─────┘\n");
  CHECK(picture({{{0}, {}, {}}, {}}, {6, 4, 9}, cube).find(", rows: dimension 0\n") !=
        std::string::npos);
}

TEST_CASE("a mesh of a thousand ranks is elided to the width and the rows that are there") {
  const MeshShape large({{"data", 64}, {"model", 16}}, 1024);
  for (const int width : {40, 80, 120}) {
    const std::vector<std::string> lines =
        lines_of(picture({{{0}, {1}}, {}}, {784, 200}, large, {.width = width, .rows = 8}));
    // Title, columns, and for 8 rows and the gap a line each with borders around.
    CHECK(lines.size() == 2 + 2 * 9 + 1);
    for (std::size_t i = 1; i < lines.size(); ++i) CHECK(width_of(lines[i]) <= width);
    CHECK(lines.back().find("┘") != std::string::npos);
    CHECK(lines[lines.size() - 2].find("1023") != std::string::npos);
  }
  CHECK(picture({{{}, {1}}, {}}, {784, 200}, large).find("│ 0,16,…,1008 │") != std::string::npos);
}

TEST_CASE("colours are there only when asked for, and neighbours differ") {
  CHECK(picture({{{0}, {1}}, {}}, {784, 200}, mesh).find('\x1b') == std::string::npos);
  const std::string coloured = picture({{{0}, {1}}, {}}, {784, 200}, mesh, {.color = true});
  CHECK(coloured.find("│\x1b[30;48;5;153m  0   \x1b[0m│\x1b[30;48;5;229m   1    \x1b[0m│") !=
        std::string::npos);
}

TEST_CASE("a layout that does not fit is an error") {
  CHECK_THROWS_AS(picture({{{0}}, {}}, {4, 4}, mesh), Error);
}

}  // namespace meshwork::picture_test
