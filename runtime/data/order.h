// SampleOrder: in which order an epoch visits the samples. A permutation of [0, rows) of which any
// element can be asked for on its own: it takes no memory and every rank computes just what it
// needs.
//
// The shuffled order is a generalized Feistel network (Black and Rogaway, "Ciphers with arbitrary
// finite domains", CT-RSA 2002). With a = ceil(sqrt(rows)) and b = ceil(rows / a), an index below
// a * b is a pair (left, right) = (index mod a, index / a). Rounds add, in turn, a pseudo-random
// function of right to left modulo a and of left to right modulo b. Each round can be undone,
// whatever the function, so all of them together permute [0, a * b). Where that leads to rows and
// beyond, the network is applied again until it does not (cycle walking), which permutes [0, rows);
// a * b < rows + a, so that this is rare. The function is Philox keyed by the seed, its counter
// made of round, half and epoch, and scaled to the range: the same order on every mesh, another one
// for every seed and every epoch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace meshwork {

class SampleOrder {
 public:
  /// Samples as they come: at(i) = i.
  [[nodiscard]] static SampleOrder identity(std::int64_t rows);
  /// The pseudo-random order of `epoch` (counted from 0) under `seed`.
  [[nodiscard]] static SampleOrder shuffled(std::int64_t rows, std::uint64_t seed,
                                            std::int64_t epoch);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  /// The sample at position `position` of the epoch, 0 <= position < rows().
  [[nodiscard]] std::int64_t at(std::int64_t position) const;
  /// at(first), at(first + 1), ... into all of `samples`.
  void fill(std::int64_t first, std::span<std::int64_t> samples) const;

 private:
  explicit SampleOrder(std::int64_t rows) : rows_(rows) {}

  // As many as a processor permutes side by side.
  static constexpr std::size_t group_size = 16;
  using Group = std::array<std::uint64_t, group_size>;
  /// The network, applied once to each. What lies beyond its range comes out as anything.
  void permute(Group& indices) const;

  std::int64_t rows_ = 0;
  bool shuffled_ = false;
  std::uint64_t key_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t left_size_ = 1, right_size_ = 1;  // a, b
};

}  // namespace meshwork
