// Staging: the pinned memory through which a staged operation goes, and the copies to it.
//
// Large operations go in *pieces*: while one is under way between ranks, the next is on its way to
// the host and the one before on its way back. All blocks of an operation are cut into as many
// pieces, and those of the same number travel together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/device_queues.h"

namespace meshwork {

/// Piece `piece` of `pieces` of a block of `block` elements.
struct Piece {
  std::int64_t begin = 0, count = 0;
  Piece(std::int64_t block, std::int64_t piece, std::int64_t pieces)
      : begin(block / pieces * piece + block % pieces * piece / pieces),
        count(block / pieces * (piece + 1) + block % pieces * (piece + 1) / pieces - begin) {}
};

/// How many pieces `bytes` go in, of at most `piece_bytes`: one at least.
[[nodiscard]] constexpr std::int64_t pieces_of(std::int64_t bytes, std::int64_t piece_bytes) {
  return bytes > piece_bytes ? (bytes + piece_bytes - 1) / piece_bytes : 1;
}

/// What the operations of a transport that are not started go through, one after the other.
class Staging {
 public:
  Staging(DeviceQueues& device, std::int64_t piece_bytes)
      : device_(device), piece_bytes_(piece_bytes) {}

  [[nodiscard]] std::int64_t pieces_of(std::int64_t bytes) const {
    return meshwork::pieces_of(bytes, piece_bytes_);
  }

  /// Takes now what an operation of up to `bytes` wants.
  void reserve(std::int64_t bytes);

  /// Pinned memory for an operation. Copies from it may be under way: it is written to by copies
  /// behind them, or when such a copy was waited for.
  [[nodiscard]] std::byte* take(std::int64_t bytes);

  /// Starts a copy to or from it.
  void copy(void* destination, const void* source, std::int64_t bytes) {
    if (bytes > 0) device_.transfers().start_copy(destination, source, bytes);
  }
  /// All that was copied so far is piece `piece`, whose arrival can be waited for.
  void end_piece(std::int64_t piece) { device_.transfers().record(mark(piece)); }
  void wait_for_piece(std::int64_t piece) { mark(piece).wait(); }

 private:
  [[nodiscard]] Mark& mark(std::int64_t piece);

  DeviceQueues& device_;
  std::int64_t piece_bytes_;
  Memory memory_;
  std::vector<std::unique_ptr<Mark>> marks_;  // by piece: when it has arrived
};

}  // namespace meshwork
