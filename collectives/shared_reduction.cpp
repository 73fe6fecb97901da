#include "collectives/shared_reduction.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "collectives/error.h"
#include "collectives/with_type.h"

namespace meshwork {

namespace {

// Blocks that stay in the first-level cache while more sources are added and results handed out.
constexpr std::int64_t block_bytes = 8192;
constexpr std::size_t most_sources_at_once = 4;

template <class T>
struct Sum {
  static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(
          static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
    } else {
      return a + b;
    }
  }
};

// NaN is the maximum and the minimum, whichever side it is on.
template <class T>
struct Maximum {
  static T of(T a, T b) { return a < b || b != b ? b : a; }
};

template <class T>
struct Minimum {
  static T of(T a, T b) { return b < a || b != b ? b : a; }
};

// The destination may be the same as a source, but never lies askew to one: no element depends on
// another.
template <class T, class Operation>
void combine(const T* a, const T* b, T* to, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) to[i] = Operation::of(a[i], b[i]);
}
template <class T, class Operation>
void combine(const T* a, const T* b, const T* c, T* to, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) to[i] = Operation::of(Operation::of(a[i], b[i]), c[i]);
}
template <class T, class Operation>
void combine(const T* a, const T* b, const T* c, const T* d, T* to, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = Operation::of(Operation::of(Operation::of(a[i], b[i]), c[i]), d[i]);
  }
}

/// Sources through `source(s)`, first elements included.
template <class T, class Operation, class Source>
void reduce_block(std::size_t sources, const Source& source, T* to, std::int64_t count) {
  static_assert(most_sources_at_once == 4);
  const T* first = source(0);
  std::size_t next = 1;
  if (sources == 1) std::memmove(to, first, static_cast<std::size_t>(count) * sizeof(T));
  for (; next < sources; first = to) {
    const std::size_t left = sources - next;
    if (left == 1) {
      combine<T, Operation>(first, source(next), to, count);
    } else if (left == 2) {
      combine<T, Operation>(first, source(next), source(next + 1), to, count);
    } else {
      combine<T, Operation>(first, source(next), source(next + 1), source(next + 2), to, count);
    }
    next += std::min<std::size_t>(left, 3);
  }
}

template <class T, class Operation>
void reduce_typed(std::span<const std::byte* const> sources, std::byte* destination,
                  std::int64_t count) {
  // Up to four sources are read in one go, for which blocks would be in the way. The destination
  // must not be a later source that is still needed, which a block in between keeps true.
  const auto element = [&](std::size_t s) { return reinterpret_cast<const T*>(sources[s]); };
  T* to = reinterpret_cast<T*>(destination);
  if (sources.size() <= most_sources_at_once) {
    reduce_block<T, Operation>(sources.size(), element, to, count);
    return;
  }
  constexpr std::int64_t block = block_bytes / static_cast<std::int64_t>(sizeof(T));
  alignas(64) T sums[block];
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t length = std::min(block, count - begin);
    reduce_block<T, Operation>(
        sources.size(), [&](std::size_t s) { return element(s) + begin; }, sums, length);
    std::memcpy(to + begin, sums, static_cast<std::size_t>(length) * sizeof(T));
  }
}

template <class T, class Operation>
void reduce_everywhere_typed(std::span<std::byte* const> buffers, std::int64_t begin,
                             std::int64_t count) {
  constexpr std::int64_t block = block_bytes / static_cast<std::int64_t>(sizeof(T));
  alignas(64) T sums[block];
  for (std::int64_t at = begin; at < begin + count; at += block) {
    const std::int64_t length = std::min(block, begin + count - at);
    const auto element = [&](std::size_t s) { return reinterpret_cast<T*>(buffers[s]) + at; };
    reduce_block<T, Operation>(buffers.size(), element, sums, length);
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      std::memcpy(element(b), sums, static_cast<std::size_t>(length) * sizeof(T));
    }
  }
}

/// Calls `action.template operator()<T, Operation>()`.
template <class Action>
void with_operation(ElementType type, Reduction reduction, const Action& action) {
  const auto typed = [&]<class T>(T) {
    switch (reduction) {
      case Reduction::sum:
        return action.template operator()<T, Sum<T>>();
      case Reduction::maximum:
        return action.template operator()<T, Maximum<T>>();
      case Reduction::minimum:
        return action.template operator()<T, Minimum<T>>();
    }
    internal_error("a reduction that shared memory was not told of");
  };
  with_type(type, typed);
}

}  // namespace

void reduce_elements(ElementType type, Reduction reduction,
                     std::span<const std::byte* const> sources, std::byte* destination,
                     std::int64_t count) {
  with_operation(type, reduction, [&]<class T, class Operation>() {
    reduce_typed<T, Operation>(sources, destination, count);
  });
}

void reduce_everywhere(ElementType type, Reduction reduction, std::span<std::byte* const> buffers,
                       std::int64_t begin, std::int64_t count) {
  with_operation(type, reduction, [&]<class T, class Operation>() {
    reduce_everywhere_typed<T, Operation>(buffers, begin, count);
  });
}

}  // namespace meshwork
