// MixedReader: this rank's part of a batch, mixed as `augment` says (mixing.h).
//
// The partner of a row may be a row of another rank. No rank asks another for it: the order of the
// samples is known everywhere, so each reads its own block of the partner too. Of images that are
// split over ranks these are the same rows and columns. So k stages read 2^k samples for one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/data/mixing.h"
#include "runtime/data/order.h"
#include "runtime/data/source.h"

namespace meshwork {

/// `source` as a MixedReader reads it: values of features and targets are float32. `source` itself
/// where nothing is mixed.
[[nodiscard]] std::shared_ptr<const Source> as_mixed(std::shared_ptr<const Source> source,
                                                     const std::vector<SharedMixing>& stages);

/// The batch that is read.
struct MixedBatch {
  const SampleOrder* order = nullptr;
  Range positions;          // of the order
  std::int64_t number = 0;  // counted over all epochs
};

class MixedReader {
 public:
  /// `source` is as `as_mixed` makes it, and outlives the reader.
  MixedReader(const Source& source, std::vector<SharedMixing> stages, std::uint64_t seed);

  /// Whether values of `field` are mixed; weights of samples are not.
  [[nodiscard]] bool mixes(int field) const;
  /// Writes `block` of `field` of the rows `rows` of the batch to `destination`. Allocates nothing
  /// when as much was read before. One thread at a time.
  void read(const MixedBatch& batch, int field, Range rows, const Block& block, float* destination);

 private:
  struct Stage {
    SharedMixing mixing;
    std::uint64_t key = 0;
    std::vector<std::int64_t> partners;  // scratch: of each row that is read
    std::vector<float> values;           // scratch: theirs
  };
  /// Rows as the first `stages` stages make them.
  void read_stage(std::size_t stages, const MixedBatch& batch, int field,
                  std::span<const std::int64_t> rows, const Block& block, float* destination);
  void mix(const Mixture& mixture, int field, const Block& block, const float* partner,
           float* sample) const;
  /// Whether values of `field` are pixels of images like those of the first input.
  [[nodiscard]] bool has_pixels(int field) const;

  const Source* source_;
  std::vector<Stage> stages_;
  std::vector<std::int64_t> rows_, samples_;  // scratch
};

}  // namespace meshwork
