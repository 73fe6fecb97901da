// A mesh of ranks that are there, and collectives bound to its axes.
#include "runtime/mesh/device_mesh.h"

#include "collectives/error.h"
#include "runtime/mesh/mesh_collectives.h"
#include "tests/support/catch.h"

namespace meshwork::device_mesh_test {

namespace {

/// Meshes of all ranks with one, two and three axes.
std::vector<std::vector<MeshAxis>> meshes() {
  const std::int64_t ranks = Communicator::world().size();
  std::vector<std::vector<MeshAxis>> all{{{"x", -1}}, {{"x", 1}, {"y", -1}}};
  for (std::int64_t first = 2; first < ranks; ++first) {
    if (ranks % first == 0) all.push_back({{"x", first}, {"y", -1}});
  }
  if (ranks == 8) all.push_back({{"x", 2}, {"y", 2}, {"z", 2}});
  return all;
}

std::vector<std::vector<Axis>> subsets(int axis_count) {
  std::vector<std::vector<Axis>> all;
  for (int bits = 1; bits < 1 << axis_count; ++bits) {
    std::vector<Axis>& axes = all.emplace_back();
    for (Axis axis = 0; axis < axis_count; ++axis) {
      if (bits >> axis & 1) axes.push_back(axis);
    }
  }
  return all;
}

CollectiveUse use_over(std::vector<Axis> axes) {
  return {{"backward", "gradients d1/kernel"}, std::move(axes), 3};
}

/// A transport on which every operation fails.
class BrokenTransport final : public Transport {
 public:
  [[nodiscard]] std::string_view name() const override { return "broken"; }

 protected:
  Compiled make(const Communicator&, const Collective&, Use) override {
    return done_by([](const void*, void*) { fail("the cable is out"); });
  }
};

}  // namespace

TEST_CASE("a mesh knows where this rank stands") {
  const int rank = Communicator::world().rank();
  for (const std::vector<MeshAxis>& axes : meshes()) {
    const DeviceMesh mesh(axes);
    CHECK(mesh.rank() == rank);
    CHECK(mesh.all().size() == Communicator::world().size());
    std::int64_t expected = 0;
    for (const MeshAxis& axis : mesh.shape().axes()) {
      expected = expected * axis.size + mesh.coordinate(axis.name);
    }
    CHECK(expected == rank);
    CHECK_THROWS_AS(mesh.coordinate("w"), Error);
  }
}

TEST_CASE("a communicator over axes numbers its ranks row-major") {
  for (const std::vector<MeshAxis>& requested : meshes()) {
    DeviceMesh mesh(requested);
    for (const std::vector<Axis>& axes : subsets(mesh.shape().axis_count())) {
      mesh.prepare(axes);
      const Communicator& communicator = mesh.communicator(axes);
      CHECK(communicator.size() == mesh.shape().size_over(axes));
      CHECK(communicator.rank() == mesh.shape().index_over(mesh.rank(), axes));
      // The first of them is the one that it should be.
      const auto transport = make_transport("mpi");
      std::int64_t first = mesh.rank();
      transport->run(communicator, Broadcast{ElementType::int64, 1, 0}, &first);
      CHECK(first == mesh.shape().neighbour(mesh.rank(), axes, 0));
    }
  }
}

TEST_CASE("a communicator that was not prepared is not made on the way") {
  const DeviceMesh mesh({{"x", 1}, {"y", -1}});
  CHECK_NOTHROW(mesh.communicator(std::vector<Axis>{1}));
  CHECK_THROWS_WITH(mesh.communicator(std::vector<Axis>{0, 1}),
                    Catch::Contains("no communicator over x+y"));
}

TEST_CASE("a mesh of other than all ranks is an error on all of them") {
  const std::int64_t ranks = Communicator::world().size();
  CHECK_THROWS_WITH(DeviceMesh({{"x", ranks + 1}}), Catch::Contains("change a size"));
}

TEST_CASE("a started all-reduce is complete after its wait, however often it runs") {
  DeviceMesh mesh({{"x", -1}});
  const auto transport = make_transport("mpi");
  const auto collectives = bind_collectives(mesh, *transport);
  const AllReduce sum{ElementType::float32, Reduction::sum, 3};
  const auto [start, wait] = collectives->book_started(use_over({0}), sum);
  const auto ranks = static_cast<float>(mesh.all().size());
  for (int round = 0; round < 3; ++round) {
    std::vector<float> values{1, 2, static_cast<float>(round)};
    void* const operands[] = {values.data()};
    start->run(operands);
    wait->run(operands);
    CHECK(values == std::vector<float>{ranks, 2 * ranks, ranks * static_cast<float>(round)});
  }
  CHECK(collectives->records().size() == 1);
}

TEST_CASE("a collective that fails names what it is and is for") {
  DeviceMesh mesh({{"x", -1}});
  BrokenTransport transport;
  const auto collectives = bind_collectives(mesh, transport);
  float values[3] = {};
  void* const operands[] = {values};
  const auto message =
      Catch::Contains("all_reduce sum float32 x 3 over x: gradients d1/kernel: the cable is out");
  const AllReduce sum{ElementType::float32, Reduction::sum, 3};
  CHECK_THROWS_WITH(collectives->book(use_over({0}), sum)->run(operands), message);
  CHECK_THROWS_WITH(collectives->book_started(use_over({0}), sum).start->run(operands), message);
}

TEST_CASE("the watchdog sees where ranks wait for each other while collectives are made") {
  DeviceMesh mesh({{"x", -1}});
  const auto transport = make_transport("mpi");
  CollectiveTrace trace;
  const auto collectives = bind_collectives(mesh, *transport, &trace);
  (void)collectives->book(use_over({0}), AllReduce{ElementType::float32, Reduction::sum, 3});
  CHECK(sequence_of(trace.position()) == 2);
  CHECK_FALSE(is_inside(trace.position()));
  const std::vector<std::string> last = trace.last(trace.position(), 2);
  REQUIRE(last.size() == 2);
  CHECK_THAT(last[0], Catch::Contains("making of all_reduce sum float32 x 3 over x"));
  CHECK_THAT(last[1], Catch::Contains("making of a communicator over x"));
  (void)collectives->book(use_over({0}), AllReduce{ElementType::float32, Reduction::sum, 3});
  CHECK(sequence_of(trace.position()) == 3);
}

TEST_CASE("counts that are not one a rank are a mistake of ours") {
  DeviceMesh mesh({{"x", -1}});
  const auto transport = make_transport("mpi");
  const auto collectives = bind_collectives(mesh, *transport);
  const std::vector<std::int64_t> counts(mesh.all().size() + 1, 1);
  constexpr ElementType type = ElementType::float32;
  for (const Collective& wrong :
       std::vector<Collective>{ReduceScatter{type, counts}, AllGather{type, counts, counts},
                               AllToAll{type, counts, counts, counts, counts}}) {
    CHECK_THROWS_AS(collectives->book(use_over({0}), wrong), Error);
  }
}

}  // namespace meshwork::device_mesh_test
