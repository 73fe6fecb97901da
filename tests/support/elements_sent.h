// What a rank sends in a step of a redistribution, as a bandwidth-optimal algorithm sends it: counted
// from the transfers, which take as long as there are peers.
#pragma once

#include <cstdint>

#include "collectives/blocks.h"
#include "runtime/mesh/redistribution.h"
#include "runtime/shape/block_parts.h"

namespace meshwork {

[[nodiscard]] inline std::int64_t elements_sent(const RedistributionStep& step, const Shape& shape,
                                                const MeshShape& mesh, std::int64_t rank) {
  if (!communicates(step.kind)) return 0;
  const std::int64_t ranks = mesh.size_over(step.axes);
  const auto held = [&](const Layout& layout) {
    return size_of(block_of(layout, shape, mesh, rank));
  };
  if (step.kind == StepKind::all_reduce) return elements_sent_by_all_reduce(held(step.from), ranks);
  if (step.kind == StepKind::all_gather) return elements_sent_once(held(step.to), ranks);
  std::int64_t all = 0, to_others = 0;
  for (const Transfer& send : transfers(step, shape, mesh, rank).sends) {
    all += size_of(send.region);
    if (send.peer != mesh.index_over(rank, step.axes)) to_others += size_of(send.region);
  }
  return step.kind == StepKind::reduce_scatter ? elements_sent_once(all, ranks) : to_others;
}

}  // namespace meshwork
