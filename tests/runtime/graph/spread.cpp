// What follows from a rule and a split, held against the three sentences of operation.h.
#include "runtime/graph/spread.h"

#include "runtime/graph/operations/attention.h"
#include "tests/support/catch.h"

namespace meshwork::spread_test {

namespace {

const Rule product{.inputs = {"bi", "io"}, .output = "bo"};
const Rule bias{.inputs = {"bo", "o"}, .output = "bo"};
const Rule softmax{.inputs = {"bk"}, .output = "bk", .own = "k"};
const Rule loss{.inputs = {"bk", "b"}, .output = "", .own = "k"};

Layout layout(std::vector<std::vector<Axis>> dimensions, std::vector<Axis> partial = {}) {
  return {std::move(dimensions), std::move(partial)};
}

}  // namespace

TEST_CASE("a split of the batch leaves the gradient of a kernel partial") {
  const Split split{{'b', {0}}};
  CHECK(needed_layout(product, split, 0) == layout({{0}, {}}));
  CHECK(needed_layout(product, split, 1) == layout({{}, {}}));
  CHECK(natural_layout(product, split) == layout({{0}, {}}));
  CHECK(raw_layout(product, split, 0) == layout({{0}, {}}));
  CHECK(raw_layout(product, split, 1) == layout({{}, {}}, {0}));
}

TEST_CASE("a split of the columns leaves the gradient of the input partial") {
  const Split split{{'o', {0}}};
  CHECK(needed_layout(product, split, 1) == layout({{}, {0}}));
  CHECK(natural_layout(product, split) == layout({{}, {0}}));
  CHECK(raw_layout(product, split, 0) == layout({{}, {}}, {0}));
  CHECK(raw_layout(product, split, 1) == layout({{}, {0}}));
}

TEST_CASE("a split of what is summed leaves the output partial, and no gradient") {
  const Split split{{'i', {0}}};
  CHECK(needed_layout(product, split, 0) == layout({{}, {0}}));
  CHECK(needed_layout(product, split, 1) == layout({{0}, {}}));
  CHECK(natural_layout(product, split) == layout({{}, {}}, {0}));
  CHECK(raw_layout(product, split, 0) == layout({{}, {0}}));
  CHECK(raw_layout(product, split, 1) == layout({{0}, {}}));
}

TEST_CASE("several axes keep their order in dimensions, and ascend where they are partial") {
  const Split split{{'b', {2, 0}}, {'i', {1}}};
  CHECK(needed_layout(product, split, 0) == layout({{2, 0}, {1}}));
  CHECK(natural_layout(product, split) == layout({{2, 0}, {}}, {1}));
  CHECK(raw_layout(product, split, 1) == layout({{1}, {}}, {0, 2}));
  CHECK(raw_layout(bias, {{'b', {2, 0}}, {'o', {1}}}, 1) == layout({{1}}, {0, 2}));
}

TEST_CASE("a letter that the operation completes itself makes nothing partial") {
  CHECK(natural_layout(softmax, {{'k', {0}}}) == layout({{}, {0}}));
  const Split split{{'b', {0}}, {'k', {1}}};
  CHECK(natural_layout(loss, split) == layout({}, {0}));
  CHECK(raw_layout(loss, split, 0) == layout({{0}, {1}}));
  // The target lacks k, but is the same for all of it.
  CHECK(raw_layout(loss, split, 1) == layout({{0}}));
}

TEST_CASE("what is predicted for a step is latency for each doubling, and its bytes") {
  const MeshShape mesh({{"data", 4}, {"model", 2}}, 8);
  const CostModel costs{.latency_seconds = 1, .bytes_per_second = 8};
  const auto seconds = [&](const Layout& from, const Layout& to) {
    double total = 0;
    for (const RedistributionStep& step : plan_redistribution(from, to, {8, 4}, mesh)) {
      total += step_seconds(step, {8, 4}, mesh, costs);
    }
    return total;
  };
  // 32 floats, 16 s in all. An all-reduce sends 3/2 of them over four ranks, a gather 3/4.
  CHECK(seconds(layout({{}, {}}, {0}), layout({{}, {}})) == 2 + 24);
  CHECK(seconds(layout({{0}, {}}), layout({{}, {}})) == 2 + 12);
  CHECK(seconds(layout({{}, {}}), layout({{0}, {}})) == 0);
  CHECK(seconds(layout({{1}, {}}), layout({{}, {}})) == 1 + 8);
}

TEST_CASE("an own reduction is predicted by what a rank holds, where its letters are split") {
  const MeshShape mesh({{"data", 4}, {"model", 2}}, 8);
  const CostModel costs{.latency_seconds = 1, .bytes_per_second = 8};
  const std::map<char, std::int64_t> lengths{{'b', 8}, {'k', 6}};
  const OwnReduction rows{.over = "k", .of = "b", .bytes_per_element = 4};
  CHECK(own_reduction_seconds(rows, {{'b', {0}}}, lengths, mesh, costs) == 0);
  // 8 floats over two ranks; 2, where data splits the rows.
  CHECK(own_reduction_seconds(rows, {{'k', {1}}}, lengths, mesh, costs) == 1 + 4);
  CHECK(own_reduction_seconds(rows, {{'b', {0}}, {'k', {1}}}, lengths, mesh, costs) == 1 + 1);
  // 48 bytes over all eight ranks: 7/4 of them, three rounds.
  const OwnReduction all{.over = "bk", .of = "", .bytes_per_element = 48};
  CHECK(own_reduction_seconds(all, {{'b', {0}}, {'k', {1}}}, lengths, mesh, costs) == 3 + 10.5);
}

TEST_CASE("arithmetic is shared by the ranks along split letters") {
  const MeshShape mesh({{"data", 2}, {"model", 4}}, 8);
  const std::map<char, std::int64_t> lengths{{'b', 64}, {'o', 3}, {'q', 8}};
  const AttentionOperation attention({});
  const auto share = [&](const Split& split) {
    return largest_share(attention, {}, split, lengths, mesh);
  };
  CHECK(share({}) == 1);
  CHECK(share({{'b', {0}}}) == 1.0 / 2);
  CHECK(share({{'b', {0, 1}}}) == 1.0 / 8);
  CHECK(share({{'q', {1}}}) == 1.0 / 4);
  // Four ranks have no more than three elements to share.
  CHECK(share({{'o', {1}}}) == 1.0 / 3);
}

TEST_CASE("a part of each value has the whole of the probabilities to make") {
  const MeshShape mesh({{"model", 4}}, 4);
  const std::vector<Shape> inputs{{1, 8, 2, 6}, {1, 8, 2, 6}, {1, 8, 2, 12}};
  const AttentionOperation attention({});
  CHECK(largest_share(attention, inputs, {{'f', {0}}}, {{'f', 12}}, mesh) == 0.5);
}

TEST_CASE("the last queries of a causal attention have most of its arithmetic") {
  const MeshShape mesh({{"data", 2}, {"sequence", 4}}, 8);
  const std::map<char, std::int64_t> lengths{{'b', 64}, {'h', 3}, {'q', 8}};
  const AttentionOperation causal({.causal = true});
  // The last quarter of a triangle's rows has 7/16 of its area, the last half 3/4.
  CHECK(largest_share(causal, {}, {{'q', {1}}}, lengths, mesh) == 7.0 / 16);
  CHECK(largest_share(causal, {}, {{'q', {0}}}, lengths, mesh) == 3.0 / 4);
  CHECK(largest_share(causal, {}, {{'b', {0}}, {'q', {1}}}, lengths, mesh) == 7.0 / 32);
  const AttentionOperation nearby({.causal = true, .window = 2});
  CHECK(largest_share(nearby, {}, {{'q', {1}}}, lengths, mesh) == 1.0 / 4);
}

}  // namespace meshwork::spread_test
