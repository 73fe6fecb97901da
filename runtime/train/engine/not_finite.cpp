#include "runtime/train/engine/not_finite.h"

#include <mpi.h>

#include <cstdint>
#include <limits>
#include <optional>

#include "collectives/error.h"
#include "collectives/exchange.h"

namespace meshwork {

std::string where_not_finite(const Step& step, const Communicator& all, const TracePoint& at) {
  const std::optional<NotFinite> own = step.first_not_finite();
  const TracedCollective inside(at);
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  const std::int64_t mine = own ? own->order * all.size() + all.rank() : none;
  std::int64_t first = mine;
  check_mpi(MPI_Allreduce(&mine, &first, 1, MPI_INT64_T, MPI_MIN, all.native()), "MPI_Allreduce");
  if (first == none) {
    return {};
  }
  const int rank = static_cast<int>(first % all.size());
  return fmt::format("rank {}, in {}", rank,
                     broadcast_text(all, rank == all.rank() ? own->where : "", rank));
}

}  // namespace meshwork
