#include "runtime/train/loop/joint_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/hosted.h"
#include "collectives/rank_names.h"
#include "runtime/data/sample_copy.h"

namespace meshwork {
namespace {

std::int64_t size_of(const BatchValues& values) {
  return std::visit([](const auto& span) { return static_cast<std::int64_t>(span.size()); },
                    values);
}

/// Throws what is wrong with this rank's batch.
void check_batch(const LocalBatch& batch, std::size_t inputs,
                 std::span<const std::int64_t> elements) {
  if (batch.rows < 0) fail("a batch has no fewer than 0 rows, found {}", batch.rows);
  if (batch.rows == 0) return;
  const std::size_t targets = elements.size() - inputs;
  if (batch.inputs.size() != inputs || batch.targets.size() != targets) {
    fail("a batch has {} inputs and {} targets, expected {} and {}", batch.inputs.size(),
         batch.targets.size(), inputs, targets);
  }
  const auto check = [&](const BatchValues& values, std::int64_t of_row, const char* what,
                         std::size_t number) {
    if (size_of(values) == batch.rows * of_row) return;
    fail("{} {} of {} rows has {} values, expected {} a row", what, number, batch.rows,
         size_of(values), of_row);
  };
  for (std::size_t i = 0; i < inputs; ++i) {
    check(batch.inputs[i], elements[i], "input", i);
  }
  for (std::size_t i = 0; i < targets; ++i) {
    check(batch.targets[i], elements[inputs + i], "target", i);
  }
  if (const std::int64_t weights = size_of(batch.weights); weights != 0 && weights != batch.rows) {
    fail("{} rows have {} weights, expected one a row", batch.rows, weights);
  }
}

/// Doubles as the floats nearest to them, which are infinite where they are too large.
std::int64_t to_floats(const std::byte* from, std::int64_t count, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    double value = 0;
    std::memcpy(&value, from + i * static_cast<std::int64_t>(sizeof value), sizeof value);
    const auto rounded = static_cast<float>(value);
    std::memcpy(to + i * static_cast<std::int64_t>(sizeof rounded), &rounded, sizeof rounded);
  }
  return count;
}

Range overlap(Range a, Range b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace

void count_jointly(const Communicator& ranks, const LocalBatch& batch, std::size_t inputs,
                   std::span<const std::int64_t> elements, const TracePoint& trace,
                   JointCounts& counts) {
  constexpr std::int64_t wrong = -1, plain = 0, weighted = 1;
  std::string problem;
  try {
    check_batch(batch, inputs, elements);
  } catch (const Error& error) {
    problem = error.what();
  }
  // Of a rank without rows nobody asks for weights.
  const std::array<std::int64_t, 2> own{batch.rows, !problem.empty()             ? wrong
                                                    : size_of(batch.weights) > 0 ? weighted
                                                                                 : plain};
  std::vector<std::array<std::int64_t, 2>>& all = counts.told;
  all.resize(static_cast<std::size_t>(ranks.size()));
  {
    const TracedCollective inside(trace);
    await_ranks(ranks);
    check_mpi(MPI_Allgather(own.data(), 2, MPI_INT64_T, all.data(), 2, MPI_INT64_T, ranks.native()),
              "MPI_Allgather");
  }
  if (std::ranges::any_of(all, [](const auto& one) { return one[1] == wrong; })) {
    together(ranks, [&] {
      if (!problem.empty()) throw Error(problem);
    });
  }
  counts.begins.assign(1, 0);
  int with = -1, without = -1;  // ranks
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    counts.begins.push_back(counts.begins.back() + all[rank][0]);
    if (all[rank][0] > 0) (all[rank][1] == weighted ? with : without) = static_cast<int>(rank);
  }
  if (counts.rows() == 0) fail("no rank has a row of this batch");
  if (with >= 0 && without >= 0) {
    fail("the rows of rank {} have weights, those of rank {} have none", name_of_rank(with),
         name_of_rank(without));
  }
  counts.weighted = with >= 0;
}

JointRows::JointRows(std::int64_t rows, std::vector<Field> fields, const Communicator& ranks,
                     TracePoint trace)
    : Source(rows, std::move(fields), "the ranks' rows"),
      ranks_(&ranks),
      trace_(std::move(trace)),
      held_(static_cast<std::size_t>(field_count())),
      send_counts_(static_cast<std::size_t>(ranks.size())),
      send_offsets_(send_counts_),
      receive_counts_(send_counts_),
      receive_offsets_(send_counts_) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();  // of MPI's counts
  for (const Field& field : this->fields()) {
    if (rows > most / std::max<std::int64_t>(1, element_count(field.shape))) {
      fail("{} rows of the shape {} are more than the {} values that ranks can have together", rows,
           to_string(field.shape), most);
    }
  }
}

void JointRows::expect(const std::vector<Range>& needed) {
  const auto own = static_cast<std::size_t>(ranks_->rank());
  for (std::size_t field = 0; field < held_.size(); ++field) {
    Held& held = held_[field];
    held.needed.resize(static_cast<std::size_t>(ranks_->size()));
    held.needed[own] = needed[field];
    await_ranks(*ranks_);
    check_mpi(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, held.needed.data(), 2, MPI_INT64_T,
                            ranks_->native()),
              "MPI_Allgather");
  }
}

void JointRows::take(const LocalBatch& batch, const JointCounts& counts) {
  first_row_ = counts.begins[static_cast<std::size_t>(ranks_->rank())];
  std::size_t field = 0;
  const auto one = [&](std::span<const BatchValues> values, std::size_t i) {
    const BatchValues none;
    exchange(held_[field], i < values.size() ? values[i] : none, counts,
             element_count(this->field(static_cast<int>(field)).shape));
    ++field;
  };
  for (int i = 0; i < feature_count(); ++i) one(batch.inputs, static_cast<std::size_t>(i));
  for (int i = 0; i < target_count(); ++i) one(batch.targets, static_cast<std::size_t>(i));
  if (counts.weighted) one({&batch.weights, 1}, 0);
}

void JointRows::exchange(Held& held, const BatchValues& own, const JointCounts& counts,
                         std::int64_t elements) {
  const auto rows_of = [&](std::size_t rank) {
    return Range{counts.begins[rank], counts.begins[rank + 1]};
  };
  const auto me = static_cast<std::size_t>(ranks_->rank());
  held.is_double = std::holds_alternative<std::span<const double>>(own);
  held.values = std::visit([](const auto& span) -> const void* { return span.data(); }, own);
  held.first = rows_of(me).begin;
  bool travels = false;
  for (std::size_t rank = 0; rank < held.needed.size(); ++rank) {
    const Range has = rows_of(rank), needs = held.needed[rank];
    travels |= needs.begin < needs.end && (needs.begin < has.begin || needs.end > has.end);
  }
  if (!travels) return;

  if (held.is_double) {
    const auto& doubles = std::get<std::span<const double>>(own);
    held.sent.resize(doubles.size());
    (void)to_floats(reinterpret_cast<const std::byte*>(doubles.data()),
                    static_cast<std::int64_t>(doubles.size()),
                    reinterpret_cast<std::byte*>(held.sent.data()));
    held.values = held.sent.data();
    held.is_double = false;
  }
  held.received.resize(static_cast<std::size_t>(held.needed[me].length() * elements));
  const auto values_of = [&](std::int64_t rows) { return static_cast<int>(rows * elements); };
  for (std::size_t rank = 0; rank < held.needed.size(); ++rank) {
    const Range sends = overlap(rows_of(me), held.needed[rank]);
    const Range receives = overlap(rows_of(rank), held.needed[me]);
    send_counts_[rank] = values_of(sends.length());
    send_offsets_[rank] = values_of(sends.length() > 0 ? sends.begin - rows_of(me).begin : 0);
    receive_counts_[rank] = values_of(receives.length());
    receive_offsets_[rank] =
        values_of(receives.length() > 0 ? receives.begin - held.needed[me].begin : 0);
  }
  const TracedCollective inside(trace_);
  await_ranks(*ranks_);
  check_mpi(MPI_Alltoallv(held.values, send_counts_.data(), send_offsets_.data(), MPI_FLOAT,
                          held.received.data(), receive_counts_.data(), receive_offsets_.data(),
                          MPI_FLOAT, ranks_->native()),
            "MPI_Alltoallv of the rows of a batch");
  held.values = held.received.data();
  held.first = held.needed[me].begin;
}

void JointRows::read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                          std::byte* destination) const {
  const Held& held = held_[static_cast<std::size_t>(field)];
  std::int64_t bytes = sizeof(float);
  for (const Range& range : block) bytes *= range.length();
  const StoredElements elements = held.is_double
                                      ? StoredElements{sizeof(double), sizeof(float), to_floats}
                                      : StoredElements{sizeof(float), sizeof(float)};
  for (const std::int64_t row : rows) {
    const std::int64_t own = row - held.first;
    copy_samples(static_cast<const std::byte*>(held.values), this->field(field).shape, elements,
                 {&own, 1}, block, destination);
    destination += bytes;
  }
}

}  // namespace meshwork
