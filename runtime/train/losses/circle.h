// Circle loss (Sun et al., arXiv:2002.10857; keras.io/api/losses): for vectors of length 1, which
// it brings near each other where their samples have one label, and apart where not.
//
// Of a batch each sample is compared with every other one, by the formulas of kernels/circle.h.
// The loss is the mean over the samples that have one above 0, so that a batch's samples cannot be
// worked on apart: its letters are whole. Each rank gathers the vectors and the labels of the
// batch, and computes all of the loss, which is small beside the model that made the vectors.
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
