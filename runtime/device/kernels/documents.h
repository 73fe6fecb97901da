// Where documents begin, in sequences that hold several one behind the other.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// y (rows, places) = the place at which the document of each place begins, in x (rows, all,
/// int32), of which y's are those from `first` on; `of_piece`, from StepScalars::position + first
/// on. A document goes up to the number `end`, and another begins behind it; one begins at place 0.
/// Operands: x, [StepScalars, of a piece], y.
struct DocumentStartSpec {
  std::int64_t rows = 0, places = 0, all = 0;
  std::int64_t first = 0;
  std::int32_t end = 0;
  bool of_piece = false;
  [[nodiscard]] std::string text() const {
    return spec::sized("document starts", {rows, places, all}) +
           spec::words({{of_piece, "of a piece"}});
  }
  [[nodiscard]] KernelWork work() const {
    return spec::elements(2 * spec::product({rows, places}));
  }
};

}  // namespace meshwork
