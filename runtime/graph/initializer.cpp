// How a value comes from an index. Element i of the whole variable, counted row-major, has 52
// random bits: words 2 (i mod 2) and the next one of Philox's block i / 2 at step 0, the first of
// them the higher, without the lowest 12 of their 64 bits. With n these bits as a number, u = (n +
// 1/2) / 2^52 lies strictly between 0 and 1 and is exact in double precision. A uniform value is
// minimum + (maximum - minimum) * u; a normal one is the normal distribution's inverse at u, a
// truncated one its inverse at P(-2) + (P(2) - P(-2)) * u. Everything is computed in double
// precision and rounded to float32 at the end.
//
// An orthogonal variable of (..., columns) is a matrix of so many columns, or its transpose if it
// is wider than high. Gram and Schmidt make the columns of a matrix of normal values orthogonal,
// twice over, which leaves them so to rounding. Every rank makes the whole, in height * width^2
// steps.
#include "runtime/graph/initializer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/config/nearest.h"
#include "runtime/device/normal_quantile.h"
#include "runtime/device/philox.h"

namespace meshwork {
namespace {

// Standard deviation of the standard normal distribution cut off at two standard deviations.
constexpr double truncated_deviation = 0.87962566103423978;

// P(-2), the normal distribution below -2.
constexpr double below_minus_two = 0.022750131948179207;

Fans fans_of(const Shape& shape) {
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

// What a value is made of: one number, or one of three distributions.
enum class Draw { none, uniform, normal, truncated };

struct Recipe {
  Draw draw = Draw::none;
  double base = 0;    // the number; the minimum; the mean
  double spread = 0;  // maximum - minimum; the standard deviation
};

Recipe scaled(const Initializer& initializer, const Shape& shape) {
  const Fans fans = initializer.fans == Fans() ? fans_of(shape) : initializer.fans;
  double fan = (fans.in + fans.out) / 2;
  if (initializer.fan == FanMode::in) {
    fan = fans.in;
  } else if (initializer.fan == FanMode::out) {
    fan = fans.out;
  }
  const double variance = initializer.scale / std::max(1.0, fan);
  switch (initializer.distribution) {
    case ScalingDistribution::uniform: {
      const double limit = std::sqrt(3 * variance);
      return {Draw::uniform, -limit, 2 * limit};
    }
    case ScalingDistribution::normal:
      return {Draw::normal, 0, std::sqrt(variance)};
    case ScalingDistribution::truncated_normal:
      return {Draw::truncated, 0, std::sqrt(variance) / truncated_deviation};
  }
  internal_error("an unknown distribution");
}

Recipe recipe_of(const Initializer& initializer, const Shape& shape) {
  switch (initializer.kind) {
    case InitializerKind::zeros:
      return {Draw::none, 0, 0};
    case InitializerKind::ones:
      return {Draw::none, 1, 0};
    case InitializerKind::constant:
      return {Draw::none, initializer.value, 0};
    case InitializerKind::random_uniform:
      return {Draw::uniform, initializer.minimum, initializer.maximum - initializer.minimum};
    case InitializerKind::random_normal:
      return {Draw::normal, initializer.mean, initializer.standard_deviation};
    case InitializerKind::truncated_normal:
      return {Draw::truncated, initializer.mean, initializer.standard_deviation};
    case InitializerKind::variance_scaling:
      return scaled(initializer, shape);
    case InitializerKind::identity:
    case InitializerKind::orthogonal:
    case InitializerKind::listed:
      break;  // values of a matrix or a list, not of an index
  }
  internal_error("an unknown initializer");
}

// The u of elements, asked for in ascending order mostly: one block serves two of them.
class UniformNumbers {
 public:
  explicit UniformNumbers(std::uint64_t key) : key_(key), words_(philox(key, 0, 0)) {}
  double operator()(std::uint64_t index) {
    if (index / 2 != block_) {
      block_ = index / 2;
      words_ = philox(key_, block_, 0);
    }
    const std::size_t first = 2 * (index % 2);
    const std::uint64_t bits = (std::uint64_t{words_[first]} << 32 | words_[first + 1]) >> 12;
    return (static_cast<double>(bits) + 0.5) * 0x1p-52;
  }

 private:
  std::uint64_t key_;
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 4> words_;
};

double drawn(const Recipe& recipe, double u) {
  switch (recipe.draw) {
    case Draw::uniform:
      return recipe.base + recipe.spread * u;
    case Draw::normal:
      return recipe.base + recipe.spread * normal_quantile(u);
    case Draw::truncated:
      return recipe.base +
             recipe.spread * normal_quantile(below_minus_two + (1 - 2 * below_minus_two) * u);
    case Draw::none:
      break;
  }
  return recipe.base;
}

// The columns of an orthogonal matrix (height, width), one behind the other.
std::vector<double> orthogonal_columns(std::int64_t height, std::int64_t width, std::uint64_t key) {
  std::vector<double> columns(static_cast<std::size_t>(height * width));
  UniformNumbers uniform(key);
  for (std::int64_t row = 0; row < height; ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      columns[static_cast<std::size_t>(column * height + row)] =
          normal_quantile(uniform(static_cast<std::uint64_t>(row * width + column)));
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

// value(row, column) of the whole variable, seen as a matrix of its last dimension's columns, for
// identity and orthogonal.
std::function<double(std::int64_t, std::int64_t)> matrix_values(const Initializer& initializer,
                                                                const Shape& shape,
                                                                std::uint64_t key) {
  const double gain = initializer.gain;
  if (initializer.kind == InitializerKind::identity) {
    return [gain](std::int64_t row, std::int64_t column) { return row == column ? gain : 0; };
  }
  const std::int64_t columns = shape.back();
  const std::int64_t rows = element_count(std::span(shape).first(shape.size() - 1));
  const bool high = rows >= columns;
  const std::int64_t height = high ? rows : columns;
  return [gain, high, height, values = orthogonal_columns(height, high ? columns : rows, key)](
             std::int64_t row, std::int64_t column) {
    const std::int64_t at = high ? column * height + row : row * height + column;
    return gain * values[static_cast<std::size_t>(at)];
  };
}

NamedInitializer scaling(std::string class_name, std::string name, double scale, FanMode fan,
                         ScalingDistribution distribution) {
  return {std::move(class_name),
          std::move(name),
          {.kind = InitializerKind::variance_scaling,
           .scale = scale,
           .fan = fan,
           .distribution = distribution},
          true};
}

}  // namespace

const std::vector<NamedInitializer>& named_initializers() {
  using enum ScalingDistribution;
  static const std::vector<NamedInitializer> all{
      {"Zeros", "zeros", {.kind = InitializerKind::zeros}},
      {"Ones", "ones", {.kind = InitializerKind::ones}},
      {"Constant", "constant", {.kind = InitializerKind::constant}},
      {"RandomUniform", "random_uniform", {.kind = InitializerKind::random_uniform}},
      {"RandomNormal", "random_normal", {.kind = InitializerKind::random_normal}},
      {"TruncatedNormal", "truncated_normal", {.kind = InitializerKind::truncated_normal}},
      {"VarianceScaling", "variance_scaling", {.kind = InitializerKind::variance_scaling}},
      {"Identity", "identity", {.kind = InitializerKind::identity}},
      {"Orthogonal", "orthogonal", {.kind = InitializerKind::orthogonal}},
      scaling("GlorotUniform", "glorot_uniform", 1, FanMode::average, uniform),
      scaling("GlorotNormal", "glorot_normal", 1, FanMode::average, truncated_normal),
      scaling("HeUniform", "he_uniform", 2, FanMode::in, uniform),
      scaling("HeNormal", "he_normal", 2, FanMode::in, truncated_normal),
      scaling("LecunUniform", "lecun_uniform", 1, FanMode::in, uniform),
      scaling("LecunNormal", "lecun_normal", 1, FanMode::in, truncated_normal),
  };
  return all;
}

Initializer initializer_by_name(std::string_view name) {
  std::vector<std::string> names;
  for (const NamedInitializer& known : named_initializers()) {
    if (known.name == name) {
      return known.initializer;
    }
    names.push_back(known.name);
  }
  fail("unknown initializer \"{}\"{} (known: {})", name, did_you_mean(name, names),
       quoted_list(names));
}

void check_initializer(const Initializer& initializer, const Shape& shape) {
  if (initializer.kind == InitializerKind::identity && shape.size() != 2) {
    fail("an identity is a matrix: expected two dimensions, found shape {}", to_string(shape));
  }
  if (initializer.kind == InitializerKind::orthogonal && shape.size() < 2) {
    fail("an orthogonal matrix has two dimensions at least, found shape {}", to_string(shape));
  }
}

void initialize(const Initializer& initializer, const Shape& shape, const Block& block,
                std::uint64_t key, std::span<float> values) {
  check_initializer(initializer, shape);
  const Shape local = shape_of(block);
  if (local.size() != shape.size() ||
      static_cast<std::int64_t>(values.size()) != element_count(local)) {
    internal_error("a block of initial values does not fit its variable");
  }
  std::function<double(std::int64_t)> value_at;  // by global index
  if (initializer.kind == InitializerKind::identity ||
      initializer.kind == InitializerKind::orthogonal) {
    value_at = [matrix = matrix_values(initializer, shape, key), width = shape.back()](
                   std::int64_t index) { return matrix(index / width, index % width); };
  } else if (initializer.kind == InitializerKind::listed) {
    if (std::ssize(initializer.values) != element_count(shape)) {
      internal_error("a list of initial values does not fit its variable");
    }
    value_at = [&](std::int64_t index) { return initializer.values[index]; };
  } else {
    const Recipe recipe = recipe_of(initializer, shape);
    if (recipe.draw == Draw::none || values.empty()) {
      std::fill(values.begin(), values.end(), static_cast<float>(recipe.base));
      return;
    }
    value_at = [recipe, uniform = UniformNumbers(key)](std::int64_t index) mutable {
      return drawn(recipe, uniform(static_cast<std::uint64_t>(index)));
    };
  }
  const std::int64_t columns = shape.empty() ? 1 : local.back();
  std::vector<std::int64_t> at(shape.size(), 0);  // place in the block; the last stays 0
  for (std::size_t value = 0; value < values.size(); value += static_cast<std::size_t>(columns)) {
    std::int64_t first = 0;  // global index of the row's first element
    for (std::size_t d = 0; d < shape.size(); ++d) {
      first = first * shape[d] + block[d].begin + at[d];
    }
    for (std::int64_t column = 0; column < columns; ++column) {
      values[value + static_cast<std::size_t>(column)] =
          static_cast<float>(value_at(first + column));
    }
    for (std::size_t d = shape.size(); d-- > 1;) {
      if (++at[d - 1] < local[d - 1]) {
        break;
      }
      at[d - 1] = 0;
    }
  }
}

}  // namespace meshwork
