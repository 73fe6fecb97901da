// Joins: two kernels, booked one right behind the other, as one.
//
// Operations book kernels without knowing of each other. Where two that are neighbours read the
// same and one specification says what both do, that one is booked instead: a row of scores is read
// once for the loss and all metrics, of which none knows the others. Nothing moves past anything,
// so that who joins has nothing else to look at. This is no rewrite of the graph: which kernels are
// neighbours, and whether they read the same memory, is known when they are booked.
#pragma once

#include <optional>
#include <vector>

#include "runtime/device/program.h"

namespace meshwork {

/// A kernel with its operands, without a workspace.
struct BookedKernel {
  KernelSpec spec;
  std::vector<Operand> operands;
};

/// One kernel that does `first`, then `next`; nothing if there is none.
[[nodiscard]] std::optional<BookedKernel> joined(const BookedKernel& first,
                                                 const BookedKernel& next);

}  // namespace meshwork
