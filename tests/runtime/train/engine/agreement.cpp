// What ranks agree about before the first step: lists of collectives that are booked and never run.
#include "runtime/train/engine/agreement.h"

#include <memory>
#include <string>

#include "collectives/error.h"
#include "collectives/transport.h"
#include "tests/support/one_rank.h"

namespace meshwork::agreement_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t count = 6;

// The collectives of the calling rank, on a mesh whose only axis places layers.
struct Booked {
  DeviceMesh mesh{{{"stage", -1}}};
  std::unique_ptr<Transport> transport = make_transport("mpi", mesh.all());
  std::unique_ptr<MeshCollectives> collectives = plan_collectives(mesh.shape(), mesh.rank());

  void book(const Collective& collective, const std::string& what) {
    (void)collectives->book({{"forward", what}, {0}, count}, collective);
  }
  // Books what the calling rank has to do with a message, if it does that.
  void message(int from, int to, const std::string& what, bool sends = true, bool receives = true) {
    if (mesh.rank() == from && sends) {
      book(Exchange{.type = ElementType::float32, .sends = {{to, count, 0}}}, what);
    }
    if (mesh.rank() == to && receives) {
      book(Exchange{.type = ElementType::float32, .receives = {{from, count, 0}}}, what);
    }
  }
  [[nodiscard]] std::string refusal() {
    try {
      agree_on_collectives(mesh, *transport, {0}, *collectives, "the collectives of a step");
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
};

}  // namespace

TEST_CASE("messages that are sent and expected are agreed on, in any order") {
  Booked booked;
  const auto last = static_cast<int>(booked.mesh.shape().rank_count()) - 1;
  for (const std::string what : {"a", "b"}) {
    for (int rank = 0; rank < last; ++rank) booked.message(rank, rank + 1, what);
  }
  booked.message(0, last, "c");
  CHECK(booked.refusal() == "");
}

TEST_CASE("a message that nobody expects, and one that nobody sends, are named on all ranks") {
  for (const bool sends : {true, false}) {
    Booked booked;
    booked.message(0, 1, "a");
    booked.message(0, 1, "b", sends, !sends);
    const std::string refusal = booked.refusal();
    INFO(refusal);
    CHECK(refusal.find("the collectives of a step do not match: sent ") == 0);
    CHECK(refusal.find("from rank 0 to rank 1, 1 times: ") != std::string::npos);
    CHECK(refusal.find(sends ? "; expected nothing more" : "sent nothing more; ") !=
          std::string::npos);
    CHECK(refusal.find("exchange float32 x 6 over stage: b") != std::string::npos);
  }
}

TEST_CASE("messages of other lengths or other ranks do not match") {
  Booked longer;
  if (longer.mesh.rank() == 0) {
    longer.book(Exchange{.type = ElementType::int32, .sends = {{1, count, 0}}}, "a");
  }
  longer.message(0, 1, "a", false, true);
  CHECK(longer.refusal().find("do not match") != std::string::npos);

  Booked elsewhere;
  if (elsewhere.mesh.shape().rank_count() < 3) return;
  elsewhere.message(0, 1, "a", true, false);
  elsewhere.message(0, 2, "a", false, true);
  CHECK(elsewhere.refusal().find("to rank 1, 1 times") != std::string::npos);
}

TEST_CASE("a reduction that a rank leaves out is named, whoever runs what") {
  Booked booked;
  if (booked.mesh.rank() != 0) {
    booked.book(AllReduce{ElementType::float32, Reduction::sum, count}, "sums of losses");
  }
  CHECK(booked.refusal().find("sums of losses") != std::string::npos);
}

}  // namespace meshwork::agreement_test
