// Initial values of variables.
//
// An initializer says the value of each element of a variable, by the element's index in the whole
// variable. What is drawn follows from the seed, the variable's path and that index alone
// (RandomNumbers). So every mesh and layout starts from the same bits, and a rank computes only the
// elements that it holds.
//
// A set of initializers is open: an initializer is a function, and a class of the catalog. Those
// that Meshwork has are in layers/initializers, a page each, by Keras's formulas
// (keras.io/api/layers/initializers). One's own is made by make_initializer.h:
//
//     Initializer Ramp(const RampOptions& options = {}) {
//       return make_initializer("Ramp", options, [options](const InitializedVariable& of) -> ElementValue {
//         return [=, count = element_count(of.shape)](std::int64_t index) {
//           return options.height * static_cast<double>(index) / static_cast<double>(count);
//         };
//       });
//     }
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "collectives/exchange.h"
#include "runtime/mesh/layout.h"

namespace meshwork {

/// How many inputs a variable adds up, and how many outputs it has. 0: what its shape says.
struct Fans {
  double in = 0, out = 0;
  bool operator==(const Fans&) const = default;
};

/// What initial values may depend on.
struct InitializedVariable {
  Shape shape;            // of the whole variable
  std::uint64_t key = 0;  // of the seed and the variable's path
  Fans fans;              // as the layer says, or the shape of the whole variable
};

/// The value of an element, by its row-major index in the whole variable. A rank asks for the
/// elements of its block, in ascending order mostly, and for some of them again.
using ElementValue = std::function<double(std::int64_t index)>;

struct Initializer {
  std::string name = "zeros";  // as configurations call it
  Settings settings = {};      // its options
  bool plain = true;           // its options are those that its name stands for
  /// Null: 0 everywhere.
  std::function<ElementValue(const InitializedVariable& variable)> values = {};
  /// Throws `Error` for a shape of whole variables that it is not for; null: it is for all.
  std::function<void(const Shape& shape)> check = {};
  Fans fans = {};  // of what a layer knows more than the shape says
  bool operator==(const Initializer& other) const {
    return name == other.name && settings == other.settings && fans == other.fans;
  }
};

/// Numbers for the elements of a variable, in whatever order they are asked for. Streams of one key
/// are unrelated; an initializer that draws several numbers for an element takes a stream for each.
class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t key, std::uint64_t stream = 0);
  /// Strictly between 0 and 1.
  [[nodiscard]] double uniform(std::int64_t index);
  /// Of the standard normal distribution.
  [[nodiscard]] double normal(std::int64_t index);
  /// Of the standard normal distribution, cut off at two standard deviations.
  [[nodiscard]] double truncated_normal(std::int64_t index);

 private:
  std::uint64_t key_, stream_;
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 4> words_;
};

/// Throws `Error` for shapes that the initializer is not for.
void check_initializer(const Initializer& initializer, const Shape& shape);

/// Writes the values of `block` of a variable of global `shape` into `values` (row-major). Throws
/// `Error` as check_initializer, and for values that are no finite float32 numbers. The first and
/// the last are asked for again: throws if they differ.
void initialize(const Initializer& initializer, const Shape& shape, const Block& block,
                std::uint64_t key, std::span<float> values);

}  // namespace meshwork
