// The forms of loop that our kernels are made of, and their launches.
//
//   for_elements           body(i) for each i
//   for_elements_prepared  body(i, prepare()), prepare called once a block: what every element
//                          needs and only the device knows
//   reduce_rows            for each row, terms of its columns combined to one value
//   for_teams              body(row, team) for each row, by a team of threads that can combine
//                          several values of its columns, one after the other
//   for_teams_then         the same, then end(team) by one team, when all rows are done
//   reduce_columns         for each column, the sums of two terms over its rows, in double
//
// No order of additions depends on the GPU, only on the shape. Functions handed over are objects
// whose members are plain values and pointers into device memory; they are copied to the device
// with the launch. tests/support/cuda_on_host holds the same as loops, in the same order.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/device/cuda/launcher.h"
#include "runtime/device/cuda/parts.h"
#include "runtime/device/cuda/team_memory.h"
#include "runtime/device/folds.h"

/// What only a thread on the GPU can call: who uses a team.
#define MESHWORK_DEVICE __device__

namespace meshwork::cuda {

namespace launching {

/// `group` threads of a block, side by side, that do the same thing at the same time: a warp, or
/// all. All of them call each function.
template <int group>
class Team {
 public:
  __device__ explicit Team(TeamMemory& memory) : memory_(&memory) {}

  /// term(j) over the columns by `Fold` (folds.h): each thread combines every group-th, then halves
  /// combine.
  /// Every thread gets it.
  template <class Fold, class Term>
  __device__ typename Fold::Value reduce(std::int64_t columns, const Term& term) const {
    using Value = typename Fold::Value;
    const int thread = lane();
    Value* const values =
        team_values<group, Value>(*memory_, static_cast<int>(threadIdx.x) - thread);
    Value value = Fold::identity();
    for (std::int64_t j = thread; j < columns; j += group) value = Fold::combine(value, term(j));
    synchronize();  // who still reads what stood there
    values[thread] = value;
    for (int half = group / 2; half > 0; half /= 2) {
      synchronize();
      if (thread < half) values[thread] = Fold::combine(values[thread], values[thread + half]);
    }
    synchronize();
    return values[0];
  }
  /// body(j) for each column, a thread every group-th: those whose term it gave.
  template <class Body>
  __device__ void each(std::int64_t columns, const Body& body) const {
    for (std::int64_t j = lane(); j < columns; j += group) body(j);
  }
  /// One of the threads.
  [[nodiscard]] __device__ bool leads() const { return lane() == 0; }

 private:
  [[nodiscard]] __device__ static int lane() { return static_cast<int>(threadIdx.x) % group; }
  __device__ static void synchronize() {
    static_assert(group == 32 || group == block_threads, "a warp, or all threads of the block");
    if constexpr (group == 32) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }

  TeamMemory* memory_;
};

[[nodiscard]] inline cudaStream_t stream_of(const Launcher& launcher) {
  return static_cast<cudaStream_t>(launcher.stream);
}

/// Blocks for `tasks` blocks' worth of work: no more than keep the GPU full, the rest in a loop.
[[nodiscard]] inline unsigned block_count(const Launcher& launcher, std::int64_t tasks) {
  constexpr std::int64_t blocks_a_processor = 32;
  return static_cast<unsigned>(
      std::clamp<std::int64_t>(tasks, 1, blocks_a_processor * launcher.processors));
}

[[nodiscard]] __device__ inline std::int64_t first_element() {
  return static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
}
[[nodiscard]] __device__ inline std::int64_t element_stride() {
  return static_cast<std::int64_t>(gridDim.x) * block_threads;
}

template <class Body>
__global__ void __launch_bounds__(block_threads) elements(std::int64_t count, Body body) {
  for (std::int64_t i = first_element(); i < count; i += element_stride()) body(i);
}

template <class Prepare, class Body>
__global__ void __launch_bounds__(block_threads)
    prepared_elements(std::int64_t count, Prepare prepare, Body body) {
  __shared__ typename Prepare::Result result;
  if (threadIdx.x == 0) result = prepare();
  __syncthreads();
  for (std::int64_t i = first_element(); i < count; i += element_stride()) body(i, result);
}

/// `group` threads a row: each combines every group-th column, then halves combine.
template <int group, class Reduction>
__global__ void __launch_bounds__(block_threads) rows(std::int64_t count, Reduction reduction) {
  using Fold = typename Reduction::Fold;
  using Value = typename Fold::Value;
  __shared__ Value values[block_threads];
  constexpr int rows_a_block = block_threads / group;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % group;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * rows_a_block; first < count;
       first += static_cast<std::int64_t>(gridDim.x) * rows_a_block) {
    const std::int64_t row = first + thread / group;
    Value value = Fold::identity();
    if (row < count) {
      const std::int64_t columns = reduction.columns(row);
      for (std::int64_t j = lane; j < columns; j += group) {
        value = Fold::combine(value, reduction.term(row, j));
      }
    }
    values[thread] = value;
    for (int half = group / 2; half > 0; half /= 2) {
      __syncthreads();
      if (lane < half) values[thread] = Fold::combine(values[thread], values[thread + half]);
    }
    if (lane == 0 && row < count) reduction.finish(row, values[thread]);
    __syncthreads();  // before the values of the next rows
  }
}

template <int group, class Body>
__device__ void team_rows(std::int64_t count, const Body& body, TeamMemory& memory) {
  const Team<group> team(memory);
  constexpr int rows_a_block = block_threads / group;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * rows_a_block +
                          static_cast<int>(threadIdx.x) / group;
       row < count; row += static_cast<std::int64_t>(gridDim.x) * rows_a_block) {
    body(row, team);
  }
}

template <int group, class Body>
__global__ void __launch_bounds__(block_threads) teams(std::int64_t count, Body body) {
  __shared__ TeamMemory memory;
  team_rows<group>(count, body, memory);
}

/// `done` counts the blocks that are; the last one finds what all have written, ends, and leaves 0
/// for the next launch.
template <int group, class Body, class End>
__global__ void __launch_bounds__(block_threads)
    teams_then(std::int64_t count, Body body, End end, unsigned* done) {
  __shared__ TeamMemory memory;
  __shared__ bool last;
  team_rows<group>(count, body, memory);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(done, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  if (threadIdx.x == 0) *done = 0;
  end(Team<block_threads>(memory));
}

/// Blocks whose teams take a row each.
template <int group>
[[nodiscard]] inline unsigned team_blocks(const Launcher& launcher, std::int64_t rows) {
  constexpr int rows_a_block = block_threads / group;
  return block_count(launcher, (rows + rows_a_block - 1) / rows_a_block);
}

/// A tile of columns over a part of the rows. Thread (line, lane) adds up every deep-th row of one
/// column, then lines are added to those half as far down.
template <class Terms>
__global__ void __launch_bounds__(block_threads)
    columns(ColumnParts parts, Terms terms, PairOfSums* partial) {
  __shared__ PairOfSums sums[block_threads];
  const int thread = static_cast<int>(threadIdx.x);
  const int line = thread / parts.width, lane = thread % parts.width;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * parts.width + lane;
  const bool mine = line < parts.deep && column < parts.columns;
  PairOfSums sum{0, 0};
  if (mine) {
    const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * parts.rows_a_part;
    const std::int64_t behind = begin + parts.rows_a_part;
    const std::int64_t end = behind < parts.rows ? behind : parts.rows;
    for (std::int64_t row = begin + line; row < end; row += parts.deep) {
      const PairOfSums term = terms.term(row, column);
      sum.first += term.first;
      sum.second += term.second;
    }
  }
  sums[thread] = sum;
  for (int live = parts.deep; live > 1; live = (live + 1) / 2) {
    __syncthreads();
    const int half = (live + 1) / 2;
    if (line + half < live) {
      sums[thread].first += sums[thread + half * parts.width].first;
      sums[thread].second += sums[thread + half * parts.width].second;
    }
  }
  if (!mine || line != 0) return;
  if (partial == nullptr) {
    terms.finish(column, sums[thread]);
  } else {
    partial[static_cast<std::int64_t>(blockIdx.y) * parts.columns + column] = sums[thread];
  }
}

}  // namespace launching

/// body(i) for i in [0, count). A thread takes every so-many-th element: neighbouring threads touch
/// neighbouring elements.
template <class Body>
void for_elements(const Launcher& launcher, std::int64_t count, const Body& body) {
  if (count <= 0) return;
  const unsigned blocks =
      launching::block_count(launcher, (count + block_threads - 1) / block_threads);
  launching::elements<<<blocks, block_threads, 0, launching::stream_of(launcher)>>>(count, body);
  check_launch(launcher);
}

/// The same with the result of `prepare`, a plain value of type Prepare::Result.
template <class Prepare, class Body>
void for_elements_prepared(const Launcher& launcher, std::int64_t count, const Prepare& prepare,
                           const Body& body) {
  if (count <= 0) return;
  const unsigned blocks =
      launching::block_count(launcher, (count + block_threads - 1) / block_threads);
  launching::prepared_elements<<<blocks, block_threads, 0, launching::stream_of(launcher)>>>(
      count, prepare, body);
  check_launch(launcher);
}

/// For each row: finish(row, v), where v has term(row, j) of all j in [0, columns(row)), by the fold
/// Reduction::Fold (folds.h). `longest` is the largest number of columns: rows of up to `narrow_columns`
/// are a warp's each, longer ones a block's.
template <class Reduction>
void reduce_rows(const Launcher& launcher, std::int64_t rows, std::int64_t longest,
                 const Reduction& reduction) {
  if (rows <= 0) return;
  const cudaStream_t stream = launching::stream_of(launcher);
  if (longest <= narrow_columns) {
    constexpr int rows_a_block = block_threads / narrow_group;
    const unsigned blocks =
        launching::block_count(launcher, (rows + rows_a_block - 1) / rows_a_block);
    launching::rows<narrow_group><<<blocks, block_threads, 0, stream>>>(rows, reduction);
  } else {
    const unsigned blocks = launching::block_count(launcher, rows);
    launching::rows<block_threads><<<blocks, block_threads, 0, stream>>>(rows, reduction);
  }
  check_launch(launcher);
}

/// body(row, team) for each row. `longest` is the largest number of columns, which says how many
/// threads a team has, as in reduce_rows. A team reduces as reduce_rows does.
template <class Body>
void for_teams(const Launcher& launcher, std::int64_t rows, std::int64_t longest,
               const Body& body) {
  if (rows <= 0) return;
  const cudaStream_t stream = launching::stream_of(launcher);
  if (longest <= narrow_columns) {
    const unsigned blocks = launching::team_blocks<narrow_group>(launcher, rows);
    launching::teams<narrow_group><<<blocks, block_threads, 0, stream>>>(rows, body);
  } else {
    const unsigned blocks = launching::team_blocks<block_threads>(launcher, rows);
    launching::teams<block_threads><<<blocks, block_threads, 0, stream>>>(rows, body);
  }
  check_launch(launcher);
}

/// The same, then end(team), once, with a team that sees all that the others wrote; in one launch.
/// `done`, in the device's memory, is 0 and comes back as 0: no two launches at a time share one.
template <class Body, class End>
void for_teams_then(const Launcher& launcher, std::int64_t rows, std::int64_t longest,
                    const Body& body, const End& end, unsigned* done) {
  const cudaStream_t stream = launching::stream_of(launcher);
  if (longest <= narrow_columns) {
    const unsigned blocks = launching::team_blocks<narrow_group>(launcher, rows);
    launching::teams_then<narrow_group>
        <<<blocks, block_threads, 0, stream>>>(rows, body, end, done);
  } else {
    const unsigned blocks = launching::team_blocks<block_threads>(launcher, rows);
    launching::teams_then<block_threads>
        <<<blocks, block_threads, 0, stream>>>(rows, body, end, done);
  }
  check_launch(launcher);
}

/// One pass of sums over columns: into `partial` (parts, columns), or finished if that is null.
template <class Terms>
void sum_column_parts(const Launcher& launcher, const ColumnParts& parts, const Terms& terms,
                      PairOfSums* partial) {
  const dim3 grid(static_cast<unsigned>(parts.tiles()), static_cast<unsigned>(parts.parts));
  launching::columns<<<grid, block_threads, 0, launching::stream_of(launcher)>>>(parts, terms,
                                                                                 partial);
  check_launch(launcher);
}

/// destination = source, `bytes` of them, both in device memory and apart.
inline void copy_bytes(const Launcher& launcher, void* destination, const void* source,
                       std::int64_t bytes) {
  if (bytes <= 0) return;
  // A failure is found, and cleared, by the check behind it.
  static_cast<void>(cudaMemcpyAsync(destination, source, static_cast<std::size_t>(bytes),
                                    cudaMemcpyDeviceToDevice, launching::stream_of(launcher)));
  check_launch(launcher);
}

inline void zero_bytes(const Launcher& launcher, void* destination, std::int64_t bytes) {
  if (bytes <= 0) return;
  static_cast<void>(cudaMemsetAsync(destination, 0, static_cast<std::size_t>(bytes),
                                    launching::stream_of(launcher)));
  check_launch(launcher);
}

}  // namespace meshwork::cuda
