#include "runtime/data/sample_copy.h"

#include <algorithm>
#include <cstring>

namespace meshwork {

namespace {

// Shuffled samples lie all over the memory: no processor knows which comes next.
constexpr std::size_t rows_ahead = 2;

void fetch(const std::byte* sample, std::int64_t bytes) {
  constexpr std::int64_t line_bytes = 64, most_bytes = 4096;
  for (std::int64_t at = 0; at < std::min(bytes, most_bytes); at += line_bytes) {
    __builtin_prefetch(sample + at);
  }
}

/// Where an element stands that samples cannot hold.
struct UnfitStored {
  const std::byte* place;
};

/// Copies `count` elements that lie together; returns the end of what was written.
std::byte* copy_run(const StoredElements& elements, const std::byte* source, std::int64_t count,
                    std::byte* destination) {
  if (elements.convert == nullptr) {
    std::memcpy(destination, source, static_cast<std::size_t>(count * elements.bytes));
  } else if (const std::int64_t done = elements.convert(source, count, destination); done < count) {
    throw UnfitStored{source + done * elements.stored_bytes};
  }
  return destination + count * elements.bytes;
}

/// The copy of one sample: dimensions before `run_dimension` are walked, the rest is one run.
struct BoxCopy {
  const Shape& shape;
  const StoredElements& elements;
  const Block& block;
  std::size_t run_dimension = 0;
  std::int64_t run_elements = 0;

  /// Copies what lies below `dimension`; `source` is the sample's part at index 0 of it, which is
  /// `bytes` long. Returns the end of what was written.
  std::byte* copy(std::size_t dimension, const std::byte* source, std::int64_t bytes,
                  std::byte* destination) const {
    const std::int64_t step = bytes / shape[dimension];
    source += block[dimension].begin * step;
    if (dimension == run_dimension) return copy_run(elements, source, run_elements, destination);
    for (std::int64_t i = 0; i < block[dimension].length(); ++i) {
      destination = copy(dimension + 1, source + i * step, step, destination);
    }
    return destination;
  }
};

void copy(const std::byte* samples, const Shape& shape, const StoredElements& elements,
          std::span<const std::int64_t> rows, const Block& block, std::byte* destination) {
  if (size_of(block) == 0) return;
  const std::int64_t sample_elements = element_count(shape);
  const std::int64_t sample_bytes = sample_elements * elements.stored_bytes;
  if (size_of(block) == sample_elements) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i + rows_ahead < rows.size()) {
        fetch(samples + rows[i + rows_ahead] * sample_bytes, sample_bytes);
      }
      destination =
          copy_run(elements, samples + rows[i] * sample_bytes, sample_elements, destination);
    }
    return;
  }
  BoxCopy box{shape, elements, block, shape.size() - 1, 1};
  while (block[box.run_dimension].length() == shape[box.run_dimension]) {
    box.run_elements *= shape[box.run_dimension];
    --box.run_dimension;
  }
  box.run_elements *= block[box.run_dimension].length();
  for (const std::int64_t row : rows) {
    destination = box.copy(0, samples + row * sample_bytes, sample_bytes, destination);
  }
}

}  // namespace

void copy_samples(const std::byte* samples, const Shape& shape, const StoredElements& elements,
                  std::span<const std::int64_t> rows, const Block& block, std::byte* destination) {
  try {
    copy(samples, shape, elements, rows, block, destination);
  } catch (const UnfitStored& unfit) {
    const std::int64_t element = (unfit.place - samples) / elements.stored_bytes;
    double value = 0;
    std::memcpy(&value, unfit.place, sizeof value);
    throw UnfitElement{element / element_count(shape), element % element_count(shape), value};
  }
}

}  // namespace meshwork
