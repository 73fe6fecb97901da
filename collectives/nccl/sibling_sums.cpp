#include "collectives/nccl/sibling_sums.h"

#include <mpi.h>

#include <array>
#include <cmath>
#include <exception>
#include <map>
#include <span>
#include <vector>

#include "collectives/blocks.h"
#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/fnv1a.h"
#include "collectives/hosted.h"

namespace meshwork::nccl {

namespace {

/// Terms of many magnitudes.
template <class Number>
void fill(void* memory, std::int64_t count, int rank) {
  auto* const terms = static_cast<Number*>(memory);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto seed = static_cast<std::uint32_t>(i * 2'654'435'761 + rank * 40'503 + 1);
    // As many digits as the type has: of fewer, sums would be exact.
    const auto digits = static_cast<Number>(seed >> 8) / static_cast<Number>(3);
    terms[i] = std::ldexp(digits, static_cast<int>(seed % 16) - 24);
  }
}

/// Whether ranks that compute the same, as `subject` says, have the same result.
bool agree(const Communicator& ranks, std::uint64_t subject, std::uint64_t result) {
  const std::array<std::uint64_t, 2> own{subject, result};
  std::vector<std::array<std::uint64_t, 2>> all(static_cast<std::size_t>(ranks.size()));
  await_ranks(ranks);
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

std::string why_siblings_part(const Communicator& ranks, const Communicator& communicator,
                              DeviceQueues& device, const Collective& sum,
                              std::span<const std::int64_t> subject, const TriedSum& run) {
  const int rank = communicator.rank();
  const std::int64_t width = element_bytes(type_of(sum));
  const Extents extents = extents_of(sum, rank);
  Memory terms, block;
  bool is_there = true;
  try {
    block = device.allocate_pinned(extents.receive * width);
    if (!is_in_place(sum)) terms = device.allocate_pinned(extents.send * width);
  } catch (const std::exception&) {
    is_there = false;
  }
  if (!on_all(ranks, is_there)) {
    return "there is no pinned memory to compare in which order NCCL adds in each";
  }
  const auto fill_terms = type_of(sum) == ElementType::float64 ? fill<double> : fill<float>;
  if (is_in_place(sum)) {
    fill_terms(block.data(), extents.receive, rank);
  } else {
    fill_terms(terms.data(), extents.send, rank);
  }
  run(terms.data(), block.data());
  const auto received = static_cast<std::size_t>(extents.receive * width);
  const bool alike =
      agree(ranks, fnv1a(std::as_bytes(std::span(&rank, 1)), fnv1a(std::as_bytes(subject))),
            fnv1a(std::as_bytes(std::span(static_cast<const std::byte*>(block.data()), received))));
  return alike ? "" : "NCCL adds in another order in each";
}

}  // namespace meshwork::nccl
