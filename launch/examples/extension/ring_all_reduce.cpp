// RingAllReduce: a transport. Sums of float32 go round a ring of the ranks; all else goes by MPI.
//
//     collectives: {RingAllReduce: {least_bytes: 65536}}
//
// The buffer is cut into a block for each rank. In the first round, each rank sends a block to the next
// rank, which adds its own numbers to it and sends that on: after n - 1 steps each rank has one block
// summed over all ranks. In the second round the sums go round. Each rank sends 2 (n - 1) / n of the
// buffer. A block is added up in one order and copied, so all ranks have the same bits, in each call.
#include <meshwork/extension.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "collectives/error.h"
#include "collectives/forwarding.h"
#include "collectives/hosted.h"
#include "runtime/config/options.h"
#include "runtime/train/transport_choice.h"

namespace mine {

using namespace meshwork;

namespace {

struct RingOptions {
  std::int64_t least_bytes = 0;
};

template <class Visitor>
void describe(RingOptions& options, Visitor& option) {
  option.about("sums of float32 go round a ring of the ranks, all else by MPI");
  option("least_bytes", options.least_bytes, at_least(0), "shorter sums go by MPI");
}

/// An all-reduce that is over when it is started. On all ranks it is started at the same place of
/// their order, so its messages meet.
class RingSum final : public CompiledCollective {
 public:
  RingSum(const Communicator& ranks, std::int64_t count)
      : ranks_(&ranks),
        count_(count),
        received_(static_cast<std::size_t>((count + ranks.size() - 1) / ranks.size())) {}

  void start(const void* /*send*/, void* receive) override {
    auto* const values = static_cast<float*>(receive);
    const int n = ranks_->size();
    const int own = ranks_->rank();
    for (int step = 0; step < n - 1; ++step) {
      pass(values, own - step, received_.data(), own - step - 1);
      const std::int64_t begin = begin_of(own - step - 1);
      for (std::int64_t i = 0; i < end_of(own - step - 1) - begin; ++i) {
        values[begin + i] += received_[static_cast<std::size_t>(i)];
      }
    }
    for (int step = 0; step < n - 1; ++step) {
      pass(values, own + 1 - step, values + begin_of(own - step), own - step);
    }
  }

 private:
  static constexpr int tag = 0;  // which messages of the MPI transport do not have

  [[nodiscard]] int in_ring(int block) const {
    const int n = ranks_->size();
    return (block % n + n) % n;
  }
  [[nodiscard]] std::int64_t begin_of(int block) const {
    return count_ * in_ring(block) / ranks_->size();
  }
  [[nodiscard]] std::int64_t end_of(int block) const {
    return count_ * (in_ring(block) + 1) / ranks_->size();
  }

  /// Sends block `sent` to the next rank while block `received` comes from the one before.
  void pass(const float* values, int sent, float* to, int received) const {
    std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    const auto length = [&](int block) {
      return static_cast<int>(end_of(block) - begin_of(block));
    };
    check_mpi(MPI_Irecv(to, length(received), MPI_FLOAT, in_ring(ranks_->rank() - 1), tag,
                        ranks_->native(), requests.data()),
              "MPI_Irecv");
    check_mpi(MPI_Isend(values + begin_of(sent), length(sent), MPI_FLOAT,
                        in_ring(ranks_->rank() + 1), tag, ranks_->native(), requests.data() + 1),
              "MPI_Isend");
    await(requests, "a step of the ring");  // as MPI_Waitall; leaves where other ranks have failed
  }

  const Communicator* ranks_;
  std::int64_t count_;
  std::vector<float> received_;  // of a block, the longest
};

class Ring final : public ForwardingTransport {
 public:
  Ring(const RingOptions& options, std::unique_ptr<Transport> rest)
      : ForwardingTransport(*rest), options_(options), rest_(std::move(rest)) {}

 protected:
  [[nodiscard]] Compiled make(const Communicator& ranks, const Collective& collective,
                              Use use) override {
    const auto* const sum = std::get_if<AllReduce>(&collective);
    // MPI counts a block with an int.
    constexpr std::int64_t most = std::int64_t{1} << 31;
    if (sum == nullptr || sum->type != ElementType::float32 || sum->reduction != Reduction::sum ||
        ranks.size() == 1 || 4 * sum->count < options_.least_bytes || sum->count >= most) {
      return ForwardingTransport::make(ranks, collective, use);
    }
    return std::make_unique<RingSum>(ranks, sum->count);
  }

 private:
  RingOptions options_;
  std::unique_ptr<Transport> rest_;
};

}  // namespace

void add_ring_all_reduce(Catalog& catalog) {
  add_transport<RingOptions>(catalog, "RingAllReduce",
                             [](const RingOptions& options, const Communicator& ranks) {
                               return std::make_unique<Ring>(options, make_transport("mpi", ranks));
                             });
}

}  // namespace mine
