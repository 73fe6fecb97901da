// What lowering books, without MPI: how many instructions, where results stand, what is recorded.
// That the booked programs compute the right thing is shown in sharded_tensor.cpp.
#include "runtime/mesh/lower_redistribution.h"

#include <numeric>

#include "collectives/error.h"
#include "tests/support/catch.h"
#include "tests/support/elements_sent.h"

namespace meshwork::lower_redistribution_test {

namespace {

const MeshShape mesh({{"x", 4}}, 4);
const Layout replicated = Layout::replicated(2);
const Layout rows{{{0}, {}}, {}}, columns{{{}, {0}}, {}}, partial{{{}, {}}, {0}};

struct Booked {
  Operand source, result;
  std::vector<std::string> labels;
  std::vector<CollectiveRecord> records;
  [[nodiscard]] bool in_source() const { return result.buffer == source.buffer; }
};

Booked book(const Layout& from, const Layout& to, const Shape& shape, bool source_is_free = false,
            bool with_destination = false) {
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  Booked booked;
  booked.source = builder.scratch(1 << 20, "source");
  std::optional<Operand> destination;
  if (with_destination) destination = Operand(builder.scratch(1 << 20, "destination"), 64);
  const auto collectives = plan_collectives(mesh, 2);
  const std::vector<RedistributionStep> steps = plan_redistribution(from, to, shape, mesh);
  booked.result =
      lower_redistribution(builder, *collectives, steps, shape, ElementType::float32, booked.source,
                           destination, {"forward", "d1/kernel"}, source_is_free);
  booked.records = collectives->records();
  // The bytes are those that the planner weighed.
  std::int64_t sent = 0, weighed = 0;
  for (const CollectiveRecord& record : booked.records) sent += record.bytes_sent;
  for (const RedistributionStep& step : steps) weighed += 4 * elements_sent(step, shape, mesh, 2);
  CHECK(sent == weighed);
  if (destination) {
    CHECK(booked.result.buffer == destination->buffer);
    CHECK(booked.result.offset == destination->offset);
  }
  booked.labels = builder.finish().labels();
  return booked;
}

}  // namespace

TEST_CASE("splits of the leading dimension are gathered and scattered without packing") {
  CHECK(book(rows, replicated, {10, 6}).labels.size() == 1);
  CHECK(book(partial, rows, {10, 6}).labels.size() == 1);
  CHECK(book(rows, replicated, {10, 6}, false, true).labels.size() == 1);
  // A leading dimension of one element does not count.
  CHECK(book({{{}, {0}}, {}}, replicated, {1, 6}).labels.size() == 1);
}

TEST_CASE("splits of an inner dimension are packed or unpacked on that side only") {
  CHECK(book(columns, replicated, {10, 6}).labels.size() == 2);
  CHECK(book(partial, columns, {10, 6}).labels.size() == 2);
  CHECK(book(rows, columns, {10, 6}).labels.size() == 2);
  CHECK(book(columns, rows, {10, 6}).labels.size() == 2);
  CHECK(book({{{0}, {}, {}}, {}}, {{{}, {}, {0}}, {}}, {4, 5, 6}).labels.size() == 2);
  CHECK(book({{{}, {0}, {}}, {}}, {{{}, {}, {0}}, {}}, {4, 5, 6}).labels.size() == 3);
}

TEST_CASE("a slice is a place in the source where it is contiguous, else one copy") {
  const Booked leading = book(replicated, rows, {10, 6});
  CHECK(leading.labels.empty());
  CHECK(leading.in_source());
  CHECK(leading.result.offset == 5 * 6 * 4);  // rank 2 of 4 has rows [5, 7)
  CHECK(book(replicated, columns, {10, 6}).labels.size() == 1);
  CHECK(book(replicated, rows, {10, 6}, false, true).labels.size() == 1);
  CHECK(book(replicated, columns, {10, 6}, false, true).labels.size() == 1);
  CHECK(book(replicated, rows, {0, 6}).labels.empty());
}

TEST_CASE("an all-reduce works in place only on a source that is free") {
  const Booked kept = book(partial, replicated, {10, 6});
  CHECK(kept.labels.size() == 2);
  CHECK_FALSE(kept.in_source());
  const Booked free = book(partial, replicated, {10, 6}, true);
  CHECK(free.labels.size() == 1);
  CHECK(free.in_source());
  CHECK(book(partial, replicated, {10, 6}, true, true).labels.size() == 2);
}

TEST_CASE("nothing to do leaves the value where it is") {
  const Booked nothing = book(rows, rows, {10, 6});
  CHECK(nothing.labels.empty());
  CHECK(nothing.in_source());
  CHECK(nothing.records.empty());
}

TEST_CASE("what is booked is recorded with the bytes that this rank sends") {
  const Booked gathered = book(columns, replicated, {10, 6});
  REQUIRE(gathered.records.size() == 1);
  CHECK(gathered.records[0].name == "all_gather");
  CHECK(gathered.records[0].axes == std::vector<Axis>{0});
  CHECK(gathered.records[0].global_elements == 60);
  CHECK(gathered.records[0].bytes_sent == 3 * 60 / 4 * 4);
  CHECK(gathered.records[0].purpose.what == "d1/kernel");
  CHECK(describe(gathered.records[0], mesh) == "all_gather float32 x 60 over x: d1/kernel");
  const Booked reduced = book(partial, replicated, {10, 6});
  REQUIRE(reduced.records.size() == 1);
  CHECK(reduced.records[0].bytes_sent == 2 * 3 * 60 / 4 * 4);
  CHECK(describe(reduced.records[0], mesh) == "all_reduce sum float32 x 60 over x: d1/kernel");
}

TEST_CASE("a program for a mesh that is not there cannot be run and says so") {
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  const Buffer source = builder.scratch(1024, "source");
  builder.preset(source);
  const auto collectives = plan_collectives(mesh, 2);
  (void)lower_redistribution(builder, *collectives,
                             plan_redistribution(rows, replicated, {10, 6}, mesh), {10, 6},
                             ElementType::float32, source, std::nullopt, {"forward", "d1/kernel"});
  Program program = builder.finish();
  CHECK_THROWS_WITH(program.run(), Catch::Contains("all_gather float32 x 60 over x: d1/kernel") &&
                                       Catch::Contains("mesh x=4"));
}

}  // namespace meshwork::lower_redistribution_test
