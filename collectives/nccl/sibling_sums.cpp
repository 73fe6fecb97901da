#include "collectives/nccl/sibling_sums.h"

#include <mpi.h>

#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "collectives/blocks.h"
#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/fnv1a.h"

namespace meshwork::nccl {

namespace {

float term(int rank, std::int64_t i) {
  const auto seed = static_cast<std::uint32_t>(i * 2'654'435'761 + rank * 40'503 + 1);
  return std::ldexp(static_cast<float>(seed >> 8), static_cast<int>(seed % 16) - 24);
}

/// Whether ranks that compute the same, as `subject` says, have the same result.
bool agree(const Communicator& ranks, std::uint64_t subject, std::uint64_t result) {
  const std::array<std::uint64_t, 2> own{subject, result};
  std::vector<std::array<std::uint64_t, 2>> all(static_cast<std::size_t>(ranks.size()));
  check_mpi(MPI_Allgather(own.data(), 2, MPI_UINT64_T, all.data(), 2, MPI_UINT64_T, ranks.native()),
            "MPI_Allgather of sums");
  std::map<std::uint64_t, std::uint64_t> known;
  for (const auto& [what, sum] : all) {
    if (known.emplace(what, sum).first->second != sum) return false;
  }
  return true;
}

}  // namespace

bool are_siblings(const Communicator& ranks, const Communicator& communicator) {
  const int size = communicator.size();
  const bool of_one_size = agree(ranks, 0, static_cast<std::uint64_t>(size));
  return of_one_size && size > 2 && size < ranks.size();
}

bool siblings_add_alike(const Communicator& ranks, const Communicator& communicator,
                        DeviceQueues& device, std::span<const std::int64_t> counts,
                        const TriedSum& sum) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const bool scatters = counts.size() > 1;
  const std::int64_t sent = total_of(counts), received = scatters ? counts[rank] : sent;
  Memory terms, block;
  together(ranks, [&] {
    terms = device.allocate_pinned(sent * element_bytes(ElementType::float32));
    if (scatters) block = device.allocate_pinned(received * element_bytes(ElementType::float32));
  });
  auto* const send = static_cast<float*>(terms.data());
  auto* const receive = scatters ? static_cast<float*>(block.data()) : send;
  for (std::int64_t i = 0; i < sent; ++i) send[i] = term(communicator.rank(), i);
  sum(send, receive);
  const std::uint64_t subject =
      fnv1a(std::as_bytes(std::span(&rank, 1)), fnv1a(std::as_bytes(counts)));
  return agree(ranks, subject,
               fnv1a(std::as_bytes(std::span(receive, static_cast<std::size_t>(received)))));
}

}  // namespace meshwork::nccl
