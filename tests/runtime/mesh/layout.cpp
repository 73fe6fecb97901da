#include "runtime/mesh/layout.h"

#include <set>

#include "collectives/error.h"
#include "tests/support/catch.h"

namespace meshwork::layout_test {

namespace {

const MeshShape mesh({{"data", 2}, {"model", 3}, {"one", 1}}, 6);

std::string message_of(const TensorLayout& layout) {
  try {
    (void)resolve(layout, mesh, "layout of d1/kernel");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a layout as the user writes it converts from names, lists and unsharded") {
  const TensorLayout layout = {unsharded, "model", {"data", "one"}};
  CHECK(to_string(layout) == "[~, model, data+one]");
  const Layout resolved = resolve(layout, mesh, "layout");
  CHECK(resolved.dimensions == std::vector<std::vector<Axis>>{{}, {1}, {0, 2}});
  CHECK(to_string(resolved, mesh) == "[~, model, data+one]");
  CHECK(to_string(TensorLayout{}) == "[]");
}

TEST_CASE("a layout with an axis that the mesh lacks, or twice, is an error") {
  CHECK(message_of({unsharded, "modl"}) ==
        "layout of d1/kernel [~, modl]: dimension 1 is split by axis \"modl\", which the mesh "
        "data=2 x model=3 x one=1 does not have; did you mean \"model\"?");
  CHECK(message_of({unsharded, "expert"}) ==
        "layout of d1/kernel [~, expert]: dimension 1 is split by axis \"expert\", which the mesh "
        "data=2 x model=3 x one=1 does not have; add the axis to the mesh (expert=1 splits "
        "nothing)");
  CHECK(message_of({"model", "model"}) ==
        "layout of d1/kernel [model, model]: axis \"model\" (size 3) is used for dimension 0 and "
        "for dimension 1; an axis splits one dimension only");
  CHECK(message_of({{"data", "data"}}) ==
        "layout of d1/kernel [data+data]: axis \"data\" (size 2) is used twice for dimension 0; an "
        "axis splits a dimension once");
}

TEST_CASE("a layout knows what each axis does") {
  Layout layout{{{}, {1, 0}}, {2}};
  CHECK(layout.dimension_of(0) == 1);
  CHECK(layout.dimension_of(2) == -1);
  CHECK(layout.is_partial(2));
  CHECK_FALSE(layout.replicates(0));
  CHECK_FALSE(layout.replicates(2));
  CHECK(layout.splitting_axes() == std::vector<Axis>{0, 1});
  CHECK(to_string(layout, mesh) == "[~, model+data] partial over one");
  CHECK(layout.without_partial() == Layout{{{}, {1, 0}}, {}});
  CHECK(layout.canonical(mesh) == layout.without_partial());
  CHECK(Layout{{{2}, {2, 1}}, {}}.canonical(mesh) == Layout{{{}, {1}}, {}});
}

TEST_CASE("the axes of a dimension count major to minor") {
  // 7 over 6: blocks at floor(7 i / 6) = 0, 1, 2, 3, 4, 5, 7.
  const Layout layout{{{1, 0}}, {}};
  const std::vector<Range> expected{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 7}};
  for (std::int64_t rank = 0; rank < 6; ++rank) {
    const std::int64_t index = mesh.coordinate(rank, 1) * 2 + mesh.coordinate(rank, 0);
    CHECK(block_of(layout, {7}, mesh, rank) == Block{expected[index]});
  }
  CHECK(largest_block(layout, {7}, mesh) == 2);
  CHECK(largest_block(layout, {0}, mesh) == 0);
  CHECK(largest_block(Layout{{{1}, {0}}, {}}, {7, 5}, mesh) == 3 * 3);
}

TEST_CASE("a scalar is one block that everybody holds") {
  const Layout layout = Layout::replicated(0);
  CHECK(block_of(layout, {}, mesh, 3).empty());
  CHECK(largest_block(layout, {}, mesh) == 1);
  CHECK(owns_block(layout, mesh, 0));
  CHECK_FALSE(owns_block(layout, mesh, 3));
}

TEST_CASE("each block has one owner, and a partial sum one for each addend") {
  const Layout split{{{1}, {}}, {}};
  std::set<std::int64_t> owners;
  for (std::int64_t rank = 0; rank < 6; ++rank) {
    if (owns_block(split, mesh, rank)) owners.insert(rank);
  }
  CHECK(owners == std::set<std::int64_t>{0, 1, 2});
  std::int64_t addends = 0;
  for (std::int64_t rank = 0; rank < 6; ++rank) addends += owns_block({{{}}, {0}}, mesh, rank);
  CHECK(addends == 2);
}

TEST_CASE("layouts hash by what they say") {
  const LayoutHash hash;
  CHECK(hash(Layout{{{0}, {1}}, {}}) == hash(Layout{{{0}, {1}}, {}}));
  CHECK(hash(Layout{{{0}, {1}}, {}}) != hash(Layout{{{0, 1}, {}}, {}}));
  CHECK(hash(Layout{{{0}}, {}}) != hash(Layout{{{}}, {0}}));
}

TEST_CASE("shapes print as people write them and count without overflow") {
  CHECK(to_string(Shape{64, 28, 28}) == "(64, 28, 28)");
  CHECK(to_string(Shape{-1, 10}) == "(batch, 10)");
  CHECK(to_string(Shape{}) == "()");
  CHECK(element_count(Shape{}) == 1);
  CHECK(element_count(Shape{3, 0, 5}) == 0);
  CHECK_THROWS_AS(element_count(Shape{1LL << 40, 1LL << 40}), Error);
  CHECK(element_count(Shape{1LL << 40, 1LL << 40, 0}) == 0);
}

}  // namespace meshwork::layout_test
