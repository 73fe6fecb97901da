// What `augment` (runtime/data/mixing.h) asks of a model and its losses.
#pragma once

#include <vector>

#include "runtime/data/mixing.h"
#include "runtime/train/objective.h"

namespace meshwork {

/// Throws `Error`, beginning with the stage, for inputs and targets that `stages` cannot mix: those
/// that are whole numbers, and inputs that are no images where images are cut.
void check_augment(const std::vector<SharedMixing>& stages, const Objective& objective);

}  // namespace meshwork
