// Mixing: how an `augment` stage mixes the samples of a training batch with each other, targets too.
//
// A permutation of the batch gives each sample a partner, and a `Mixture` says which part of the
// partner it takes. Everything is drawn by Philox. The key is made of the run's seed and the stage,
// the counter of the batch's number and the sample's row in the global batch. So each rank draws
// the same for a row. There is no state: a resumed run goes on as if it had never ended.
//
// Several stages act one after the other: the second mixes what the first has mixed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/catalog.h"

namespace meshwork {

/// From `begin` to before `end`, as shares of a length.
struct Extent {
  double begin = 0, end = 0;
  /// Whether it contains place `index` of `length`: begin * length <= index < end * length.
  [[nodiscard]] bool contains(std::int64_t index, std::int64_t length) const {
    const auto place = static_cast<double>(index), size = static_cast<double>(length);
    return place >= begin * size && place < end * size;
  }
};

/// The rectangle of an image.
struct Rectangle {
  Extent rows, columns;
};

/// What a sample becomes: `share` of itself, and the rest of its partner. With a rectangle an image
/// is not blended: it takes the partner's pixels there.
struct Mixture {
  float share = 1;
  std::optional<Rectangle> from_partner = {};
};

/// Uniform numbers for one row of a batch, each independent of the others.
class RowDraws {
 public:
  RowDraws(std::uint64_t key, std::int64_t batch, std::int64_t row)
      : key_(key), batch_(batch), row_(row) {}
  /// Above 0 and below 1.
  [[nodiscard]] double uniform();
  /// Of the distribution Beta(alpha, alpha), 0 < alpha; fast for an alpha up to about 1.
  [[nodiscard]] double beta(double alpha);

 private:
  std::uint64_t key_;
  std::int64_t batch_, row_;
  std::uint64_t drawn_ = 0;
};

class Mixing {
 public:
  virtual ~Mixing() = default;
  /// "MixUp".
  [[nodiscard]] virtual std::string class_name() const = 0;
  /// "alpha 0.2", which ranks compare.
  [[nodiscard]] virtual std::string options() const = 0;
  /// Whether every input has to be an image (height, width, channels).
  [[nodiscard]] virtual bool cuts_images() const { return false; }
  /// What row `row` of batch `batch`, counted over all epochs, becomes.
  [[nodiscard]] virtual Mixture draw(std::uint64_t key, std::int64_t batch,
                                     std::int64_t row) const = 0;
};

using SharedMixing = std::shared_ptr<const Mixing>;

template <>
struct KindOf<SharedMixing> {
  static constexpr const char* word = "augmentation";
  static constexpr const char* article = "an augmentation";
};

/// "MixUp of alpha 0.2".
[[nodiscard]] std::string to_text(const SharedMixing& mixing);

}  // namespace meshwork
