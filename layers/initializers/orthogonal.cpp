#include "layers/initializers/orthogonal.h"

#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "collectives/error.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/make_initializer.h"

namespace meshwork {

namespace {

// The columns of an orthogonal matrix (height, width), one behind the other.
std::vector<double> orthogonal_columns(std::int64_t height, std::int64_t width, std::uint64_t key) {
  std::vector<double> columns(static_cast<std::size_t>(height * width));
  RandomNumbers numbers(key);
  for (std::int64_t row = 0; row < height; ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      columns[static_cast<std::size_t>(column * height + row)] =
          numbers.normal(row * width + column);
    }
  }
  const auto product = [height](const double* a, const double* b) {
    return std::inner_product(a, a + height, b, 0.0);
  };
  for (std::int64_t column = 0; column < width; ++column) {
    double* const own = columns.data() + column * height;
    for (std::int64_t other = 0; other < 2 * column; ++other) {
      const double* const before = columns.data() + other % column * height;
      const double along = product(before, own);
      for (std::int64_t row = 0; row < height; ++row) own[row] -= along * before[row];
    }
    const double length = std::sqrt(product(own, own));
    for (std::int64_t row = 0; row < height; ++row) own[row] /= length;
  }
  return columns;
}

ElementValue orthogonal_values(double gain, const InitializedVariable& variable) {
  const std::int64_t columns = variable.shape.back();
  const std::int64_t rows =
      element_count(std::span(variable.shape).first(variable.shape.size() - 1));
  const bool high = rows >= columns;
  const std::int64_t height = high ? rows : columns;
  return [gain, high, height, columns,
          values =
              orthogonal_columns(height, high ? columns : rows, variable.key)](std::int64_t index) {
    const std::int64_t row = index / columns, column = index % columns;
    const std::int64_t at = high ? column * height + row : row * height + column;
    return gain * values[static_cast<std::size_t>(at)];
  };
}

}  // namespace

template <class Visitor>
void describe(OrthogonalOptions& options, Visitor& option) {
  option.about("a random matrix whose columns, or rows, are orthogonal");
  option("gain", options.gain, any_finite, "factor of the matrix");
}

Initializer Orthogonal(const OrthogonalOptions& options) {
  return make_initializer(
      "orthogonal", options,
      [gain = options.gain](const InitializedVariable& variable) {
        return orthogonal_values(gain, variable);
      },
      [](const Shape& shape) {
        if (shape.size() < 2) {
          fail("an orthogonal matrix has at least two dimensions, found shape {}",
               to_string(shape));
        }
      });
}

void add_orthogonal(Catalog& catalog) {
  catalog.add<Initializer, OrthogonalOptions>("Orthogonal", {"orthogonal"}, Orthogonal);
}

}  // namespace meshwork
