#include "runtime/mesh/svg_picture.h"

#include <string>

#include "collectives/error.h"
#include "tests/support/catch.h"
#include "tests/support/text_parts.h"

namespace meshwork::svg_picture_test {

using namespace meshwork::test;

namespace {

const MeshShape mesh({{"data", 2}, {"model", 4}}, 8);

}  // namespace

TEST_CASE("a picture has a box for each rank and each block") {
  const std::string svg = svg_picture("d1/kernel", {{{}, {1}}, {}}, {784, 200}, mesh);
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(count(svg, "<rect ") == 1 + 8 + 4);  // with the background
  CHECK(count(svg, "<svg") == count(svg, "</svg>"));
  CHECK(count(svg, "<text") == count(svg, "</text>"));
  CHECK(has(svg, ">d1/kernel: (784, 200) as [~, model] on data=2 x model=4<"));
  CHECK(has(svg, ">model →<"));
  CHECK(has(svg, ">data<"));
  CHECK(has(svg, ">50:100<"));
  CHECK(has(svg, ">3,7<"));
}

TEST_CASE("a rank has the colour of its block") {
  // Along data the ranks hold copies: four blocks, each in the colour of two ranks.
  const std::string copies = svg_picture("k", {{{}, {1}}, {}}, {784, 200}, mesh);
  for (const char* colour : {"#aed6f1", "#f9e79f", "#abebc6", "#f5b7b1"}) {
    CHECK(count(copies, colour) == 1 + 2);
  }
  const std::string blocks = svg_picture("k", {{{0}, {1}}, {}}, {784, 200}, mesh);
  CHECK(count(blocks, "#aed6f1") == 1 + 1);
}

TEST_CASE("a rank where a tensor is not held has no colour") {
  Layout placed{{{}, {1}}, {}};
  placed.places = {{0, {1}}};
  const std::string svg = svg_picture("k", placed, {784, 200}, mesh);
  for (const char* colour : {"#aed6f1", "#f9e79f", "#abebc6", "#f5b7b1"}) {
    CHECK(count(svg, colour) == 1 + 1);
  }
  CHECK(count(svg, "#ffffff") == 1 + 4);
  CHECK(has(svg, "as [~, model] at data=1 on"));
}

TEST_CASE("a large mesh is elided on both sides") {
  const MeshShape large({{"data", 64}, {"model", 16}}, 1024);
  const std::string svg = svg_picture("k", {{{0}, {1}}, {}}, {784, 200}, large);
  CHECK(count(svg, "<rect ") == 1 + 2 * 8 * 8);
  CHECK(has(svg, ">1023<"));
  CHECK(has(svg, ">…<"));
  CHECK(has(svg, ">⋮<"));
}

TEST_CASE("an empty block has no colour, and a name cannot end the text") {
  const std::string svg = svg_picture("a<b&c", {{{1}}, {}}, {3}, mesh);
  CHECK(has(svg, "a&lt;b&amp;c"));
  CHECK(has(svg, ">(0,4)<"));
  CHECK(count(svg, "#ffffff") == 1 + 1);
}

TEST_CASE("a layout that does not fit is an error in SVG as well") {
  CHECK_THROWS_AS(svg_picture("k", {{{0}}, {}}, {4, 4}, mesh), Error);
}

}  // namespace meshwork::svg_picture_test
