#include "runtime/mesh/mesh_shape.h"

#include "collectives/error.h"
#include "tests/support/catch.h"

namespace meshwork::mesh_shape_test {

namespace {

std::string message_of(std::vector<MeshAxis> axes, std::int64_t rank_count) {
  try {
    MeshShape(std::move(axes), rank_count);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("ranks are numbered row-major, the last axis fastest") {
  const MeshShape mesh({{"a", 2}, {"b", 3}, {"c", 4}}, 24);
  CHECK(mesh.coordinates(0) == std::vector<std::int64_t>{0, 0, 0});
  CHECK(mesh.coordinates(1) == std::vector<std::int64_t>{0, 0, 1});
  CHECK(mesh.coordinates(4) == std::vector<std::int64_t>{0, 1, 0});
  CHECK(mesh.coordinates(23) == std::vector<std::int64_t>{1, 2, 3});
  for (std::int64_t rank = 0; rank < 24; ++rank) {
    CHECK(mesh.rank_at(mesh.coordinates(rank)) == rank);
    CHECK(mesh.index_over(rank, std::vector<Axis>{0, 1, 2}) == rank);
  }
}

TEST_CASE("an index over axes counts the first as the most major") {
  const MeshShape mesh({{"a", 2}, {"b", 3}, {"c", 4}}, 24);
  const std::int64_t rank = 1 * 12 + 2 * 4 + 3;
  CHECK(mesh.index_over(rank, std::vector<Axis>{0, 1}) == 1 * 3 + 2);
  CHECK(mesh.index_over(rank, std::vector<Axis>{1, 0}) == 2 * 2 + 1);
  CHECK(mesh.index_over(rank, std::vector<Axis>{}) == 0);
}

TEST_CASE("a neighbour differs on the named axes only") {
  const MeshShape mesh({{"a", 2}, {"b", 3}, {"c", 4}}, 24);
  const std::vector<Axis> axes{2, 0};
  for (std::int64_t rank = 0; rank < 24; ++rank) {
    CHECK(mesh.neighbour(rank, axes, mesh.index_over(rank, axes)) == rank);
    for (std::int64_t index = 0; index < 8; ++index) {
      const std::int64_t other = mesh.neighbour(rank, axes, index);
      CHECK(mesh.index_over(other, axes) == index);
      CHECK(mesh.coordinate(other, 1) == mesh.coordinate(rank, 1));
    }
  }
}

TEST_CASE("an axis of size -1 takes all remaining ranks") {
  const MeshShape mesh({{"data", -1}, {"model", 4}}, 24);
  CHECK(mesh.size(mesh.axis("data")) == 6);
  CHECK(to_string(mesh) == "data=6 x model=4");
  CHECK(MeshShape({{"data", -1}}, 1).size(0) == 1);
}

TEST_CASE("a mesh that cannot be says why") {
  CHECK(message_of({}, 4) == "a mesh needs at least one axis, for example data=4");
  CHECK(message_of({{"", 4}}, 4) == "mesh =4: axis 0 has no name");
  CHECK(message_of({{"data", 2}, {"data", 2}}, 4) ==
        "mesh data=2 x data=2: axes 0 and 1 are both called \"data\"; names of axes are unique");
  CHECK(message_of({{"data", 0}}, 4) ==
        "mesh data=0: axis \"data\" has the size 0; a size is positive, or -1 for all remaining "
        "ranks");
  CHECK(message_of({{"data", -2}}, 4).find("has the size -2") != std::string::npos);
  CHECK(message_of({{"data", -1}, {"model", -1}}, 4) ==
        "mesh data=-1 x model=-1: axes \"data\" and \"model\" both have the size -1; at most one "
        "axis can take all remaining ranks");
  CHECK(message_of({{"data", -1}, {"model", 3}}, 8) ==
        "mesh data=-1 x model=3: the other axes need 3 ranks, and 8 ranks are not a multiple of "
        "that, so axis \"data\" cannot be -1");
  CHECK(message_of({{"data", 2}, {"model", 4}}, 6) ==
        "mesh data=2 x model=4 has 8 ranks, but there are 6; change a size (one may be -1: all "
        "remaining ranks) or start 8 ranks");
  CHECK(message_of({{"a", 1LL << 40}, {"b", 1LL << 40}}, 6).find("2^63") != std::string::npos);
}

TEST_CASE("an axis that is not there is answered with those that are and the nearest") {
  const MeshShape mesh({{"data", 2}, {"model", 4}}, 8);
  CHECK(mesh.find("modle") == -1);
  try {
    (void)mesh.axis("modle");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) ==
          "the mesh has no axis \"modle\"; it has \"data\" and \"model\"; did you mean \"model\"?");
  }
}

}  // namespace meshwork::mesh_shape_test
