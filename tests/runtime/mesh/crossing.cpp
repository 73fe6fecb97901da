#include "runtime/mesh/crossing.h"

#include <algorithm>
#include <map>

#include "tests/support/catch.h"

namespace meshwork::crossing_test {

namespace {

// Ranks 0 to 11: stage 0 are 0 to 2, stage 1 are 3 to 5, ...
const MeshShape mesh({{"stage", 4}, {"data", 3}}, 12);
constexpr Axis stage = 0, data = 1;

Places at(std::vector<std::int64_t> coordinates) {
  return {{stage, std::move(coordinates)}};
}

// By receiver: the sender. Fails unless both ends say the same.
std::map<std::int64_t, std::int64_t> senders(const Places& from, const Places& to) {
  std::map<std::int64_t, std::int64_t> by_sender, by_receiver;
  for (std::int64_t rank = 0; rank < mesh.rank_count(); ++rank) {
    const Crossing crossing = crossing_of(from, to, mesh, rank);
    for (const int peer : crossing.sends_to) {
      const bool added = by_sender.emplace(mesh.neighbour(rank, crossing.axes, peer), rank).second;
      CHECK(added);
    }
    if (crossing.receives_from >= 0) {
      by_receiver[rank] = mesh.neighbour(rank, crossing.axes, crossing.receives_from);
    }
  }
  CHECK(by_sender == by_receiver);
  return by_receiver;
}

using Pairs = std::map<std::int64_t, std::int64_t>;

}  // namespace

TEST_CASE("a rank receives from the one that differs in its place alone") {
  CHECK(senders(at({0}), at({1})) == Pairs{{3, 0}, {4, 1}, {5, 2}});
  CHECK(senders(at({3}), at({1})) == Pairs{{3, 9}, {4, 10}, {5, 11}});
}

TEST_CASE("who holds the tensor receives nothing") {
  CHECK(senders(at({1}), at({0, 1})) == Pairs{{0, 3}, {1, 4}, {2, 5}});
  CHECK(senders(at({0, 1}), at({1})).empty());
  CHECK(senders({}, at({1})).empty());
}

TEST_CASE("of several places that hold it, the nearest lower one sends, else the lowest") {
  CHECK(senders(at({1, 2}), {}) == Pairs{{0, 3}, {1, 4}, {2, 5}, {9, 6}, {10, 7}, {11, 8}});
}

TEST_CASE("places on two axes are one crossing") {
  const Places from{{stage, {0}}, {data, {1}}}, to{{stage, {2}}, {data, {0, 1}}};
  CHECK(senders(from, to) == Pairs{{6, 1}, {7, 1}});
}

TEST_CASE("places are joined axis by axis, and everywhere holds all") {
  CHECK(joined(at({0, 2}), at({1, 2})) == at({0, 1, 2}));
  CHECK(joined(at({0}), {}).empty());
}

TEST_CASE("a rank outside the places has an empty block, and is no replica") {
  Layout layout{.dimensions = {{data}, {}}};
  layout.places = at({1, 3});
  CHECK(block_of(layout, {6, 4}, mesh, 4) == Block{{2, 4}, {0, 4}});
  CHECK(is_empty(block_of(layout, {6, 4}, mesh, 1)));
  CHECK(owns_block(layout, mesh, 4));
  CHECK_FALSE(owns_block(layout, mesh, 10));
  CHECK(replica_of(layout, mesh, 10).index == 1);
  CHECK(replica_of(layout, mesh, 10).count == 2);
  CHECK(replica_of(layout, mesh, 1).index == -1);
  CHECK(to_string(layout, mesh) == "[data, ~] at stage=1,3");
  CHECK(layout.at(at({0, 1, 2, 3})).canonical(mesh) == layout.at());
}

}  // namespace meshwork::crossing_test
