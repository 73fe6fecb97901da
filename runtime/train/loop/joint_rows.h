// JointRows: a global batch of rows that the ranks have, each some of its own.
//
// The batch is the rows of all ranks, one after the other in the order of the ranks. Which rows a rank
// needs follows from the plan: those of its block of each input and target. Where they are just the
// rows that it has, on all ranks, they are read where they lie. Else rows travel before the step,
// each from the rank that has it to all that need it: one MPI_Alltoallv a field.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/trace.h"
#include "runtime/data/source.h"
#include "runtime/train/model.h"

namespace meshwork {

/// What the ranks have of one batch, the same on all ranks.
struct JointCounts {
  std::vector<std::int64_t> begins;  // the first row of each rank, and behind them all: rows
  bool weighted = false;             // whether rows have weights
  std::vector<std::array<std::int64_t, 2>>
      told;  // by each rank, kept so that a count allocates once
  [[nodiscard]] std::int64_t rows() const { return begins.back(); }
};

/// Sets `counts` to those of `batch`. Collective. Throws on all ranks if a rank's batch is not as the
/// model, which has so many inputs and targets, takes it: fields of `elements` values a row, inputs
/// first.
void count_jointly(const Communicator& ranks, const LocalBatch& batch, std::size_t inputs,
                   std::span<const std::int64_t> elements, const TracePoint& trace,
                   JointCounts& counts);

class JointRows final : public Source {
 public:
  JointRows(std::int64_t rows, std::vector<Field> fields, const Communicator& ranks,
            TracePoint trace);

  /// This rank will read the rows `needed`, by field. Collective, once.
  void expect(const std::vector<Range>& needed);
  /// Takes the values of the next batch, which stay where they are until the step is over.
  /// Collective.
  void take(const LocalBatch& batch, const JointCounts& counts);

  /// The row of the batch that this rank's own begin with.
  [[nodiscard]] std::int64_t first_row() const { return first_row_; }

  [[nodiscard]] std::string fingerprint() const override { return "rows of the ranks"; }

 private:
  struct Held {
    std::vector<Range> needed;    // rows, by rank
    std::vector<float> received;  // those that this rank needs, where rows travel
    std::vector<float> sent;      // converted
    const void* values = nullptr;
    bool is_double = false;
    std::int64_t first = 0;  // row of the batch
  };
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override;
  void exchange(Held& held, const BatchValues& own, const JointCounts& counts,
                std::int64_t elements);

  const Communicator* ranks_;
  TracePoint trace_;
  std::int64_t first_row_ = 0;
  std::vector<Held> held_;  // by field
  std::vector<int> send_counts_, send_offsets_, receive_counts_, receive_offsets_;
};

}  // namespace meshwork
