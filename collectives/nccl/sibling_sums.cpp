#include "collectives/nccl/sibling_sums.h"

#include <mpi.h>

#include <cmath>
#include <span>

#include "collectives/error.h"
#include "collectives/fnv1a.h"

namespace meshwork::nccl {

namespace {

constexpr std::int64_t counts[] = {256, 65'536, 2'097'152};

float term(int rank, std::int64_t i) {
  const auto seed = static_cast<std::uint32_t>(i * 2'654'435'761 + rank * 40'503 + 1);
  return std::ldexp(static_cast<float>(seed >> 8), static_cast<int>(seed % 16) - 24);
}

/// Whether all ranks have the same.
bool agree(const Communicator& ranks, std::uint64_t value) {
  std::uint64_t lowest = 0, highest = 0;
  check_mpi(MPI_Allreduce(&value, &lowest, 1, MPI_UINT64_T, MPI_MIN, ranks.native()),
            "MPI_Allreduce");
  check_mpi(MPI_Allreduce(&value, &highest, 1, MPI_UINT64_T, MPI_MAX, ranks.native()),
            "MPI_Allreduce");
  return lowest == highest;
}

}  // namespace

bool siblings_add_alike(const Communicator& ranks, const Communicator& communicator,
                        DeviceQueues& device, const SumInPlace& sum) {
  const int size = communicator.size();
  const bool of_one_size = agree(ranks, static_cast<std::uint64_t>(size));
  if (!of_one_size || size <= 2 || size == ranks.size()) return true;
  std::uint64_t hash = fnv1a_of_nothing;
  for (const std::int64_t count : counts) {
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(float));
    const Memory memory = device.allocate_pinned(bytes);
    auto* const values = static_cast<float*>(memory.data());
    for (std::int64_t i = 0; i < count; ++i) values[i] = term(communicator.rank(), i);
    sum(values, count);
    hash = fnv1a(std::as_bytes(std::span(values, static_cast<std::size_t>(count))), hash);
  }
  return agree(ranks, hash);
}

}  // namespace meshwork::nccl
