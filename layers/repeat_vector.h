// RepeatVector: a vector repeated as the steps of a sequence.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct RepeatVectorOptions {
  std::string name;
  std::int64_t n = 0;  // has to be given
};

/// y (batch, n, features): x (batch, features), n times. No variables. Throws `Error` for an n that
/// is not positive; when called, for inputs of other than two dimensions.
[[nodiscard]] SharedLayer RepeatVector(RepeatVectorOptions options = {});

}  // namespace meshwork
