// The forms of loop of runtime/device/cuda/launch.h, run on the host: same interface, same order of
// additions. The kernels of the CUDA device, compiled against this header, run without a GPU, and
// are tested by the tests of all devices.
//
// Elements are visited last to first, and rows and columns too: no thread may count on another one
// having been there before.
//
// Teams of a block leave values in one memory, as on the GPU, where they run at their own pace. A
// team that touches a byte which another one has left a value in ends the process: some order of
// warps would lose that value.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "runtime/device/cuda/launcher.h"
#include "runtime/device/cuda/parts.h"
#include "runtime/device/cuda/team_memory.h"
#include "runtime/device/folds.h"

#define MESHWORK_DEVICE

namespace meshwork::cuda {

template <class Body>
void for_elements(const Launcher&, std::int64_t count, const Body& body) {
  for (std::int64_t i = count; i-- > 0;) body(i);
}

template <class Prepare, class Body>
void for_elements_prepared(const Launcher&, std::int64_t count, const Prepare& prepare,
                           const Body& body) {
  if (count <= 0) return;
  const typename Prepare::Result result = prepare();
  for (std::int64_t i = count; i-- > 0;) body(i, result);
}

namespace launching {

template <int group, class Reduction>
void rows(std::int64_t count, const Reduction& reduction) {
  using Fold = typename Reduction::Fold;
  using Value = typename Fold::Value;
  for (std::int64_t row = count; row-- > 0;) {
    std::array<Value, static_cast<std::size_t>(group)> values{};
    const std::int64_t columns = reduction.columns(row);
    for (int lane = group; lane-- > 0;) {
      Value value = Fold::identity();
      for (std::int64_t j = lane; j < columns; j += group) {
        value = Fold::combine(value, reduction.term(row, j));
      }
      values[static_cast<std::size_t>(lane)] = value;
    }
    for (int half = group / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) {
        Value& value = values[static_cast<std::size_t>(lane)];
        value = Fold::combine(value, values[static_cast<std::size_t>(lane + half)]);
      }
    }
    reduction.finish(row, values[0]);
  }
}

/// A block's memory, and which team each byte of it belongs to.
struct BlockMemory {
  TeamMemory memory;
  std::array<int, sizeof(TeamMemory::bytes)> first_thread_of_owner;

  BlockMemory() { first_thread_of_owner.fill(-1); }
  /// The values of a team, which no other team of the block has.
  template <int group, class Value>
  Value* take(int first) {
    auto* const values = team_values<group, Value>(memory, first);
    const auto begin = reinterpret_cast<unsigned char*>(values) - memory.bytes;
    const auto end = begin + static_cast<std::ptrdiff_t>(group * sizeof(Value));
    for (std::ptrdiff_t i = begin; i < end; ++i) {
      int& owner = first_thread_of_owner.at(static_cast<std::size_t>(i));
      if (owner != -1 && owner != first) {
        std::fputs("two teams of a block leave values in the same bytes of its memory\n", stderr);
        std::abort();
      }
      owner = first;
    }
    return values;
  }
};

template <int group>
class Team {
 public:
  /// Of the threads [first, first + group) of a block.
  Team(BlockMemory& memory, int first) : memory_(&memory), first_(first) {}

  template <class Fold, class Term>
  typename Fold::Value reduce(std::int64_t columns, const Term& term) const {
    using Value = typename Fold::Value;
    Value* const values = memory_->take<group, Value>(first_);
    for (int lane = group; lane-- > 0;) {
      Value value = Fold::identity();
      for (std::int64_t j = lane; j < columns; j += group) value = Fold::combine(value, term(j));
      new (values + lane) Value(value);
    }
    for (int half = group / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) {
        values[lane] = Fold::combine(values[lane], values[lane + half]);
      }
    }
    return values[0];
  }
  template <class Body>
  void each(std::int64_t columns, const Body& body) const {
    for (std::int64_t j = columns; j-- > 0;) body(j);
  }
  [[nodiscard]] bool leads() const { return true; }

 private:
  BlockMemory* memory_;
  int first_;
};

template <int group, class Body>
void teams(std::int64_t count, const Body& body) {
  constexpr int rows_a_block = block_threads / group;
  for (std::int64_t first = (count - 1) / rows_a_block * rows_a_block; first >= 0;
       first -= rows_a_block) {
    BlockMemory memory;
    for (int team = rows_a_block; team-- > 0;) {
      if (first + team < count) body(first + team, Team<group>(memory, team * group));
    }
  }
}

/// What thread (line, lane) of one block adds up.
template <class Terms>
PairOfSums line_sum(const ColumnParts& parts, const Terms& terms, std::int64_t part,
                    std::int64_t column, int line) {
  PairOfSums sum{0, 0};
  const std::int64_t begin = part * parts.rows_a_part;
  const std::int64_t end = std::min(begin + parts.rows_a_part, parts.rows);
  for (std::int64_t row = begin + line; row < end; row += parts.deep) {
    const PairOfSums term = terms.term(row, column);
    sum.first += term.first;
    sum.second += term.second;
  }
  return sum;
}

}  // namespace launching

template <class Reduction>
void reduce_rows(const Launcher&, std::int64_t rows, std::int64_t longest,
                 const Reduction& reduction) {
  if (longest <= narrow_columns) {
    launching::rows<narrow_group>(rows, reduction);
  } else {
    launching::rows<block_threads>(rows, reduction);
  }
}

template <class Body>
void for_teams(const Launcher&, std::int64_t rows, std::int64_t longest, const Body& body) {
  if (rows <= 0) return;
  if (longest <= narrow_columns) {
    launching::teams<narrow_group>(rows, body);
  } else {
    launching::teams<block_threads>(rows, body);
  }
}

template <class Body, class End>
void for_teams_then(const Launcher& launcher, std::int64_t rows, std::int64_t longest,
                    const Body& body, const End& end, unsigned* done) {
  for_teams(launcher, rows, longest, body);
  if (*done != 0) std::abort();  // it is not that of this kernel alone
  launching::BlockMemory memory;
  end(launching::Team<block_threads>(memory, 0));
}

template <class Terms>
void sum_column_parts(const Launcher&, const ColumnParts& parts, const Terms& terms,
                      PairOfSums* partial) {
  for (std::int64_t part = parts.parts; part-- > 0;) {
    for (std::int64_t column = parts.columns; column-- > 0;) {
      std::array<PairOfSums, static_cast<std::size_t>(block_threads)> lines{};
      for (int line = 0; line < parts.deep; ++line) {
        lines[static_cast<std::size_t>(line)] =
            launching::line_sum(parts, terms, part, column, line);
      }
      for (int live = parts.deep; live > 1; live = (live + 1) / 2) {
        const int half = (live + 1) / 2;
        for (int line = 0; line + half < live; ++line) {
          lines[static_cast<std::size_t>(line)].first +=
              lines[static_cast<std::size_t>(line + half)].first;
          lines[static_cast<std::size_t>(line)].second +=
              lines[static_cast<std::size_t>(line + half)].second;
        }
      }
      if (partial == nullptr) {
        terms.finish(column, lines[0]);
      } else {
        partial[part * parts.columns + column] = lines[0];
      }
    }
  }
}

inline void copy_bytes(const Launcher&, void* destination, const void* source, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(destination, source, static_cast<std::size_t>(bytes));
}

inline void zero_bytes(const Launcher&, void* destination, std::int64_t bytes) {
  if (bytes > 0) std::memset(destination, 0, static_cast<std::size_t>(bytes));
}

}  // namespace meshwork::cuda
