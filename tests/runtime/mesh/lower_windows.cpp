// What the lowering of windows books, run for every rank of a mesh in one process: an exchange
// posts what a rank sends, and each program runs twice, so that the second time everything has been
// posted.
#include "runtime/mesh/lower_windows.h"

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/window_sum.h"

namespace meshwork::lower_windows_test {

using namespace meshwork::test;

namespace {

using Mail = std::map<std::pair<std::int64_t, std::int64_t>, std::vector<float>>;  // from, to

/// Collectives of one rank of a mesh that is simulated.
class MailedCollectives final : public MeshCollectives {
 public:
  MailedCollectives(MeshShape mesh, std::int64_t rank, Mail& mail)
      : mesh_(std::move(mesh)), rank_(rank), mail_(mail) {}

  const MeshShape& mesh() const override { return mesh_; }
  std::int64_t rank() const override { return rank_; }
  std::unique_ptr<Kernel> barrier_of_sharers(const std::vector<Axis>&,
                                             const CollectivePurpose&) override {
    return {};
  }

 protected:
  std::unique_ptr<Kernel> make(const CollectiveRecord& record,
                               const Collective& collective) override {
    return std::make_unique<Post>(*this, record.axes, std::get<Exchange>(collective));
  }
  StartAndWait make_started(const CollectiveRecord&, const Collective&, UnderWay) override {
    return {};
  }

 private:
  class Post final : public Kernel {
   public:
    Post(MailedCollectives& office, std::vector<Axis> axes, Exchange exchange)
        : office_(office), axes_(std::move(axes)), exchange_(std::move(exchange)) {}
    void run(void* const* operands) override {
      const auto* send = static_cast<const float*>(operands[0]);
      auto* receive = static_cast<float*>(operands[1]);
      for (const NeighbourBlock& block : exchange_.sends) {
        office_.mail_[{office_.rank_, peer(block)}].assign(send + block.offset,
                                                           send + block.offset + block.count);
      }
      for (const NeighbourBlock& block : exchange_.receives) {
        const auto found = office_.mail_.find({peer(block), office_.rank_});
        if (found == office_.mail_.end()) continue;  // posted before the second run
        if (static_cast<std::int64_t>(found->second.size()) != block.count) {
          throw std::runtime_error("sender and receiver differ in what they exchange");
        }
        std::copy(found->second.begin(), found->second.end(), receive + block.offset);
      }
    }

   private:
    std::int64_t peer(const NeighbourBlock& block) const {
      return office_.mesh_.neighbour(office_.rank_, axes_, block.rank);
    }
    MailedCollectives& office_;
    std::vector<Axis> axes_;
    Exchange exchange_;
  };

  MeshShape mesh_;
  std::int64_t rank_;
  Mail& mail_;
};

/// One rank's program and what stands before and after it.
struct Rank {
  std::unique_ptr<MailedCollectives> collectives;
  Program program;
  Block from, to;
  std::vector<float> source, destination;
  Buffer result;
  std::int64_t offset = 0;

  std::vector<float> found() const {
    const auto* first = reinterpret_cast<const float*>(
        static_cast<const std::byte*>(program.address(result)) + offset);
    return {first, first + element_count(shape_of(to))};
  }
};

/// Books and runs all ranks. `value` gives what rank r has at a global index.
template <class Value>
std::vector<Rank> run(const Windows& windows, const MeshShape& mesh, Device& device, bool back,
                      bool into_destination, const Value& value) {
  Mail mail;
  std::vector<Rank> ranks(static_cast<std::size_t>(mesh.rank_count()));
  for (std::int64_t r = 0; r < mesh.rank_count(); ++r) {
    Rank& rank = ranks[static_cast<std::size_t>(r)];
    rank.from = block_of(windows.layout, windows.shape, mesh, r);
    rank.to = box_of(windows, mesh, r);
    if (back) std::swap(rank.from, rank.to);
    for_each_in_block(windows.shape, rank.from,
                      [&](std::int64_t index) { rank.source.push_back(value(r, index)); });
    rank.collectives = std::make_unique<MailedCollectives>(mesh, r, mail);
    rank.destination.assign(static_cast<std::size_t>(element_count(shape_of(rank.to))), -77.0F);
    ProgramBuilder builder(device);
    const Buffer source = builder.external(
        rank.source.data(), static_cast<std::int64_t>(rank.source.size()) * 4, "source");
    const CollectivePurpose purpose{back ? "backward" : "forward", "image"};
    std::optional<Operand> destination;
    if (into_destination) {
      destination =
          builder.external(rank.destination.data(),
                           static_cast<std::int64_t>(rank.destination.size()) * 4, "destination");
    }
    const Operand at = back ? lower_windows_back(builder, *rank.collectives, windows,
                                                 ElementType::float32, source, destination, purpose)
                            : lower_windows(builder, *rank.collectives, windows,
                                            ElementType::float32, source, purpose);
    if (at.buffer != source && !into_destination) builder.keep(at.buffer);
    rank.result = at.buffer;
    rank.offset = at.offset;
    rank.program = builder.finish();
  }
  const std::vector<Rank>& all = ranks;
  std::vector<std::vector<float>> before;
  for (const Rank& rank : all) before.push_back(rank.source);
  for (int pass = 0; pass < 2; ++pass) {
    for (Rank& rank : ranks) rank.program.run();
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].source != before[r]) throw std::runtime_error("the source was written");
  }
  return ranks;
}

DimensionWindows slid(int dimension, const Slide& slide, std::int64_t length) {
  return {dimension, slide.outputs(length),
          [slide, length](Range output) { return slide.inputs(output, length); }};
}

float term(std::int64_t rank, std::int64_t index) {
  // Of many magnitudes, so that every order of adding rounds differently.
  return static_cast<float>(static_cast<double>((index * 37 + rank * 11) % 101 - 50) *
                            (rank % 3 == 0   ? 1.0
                             : rank % 3 == 1 ? 1e-3
                                             : 1e4));
}

/// What is wrong with the boxes and with the sums: "" if nothing is.
std::string wrong(const Windows& windows, const MeshShape& mesh, Device& device) {
  const auto index_value = [](std::int64_t, std::int64_t index) {
    return static_cast<float>(index + 1);
  };
  for (const Rank& rank : run(windows, mesh, device, false, false, index_value)) {
    std::vector<float> expected;
    for_each_in_block(windows.shape, rank.to, [&](std::int64_t index) {
      expected.push_back(static_cast<float>(index + 1));
    });
    if (rank.found() != expected) return "a box is not what it should be";
  }

  // Sums in the order of the ranks, in float, bit for bit.
  std::vector<Axis> others;
  for (Axis axis = 0; axis < mesh.axis_count(); ++axis) {
    if (windows.layout.replicates(axis)) others.push_back(axis);
  }
  std::vector<std::optional<float>> sums(static_cast<std::size_t>(element_count(windows.shape)));
  for (std::int64_t rank = 0; rank < mesh.rank_count(); ++rank) {
    if (mesh.neighbour(rank, others, 0) != rank) continue;
    for_each_in_block(windows.shape, box_of(windows, mesh, rank), [&](std::int64_t index) {
      sums[index] = sums[index] ? *sums[index] + term(rank, index) : term(rank, index);
    });
  }
  for (const bool into_destination : {false, true}) {
    const std::vector<Rank> ranks =
        run(windows, mesh, device, true, into_destination,
            [&](auto rank, auto index) { return term(mesh.neighbour(rank, others, 0), index); });
    for (const Rank& rank : ranks) {
      std::vector<float> expected;
      for_each_in_block(windows.shape, rank.to, [&](std::int64_t index) {
        expected.push_back(sums[index].value_or(0.0F));
      });
      if (rank.found() != expected) return "a sum is not what it should be";
      if (into_destination && rank.destination != expected) return "the destination was not used";
    }
  }
  return "";
}

}  // namespace

TEST_CASE("every rank gets its box, and the owners the sums in the order of the ranks") {
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  std::mt19937 words(11);
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(words() % static_cast<std::uint64_t>(bound));
  };
  for (int round = 0; round < 400; ++round) {
    const std::int64_t a = 1 + below(4), b = 1 + below(3), c = 1 + below(2);
    const MeshShape mesh({{"a", a}, {"b", b}, {"c", c}}, a * b * c);
    const std::size_t dimension_count = 1 + static_cast<std::size_t>(below(4));
    Windows windows{{}, Layout::replicated(dimension_count), {}};
    for (std::size_t d = 0; d < dimension_count; ++d) windows.shape.push_back(1 + below(9));
    for (const Axis axis : {Axis{1}, Axis{0}, Axis{2}}) {
      const std::int64_t at = below(static_cast<std::int64_t>(dimension_count) + 1);
      if (at < static_cast<std::int64_t>(dimension_count)) {
        windows.layout.dimensions[static_cast<std::size_t>(at)].push_back(axis);
      }
    }
    for (std::size_t d = 0; d < dimension_count; ++d) {
      const Slide slide{1 + below(5), 1 + below(3), 1 + below(2), below(2) == 0};
      if (below(4) > 0 && (slide.same || windows.shape[d] >= slide.reach())) {
        windows.dimensions.push_back(slid(static_cast<int>(d), slide, windows.shape[d]));
      }
    }
    INFO(to_string(windows.shape) << " " << to_string(windows.layout, mesh) << " on "
                                  << to_string(mesh) << ", round " << round);
    CHECK(wrong(windows, mesh, *device) == "");
  }
}

TEST_CASE("where every box is its block nothing is booked") {
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  const MeshShape mesh({{"rows", 4}}, 4);
  const Windows windows{{2, 8, 3}, {{{}, {0}, {}}, {}}, {slid(1, Slide{2, 2, 1, false}, 8)}};
  for (const bool back : {false, true}) {
    for (const Rank& rank : run(windows, mesh, *device, back, false, term)) {
      CHECK(rank.program.instruction_count() == 0);
      CHECK(rank.collectives->records().empty());
    }
  }
}

TEST_CASE("an exchange is recorded alike on all ranks, with what each sends") {
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  const MeshShape mesh({{"data", 2}, {"rows", 4}}, 8);
  // (6, 8, 5): three images a rank, rows of 5; a 3x3 window brings a row from each side.
  const Windows windows{{6, 8, 5}, {{{0}, {1}, {}}, {}}, {slid(1, Slide{3, 1, 1, true}, 8)}};
  for (const bool back : {false, true}) {
    const std::vector<Rank> ranks = run(windows, mesh, *device, back, false, term);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      REQUIRE(ranks[r].collectives->records().size() == 1);
      const CollectiveRecord& record = ranks[r].collectives->records()[0];
      CHECK(describe(record, mesh) == "halo float32 x 240 over rows: image");
      CHECK(record.bytes_sent == (r % 4 == 0 || r % 4 == 3 ? 1 : 2) * 3 * 5 * 4);
      CHECK(record.purpose.phase == (back ? "backward" : "forward"));
    }
  }
}

TEST_CASE("parts that lie together are neither packed nor unpacked") {
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  const MeshShape mesh({{"rows", 4}}, 4);
  const Layout rows{{{0}, {}}, {}};
  const Windows windows{{8, 5}, rows, {slid(0, Slide{3, 1, 1, true}, 8)}};
  for (const Rank& rank : run(windows, mesh, *device, false, false, term)) {
    // The exchange and the rank's own part.
    CHECK(rank.program.labels().size() == 2);
  }
  const Windows columns{{5, 8}, {{{}, {0}}, {}}, {slid(1, Slide{3, 1, 1, true}, 8)}};
  for (const Rank& rank : run(columns, mesh, *device, false, false, term)) {
    CHECK(rank.program.labels().size() == 4);
  }
}

}  // namespace meshwork::lower_windows_test
