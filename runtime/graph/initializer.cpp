// How a number comes from an index. Element i of the whole variable, counted row-major, has 52
// random bits: words 2 (i mod 2) and the next one of Philox's block i / 2 at the stream's step, the
// first of them the higher, without the lowest 12 of their 64 bits. With n these bits as a number,
// u = (n + 1/2) / 2^52 lies strictly between 0 and 1 and is exact in double precision. A normal
// number is the normal distribution's inverse at u, a truncated one its inverse at P(-2) + (P(2) -
// P(-2)) * u. Everything is computed in double precision and rounded to float32 at the end.
#include "runtime/graph/initializer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/normal_quantile.h"
#include "runtime/device/philox.h"

namespace meshwork {
namespace {

// P(-2), the normal distribution below -2.
constexpr double below_minus_two = 0.022750131948179207;

Fans fans_of_shape(const Shape& shape) {
  const std::size_t count = shape.size();
  if (count == 0) {
    return {1, 1};
  }
  if (count == 1) {
    return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  }
  const double field = static_cast<double>(element_count(std::span(shape).first(count - 2)));
  return {static_cast<double>(shape[count - 2]) * field,
          static_cast<double>(shape[count - 1]) * field};
}

}  // namespace

RandomNumbers::RandomNumbers(std::uint64_t key, std::uint64_t stream)
    : key_(key), stream_(stream), words_(philox(key, 0, stream)) {}

// One block serves two elements.
double RandomNumbers::uniform(std::int64_t index) {
  const auto element = static_cast<std::uint64_t>(index);
  if (element / 2 != block_) {
    block_ = element / 2;
    words_ = philox(key_, block_, stream_);
  }
  const std::size_t first = 2 * (element % 2);
  const std::uint64_t bits = (std::uint64_t{words_[first]} << 32 | words_[first + 1]) >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

double RandomNumbers::normal(std::int64_t index) {
  return normal_quantile(uniform(index));
}

double RandomNumbers::truncated_normal(std::int64_t index) {
  return normal_quantile(below_minus_two + (1 - 2 * below_minus_two) * uniform(index));
}

void check_initializer(const Initializer& initializer, const Shape& shape) {
  if (initializer.values && (initializer.name.empty() || initializer.name == Initializer().name)) {
    fail("an initializer of one's own has no name of its own");
  }
  if (initializer.check) initializer.check(shape);
}

namespace {

void fill_block(const Initializer& initializer, const Shape& shape, const Block& block,
                std::uint64_t key, std::span<float> values) {
  check_initializer(initializer, shape);
  const Shape local = shape_of(block);
  if (local.size() != shape.size() ||
      static_cast<std::int64_t>(values.size()) != element_count(local)) {
    internal_error("a block of initial values does not fit its variable");
  }
  if (!initializer.values || values.empty()) {
    std::fill(values.begin(), values.end(), 0.0f);
    return;
  }
  const ElementValue value_of = initializer.values(
      {shape, key, initializer.fans == Fans() ? fans_of_shape(shape) : initializer.fans});
  if (!value_of) fail("the initializer \"{}\" gives no values", initializer.name);
  const std::int64_t columns = shape.empty() ? 1 : local.back();
  std::vector<std::int64_t> at(shape.size(), 0);  // place in the block; the last stays 0
  std::int64_t first_of_all = 0, first_of_row = 0;
  for (std::size_t value = 0; value < values.size(); value += static_cast<std::size_t>(columns)) {
    std::int64_t first = 0;  // global index of the row's first element
    for (std::size_t d = 0; d < shape.size(); ++d) {
      first = first * shape[d] + block[d].begin + at[d];
    }
    if (value == 0) first_of_all = first;
    first_of_row = first;
    for (std::int64_t column = 0; column < columns; ++column) {
      float& found = values[value + static_cast<std::size_t>(column)];
      found = static_cast<float>(value_of(first + column));
      if (!std::isfinite(found)) {
        fail("the initializer \"{}\" gives element {} the value {}; expected a finite number",
             initializer.name, first + column, found);
      }
    }
    for (std::size_t d = shape.size(); d-- > 1;) {
      if (++at[d - 1] < local[d - 1]) {
        break;
      }
      at[d - 1] = 0;
    }
  }
  // One that counts its calls gives ranks values of their own.
  const auto ask_again = [&](std::int64_t index, float value) {
    if (const auto again = static_cast<float>(value_of(index)); again != value) {
      fail(
          "the initializer \"{}\" gives element {} the value {}, and {} when asked again; a value "
          "follows from the variable and the index alone",
          initializer.name, index, value, again);
    }
  };
  ask_again(first_of_all, values.front());
  ask_again(first_of_row + columns - 1, values.back());
}

}  // namespace

void initialize(const Initializer& initializer, const Shape& shape, const Block& block,
                std::uint64_t key, std::span<float> values) {
  try {
    fill_block(initializer, shape, block, key, values);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail("the initializer \"{}\": {}", initializer.name, message_of(error));
  } catch (...) {
    fail("the initializer \"{}\" throws something that says nothing", initializer.name);
  }
}

}  // namespace meshwork
