// Circle loss (Sun et al., arXiv:2002.10857; keras.io/api/losses): for vectors of length 1, which
// it brings near each other where their samples have one label, and apart where not.
//
// Each sample of a batch is compared with every other one, by the formulas of kernels/circle.h. The
// loss is the mean over the samples that have one above 0. So no sample can be worked on alone: the
// loss's letters are whole. Each rank gathers the batch's vectors and labels, and computes all of
// the loss. That is little work beside the model that made the vectors.
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct CircleOptions {
  double gamma = 80;            // scale of similarities
  double margin = 0.4;          // of distances: those of one label shall be below it
  bool remove_diagonal = true;  // leave each sample's pair with itself out
  std::string name = "circle";
};

/// Of predictions (batch, features) and a whole number for each sample. UnitNormalization makes
/// vectors of length 1. Throws `Error` for options out of range.
[[nodiscard]] SharedLoss Circle(const CircleOptions& options = {});

}  // namespace meshwork
