// Batches: the global batches of an epoch, and the Feeder that assembles this rank's part of each.
//
// `batch_size` is global. Batch i of an epoch over n samples is made of the positions
// [i * batch_size, min(n, (i + 1) * batch_size)) of the epoch's order (order.h); the last may be
// short and is kept. So batches have at most two different row counts, and for each of them the
// caller says which *block* of each field this rank holds: dimension 0 is the row within the global
// batch, the others are the dimensions of a sample. The feeder reads just these blocks, each
// contiguous and row-major in the field's own element type, into host memory of its own.
//
// Prefetching assembles the next batch on a thread while the caller works on this one: two slots,
// of which the caller has one. That thread makes no MPI calls. It begins when a batch is asked for
// and is stopped and joined by the destructor and by `seek`, in the middle of an epoch as at its
// end. What it throws is thrown by the `next` that would have given the batch. To wake a thread and
// be woken by it costs as much as to copy a small batch out of memory; so it is left out as long as
// batches take less than that. After the first batches the feeder allocates nothing, but for
// the thread when it starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/with_type.h"
#include "runtime/data/mixing.h"
#include "runtime/data/source.h"
#include "runtime/mesh/layout.h"

namespace meshwork {

/// The number of batches in an epoch: rows / batch_size, rounded up.
[[nodiscard]] std::int64_t batch_count(std::int64_t rows, std::int64_t batch_size);

/// Positions of the epoch's order that make up batch `index`.
[[nodiscard]] Range batch_range(std::int64_t rows, std::int64_t batch_size, std::int64_t index);

/// The row counts that batches of an epoch have, largest first: one or two numbers, none for no
/// rows.
[[nodiscard]] std::vector<std::int64_t> batch_row_counts(std::int64_t rows,
                                                         std::int64_t batch_size);

/// Checks that batches of `batch_size` can be made of `rows` samples. A full batch is worked on in
/// `parts` equal parts, and each of the `batch_shards` ranks along `batch_axis` has to get a row of
/// each. In a short last batch, ranks without rows are legal. Throws `Error` that begins with
/// `what` ("training data") and says what would fit.
void check_batching(std::int64_t rows, std::int64_t batch_size, std::int64_t parts,
                    std::int64_t batch_shards, std::string_view batch_axis, std::string_view what);

/// One field of the source as a feeder delivers it.
struct FeedField {
  int field = 0;  // of the source
  /// This rank's block in a batch of each row count, in the order of `batch_row_counts`.
  std::vector<Block> blocks;
  /// If not 0, values are class indices, and one that is not a whole number from 0 to `classes` - 1
  /// is an error naming sample and value; but for `no_class`, if there is one.
  std::int64_t classes = 0;
  std::optional<std::int64_t> no_class = {};
  /// A value that is no whole number of int32 is an error naming sample and value.
  bool whole = false;
  /// Values are weights, and one that is negative or not finite is an error naming sample and value.
  bool weights = false;
};

/// Whether a value of type `read` may be no whole number of int32, where `computed` is that.
[[nodiscard]] inline bool may_be_no_whole_number(ElementType read, ElementType computed) {
  return computed == ElementType::int32 && (!is_integer(read) || element_bytes(read) > 4);
}

/// A batch of an endless sequence of epochs.
struct BatchPosition {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  // in the epoch
  bool operator==(const BatchPosition&) const = default;
};

enum class Prefetch : std::uint8_t {
  never,
  when_slow,  // from the moment on when three batches in a row took longer than 50 us each
  always
};

struct FeederOptions {
  std::shared_ptr<const Source> source;
  std::vector<FeedField> fields;
  std::int64_t batch_size = 32;
  bool shuffle = false;
  std::uint64_t seed = 0;
  BatchPosition start;                     // the first batch that is delivered
  std::int64_t epochs = -1;                // the epoch before which to end; -1: never
  bool lists_samples = false;              // HostBatch::samples, for who has the samples elsewhere
  std::vector<SharedMixing> augment = {};  // the source is then as `as_mixed` makes it
  Prefetch prefetch = Prefetch::when_slow;
};

/// This rank's part of one batch, in host memory.
struct HostBatch {
  BatchPosition position;
  std::int64_t rows = 0;                  // of the global batch
  std::size_t row_count_index = 0;        // which of `batch_row_counts` that is
  std::int64_t first_row = 0;             // position of the batch's row 0 in the epoch's order
  std::vector<const std::byte*> fields;   // in the order of FeederOptions::fields, 64-byte aligned
  std::vector<std::int64_t> bytes;        // of each field's block in this batch
  std::span<const std::int64_t> samples;  // of each row of the global batch, if they are listed
};

class Feeder {
 public:
  /// Prepares the source's fields (a damaged file is an error here) and takes memory for two
  /// batches, for one without prefetching. Throws `Error`: no rows, a batch size below 1, blocks
  /// that do not fit, a start beyond the epoch.
  explicit Feeder(FeederOptions options);
  ~Feeder();
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;

  [[nodiscard]] std::int64_t batches_per_epoch() const;

  /// The next batch, or null after the last epoch. It stays until the next call of `next` or
  /// `seek`. Throws what reading threw, and throws it again if called again.
  [[nodiscard]] const HostBatch* next();

  /// Makes `position` the next batch. What was prefetched is dropped; an error that was not yet
  /// thrown is forgotten.
  void seek(BatchPosition position);

 private:
  class Assembler;
  class Prefetcher;

  std::unique_ptr<Assembler> assembler_;
  std::unique_ptr<Prefetcher> prefetcher_;
};

}  // namespace meshwork
