// What pages of kernels are written with.
//
// A page of this folder holds specifications: structs of plain values, one a kernel, that tell of
// themselves:
//   std::string text() const    what the kernel is called, with its lengths: "softmax 64x10"
//   KernelWork work() const     the least that any implementation does
//   void check() const          [optional] throws `Error` for what no device computes
//   InPlace in_place() const    [optional] on which inputs an output may lie; else on none
// and, where a device may have several kernels for one (kernel_candidates.h):
//   std::string details() const                        what `text` leaves out of the values
//   std::vector<std::int64_t> operand_counts() const   float32 elements of the operands
// A product's member `precision` says in which numbers it is computed. A KernelSpec
// (kernel_spec.h) holds any of them; the files of a device say how it compiles which.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/element_type.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/device/kernels/precision.h"

namespace meshwork {

/// How much a kernel has to do, which its time is held against: the least that any implementation
/// does. Every operand is read or written once. A fused multiplication and addition counts two, of
/// products and convolutions alone; windows count as if they lay inside the image. What is done
/// element by element counts by its bytes.
struct KernelWork {
  double flops = 0;
  double bytes = 0;
  Precision precision = Precision::float32;  // of the multiplications
};

/// On which inputs an output may lie, so that it takes their place: each of its elements is written after all
/// that is read there. Operands are counted from 0.
struct InPlace {
  std::vector<int> inputs = {};
  int output = -1;  // -1: the last operand
};

namespace spec {

/// "name 8", "name 8x4", "name 8x4x2".
[[nodiscard]] std::string sized(std::string_view name, std::initializer_list<std::int64_t> lengths);
/// " word" for each that is set.
[[nodiscard]] std::string words(std::initializer_list<std::pair<bool, std::string_view>> words);
/// " relu"; nothing for linear.
[[nodiscard]] std::string activated(Activation activation);
/// " in bfloat16"; nothing for float32.
[[nodiscard]] std::string in_precision(Precision precision);

/// "from uint8", "from int64 to int32", "from uint8 scaled".
[[nodiscard]] std::string converted(ElementType from, ElementType to, float scale, float offset);

constexpr double bf16 = 2, f32 = 4, f64 = 8;  // bytes

[[nodiscard]] constexpr double product(std::initializer_list<std::int64_t> factors) {
  double result = 1;
  for (const std::int64_t factor : factors) result *= static_cast<double>(factor);
  return result;
}
/// `count` float32 elements are read or written.
[[nodiscard]] constexpr KernelWork elements(double count) {
  return {0, f32 * count};
}
/// `passes` float32 elements for each of `count`.
[[nodiscard]] constexpr KernelWork passes(int passes, std::int64_t count) {
  return elements(passes * static_cast<double>(count));
}
/// `columns` float32 elements for each of `rows`.
[[nodiscard]] constexpr KernelWork rows(std::int64_t rows, std::int64_t columns) {
  return elements(product({rows, columns}));
}

/// Throws `Error`, "`kernel`: ...", for an activation that is not elementwise.
void require_elementwise(Activation activation, std::string_view kernel);

// Of mistakes of the program, "`kernel` ...":

/// Throws `Error` for an activation that is neither linear nor relu.
void require_fused(Activation activation, const std::string& kernel,
                   std::source_location where = std::source_location::current());
/// Throws `Error` unless kernels convert to `to`: to float32, or to int32 as it is.
void require_convertible(const std::string& kernel, ElementType to, float scale, float offset,
                         std::source_location where = std::source_location::current());
/// Throws `Error` with `problem` unless it `holds`.
void require(bool holds, const std::string& kernel, std::string_view problem,
             std::source_location where = std::source_location::current());

}  // namespace spec
}  // namespace meshwork
