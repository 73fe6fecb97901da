// Initial values of variables, by Keras's formulas (keras.io/api/layers/initializers).
//
// A value belongs to its *global* index: it is drawn from Philox with the key of (seed, path) and
// that index, so that every mesh and layout starts from the same bits. Fans come from the global
// shape, never from a block, or from the layer: of a kernel (features, heads, length) shapes say
// nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/mesh/layout.h"

namespace meshwork {

enum class InitializerKind : std::uint8_t {
  zeros,
  ones,
  constant,
  random_uniform,
  random_normal,
  truncated_normal,
  variance_scaling,
  identity,
  orthogonal,
  listed
};
enum class FanMode : std::uint8_t { in, out, average };
enum class ScalingDistribution : std::uint8_t { uniform, truncated_normal, normal };

/// How many inputs a variable adds up, and how many outputs it has. 0: what its shape says.
struct Fans {
  double in = 0, out = 0;
  bool operator==(const Fans&) const = default;
};

struct Initializer {
  InitializerKind kind = InitializerKind::zeros;
  double value = 0;        // constant
  double minimum = -0.05;  // random_uniform
  double maximum = 0.05;
  double mean = 0;  // random_normal, truncated_normal
  double standard_deviation = 0.05;
  double scale = 1;  // variance_scaling
  double gain = 1;   // identity, orthogonal
  FanMode fan = FanMode::in;
  ScalingDistribution distribution = ScalingDistribution::truncated_normal;
  Fans fans = {};                   // of variance_scaling
  std::vector<double> values = {};  // listed: one for each element, row-major
  bool operator==(const Initializer&) const = default;
};

/// By Keras's names.
struct NamedInitializer {
  std::string class_name;  // "GlorotUniform"
  std::string name;        // "glorot_uniform"
  Initializer initializer;
  bool fixed = false;  // its formula is in its name
};
[[nodiscard]] const std::vector<NamedInitializer>& named_initializers();

/// Keras's names: "glorot_uniform", "he_normal", "lecun_uniform", "zeros", ... Throws `Error` with
/// the nearest name if there is none.
[[nodiscard]] Initializer initializer_by_name(std::string_view name);

/// Throws `Error` for shapes that have no identity, or no orthogonal matrix.
void check_initializer(const Initializer& initializer, const Shape& shape);

/// Writes the values of `block` of a variable of global `shape` into `values` (row-major). Throws
/// as check_initializer.
void initialize(const Initializer& initializer, const Shape& shape, const Block& block,
                std::uint64_t key, std::span<float> values);

}  // namespace meshwork
