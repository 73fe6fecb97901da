// The windows of a planned operation: what its rule, its split and `Operation::window` say together
// about the boxes that ranks need of an input.
#pragma once

#include <span>

#include "runtime/graph/operation.h"
#include "runtime/graph/plan.h"
#include "runtime/mesh/window_exchange.h"

namespace meshwork {

/// What every rank wants of input `input`, for inputs and an output of these global shapes: a
/// dimension for each letter of the input that is in the rule's `windows`. `operation`, whose rule
/// it is (or began with, if it is a fused one), must outlive the result.
[[nodiscard]] Windows windows_of(const Operation& operation, const Rule& rule, const Split& split,
                                 int input, std::span<const Shape> inputs, const Shape& output);

/// Predicted seconds of the exchange that brings the boxes of float32 values or, with `back`, of
/// its reverse, which sends what the other receives: one latency, since all messages are under way
/// at once, and the bytes. Counted for the rank that sends most, of those that are first, last
/// or in the middle along each axis.
[[nodiscard]] double exchange_seconds(const Windows& windows, const MeshShape& mesh,
                                      const CostModel& costs, bool back);

/// Whether the rule gives input `input` a letter with windows.
[[nodiscard]] bool has_windows(const Rule& rule, int input);

}  // namespace meshwork
