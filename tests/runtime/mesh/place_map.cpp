#include "runtime/mesh/place_map.h"

#include "tests/support/catch.h"

namespace meshwork::place_map_test {

namespace {

const MeshShape mesh({{"tower", 2}, {"stage", 4}}, 8);

PlaceMap map_of(const std::map<std::string, std::vector<PlacedAt>>& entries,
                const MeshShape& of = mesh) {
  PlaceMap map(of);
  for (const auto& [key, places] : entries) map.insert(key, places, "c.yaml:7:3");
  return map;
}

}  // namespace

TEST_CASE("a layer is where its key says, an exact one first, or where the block around it is") {
  const PlaceMap map = map_of({{"decoder", {{"stage", 2}}},
                               {"decoder/last", {{"stage", 3}, {"tower", 0, 1}}},
                               {"encoder/.*", {{"stage", 0, 1}}}});
  CHECK(map.find("decoder/d1/query") == Places{{1, {2}}});
  CHECK(map.find("decoder/last") == Places{{0, {0, 1}}, {1, {3}}});
  CHECK(map.find("encoder/d1") == Places{{1, {0, 1}}});
  CHECK(map.find("other").empty());
  CHECK(map.axes() == std::vector<Axis>{0, 1});
}

TEST_CASE("on an axis of fewer ranks than places, these are in runs; on one of one, nowhere") {
  const std::map<std::string, std::vector<PlacedAt>> four{
      {"a", {{"stage", 0}}}, {"b", {{"stage", 1}}}, {"c", {{"stage", 2}}}, {"d", {{"stage", 3}}}};
  const auto places_on = [&](std::int64_t size) {
    const PlaceMap map = map_of(four, MeshShape({{"stage", size}}, size));
    std::vector<std::int64_t> all;
    for (const std::string path : {"a", "b", "c", "d"}) {
      for (const Place& place : map.find(path)) all.push_back(place.coordinates.front());
    }
    return all;
  };
  CHECK(places_on(1).empty());
  CHECK(places_on(2) == std::vector<std::int64_t>{0, 0, 1, 1});
  CHECK(places_on(3) == std::vector<std::int64_t>{0, 0, 1, 2});
  CHECK(places_on(4) == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(places_on(6) == std::vector<std::int64_t>{0, 1, 2, 3});
}

TEST_CASE("places that no key names are known, whatever the mesh") {
  for (const std::int64_t size : {1, 2, 8}) {
    const PlaceMap map =
        map_of({{"a", {{"stage", 0, 1}}}, {"b", {{"stage", 5}}}, {"c", {{"tower", 1}}}},
               MeshShape({{"tower", 1}, {"stage", size}}, size));
    CHECK(map.places_on("stage") == 6);
    CHECK(map.unnamed_on("stage") == std::vector<std::int64_t>{2, 3, 4});
    CHECK(map.unnamed_on("tower") == std::vector<std::int64_t>{0});
  }
  CHECK(map_of({{"a", {{"stage", 0}}}}).places_on("tower") == 1);
}

TEST_CASE("a wrong place is told with its key and where it is written") {
  const auto wrong = [](std::vector<PlacedAt> places) { return map_of({{"d1", places}}); };
  CHECK_THROWS_WITH(wrong({{"stag", 0}}), Catch::Contains("c.yaml:7:3: place of \"d1\"") &&
                                              Catch::Contains("did you mean \"stage\"?"));
  CHECK_THROWS_WITH(wrong({{"stage", -1}}), Catch::Contains("from 0 on"));
  CHECK_THROWS_WITH(wrong({{"stage", 2, 1}}), Catch::Contains("the first and the last"));
  CHECK_THROWS_WITH(wrong({{"stage", 0}, {"stage", 1}}), Catch::Contains("named twice"));
  CHECK_THROWS_WITH(wrong({}), Catch::Contains("expected an axis and a coordinate"));
  const PlaceMap two = map_of({{"d.*", {{"stage", 0}}}, {".*1", {{"stage", 1}}}});
  CHECK_THROWS_WITH(two.find("d1"), Catch::Contains("2 place keys match it"));
  CHECK(two.unmatched(std::vector<std::string>{"e2"}).size() == 2);
}

}  // namespace meshwork::place_map_test
