// What follows from a rule and a split, by the three sentences of operation.h.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "runtime/graph/plan.h"
#include "runtime/mesh/redistribution.h"

namespace meshwork {

/// How an operation takes its input `input`: split by the axes of the input's letters.
[[nodiscard]] Layout needed_layout(const Rule& rule, const Split& split, int input);

/// How an operation leaves its output: split by the axes of the output's letters, and partial over
/// the axes of letters that the output lacks.
[[nodiscard]] Layout natural_layout(const Rule& rule, const Split& split);

/// How the raw gradient of input `input` comes out: as the input, and partial over the axes of
/// letters that the input lacks.
[[nodiscard]] Layout raw_layout(const Rule& rule, const Split& split, int input);

/// Predicted seconds of a collective over so many ranks in which a rank sends `bytes`.
[[nodiscard]] double message_seconds(double bytes, std::int64_t ranks, const CostModel& costs);

/// Predicted seconds of one step of a redistribution.
[[nodiscard]] double step_seconds(const RedistributionStep& step, const Shape& shape,
                                  const MeshShape& mesh, const CostModel& costs);

/// Predicted seconds of reducing a sum over the whole batch that comes out partial as `natural`; 0
/// for any other output, whose reduction is a redistribution.
[[nodiscard]] double sum_seconds(const Layout& natural, const MeshShape& mesh,
                                 const CostModel& costs);

/// Predicted seconds of one reduction of an operation's own; `lengths` are those of its letters.
[[nodiscard]] double own_reduction_seconds(const OwnReduction& reduction, const Split& split,
                                           const std::map<char, std::int64_t>& lengths,
                                           const MeshShape& mesh, const CostModel& costs);

/// The share of an operation's arithmetic on the rank that has most of it. `lengths` are those of
/// its letters. Blocks count as if they were equally long, so that nothing is moved merely because
/// some are longer by one.
[[nodiscard]] double largest_share(const Operation& operation, std::span<const Shape> inputs,
                                   const Split& split, const std::map<char, std::int64_t>& lengths,
                                   const MeshShape& mesh);

}  // namespace meshwork
