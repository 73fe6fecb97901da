// CutMix: each image takes a rectangle of another one of its batch, and the rectangle's share of
// that one's targets (Yun et al., "CutMix: Regularization strategy to train strong classifiers with
// localizable features", ICCV 2019).
//
// As in Keras's layer of this name, the share w that an image keeps is of Beta(a, a). Each batch
// has its a, uniform in `factor`, plus 1e-6. The rectangle has the shares r = sqrt(1 - w) of height
// and width. It begins at any place, also between two pixels, from which it stays inside.
// Targets (height, width, ...) of the image's height and width are cut like images; others are
// blended: y = w y + (1 - w) y'.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "runtime/data/mixing.h"

namespace meshwork {

/// Between which numbers a factor is drawn, in either order, as in Keras: one number stands for
/// those from 0 on.
struct CutFactor {
  static constexpr const char* expected = "a number, or a list of two";
  double low = 0, high = 1;
  CutFactor() = default;
  CutFactor(double most) : high(most) {}
  CutFactor(double one, double other) : low(std::min(one, other)), high(std::max(one, other)) {}
};
void from_config(const ConfigNode& node, CutFactor& factor);
[[nodiscard]] std::string to_text(const CutFactor& factor);
[[nodiscard]] std::array<double, 2> numbers_of(const CutFactor& factor);

struct CutMixOptions {
  CutFactor factor;
};

/// Throws `Error` for factors that are not between 0 and 1.
[[nodiscard]] SharedMixing CutMix(const CutMixOptions& options = {});

}  // namespace meshwork
