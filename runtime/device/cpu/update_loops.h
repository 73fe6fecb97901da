// Optimizers: one fused pass over parameters, gradients and slots (kernels/update.h).
//
// They are bound by memory traffic: bytes read and written for a parameter are 12 for plain SGD, 20
// with momentum, 28 for Adam. New values that are stored in bfloat16 too are rounded piece by
// piece, while they are in the nearest cache: 2 bytes more.
//
// What ranks share, others have read since it was last written here. A loop that reads a line and
// then writes it asks for it twice, the second time to get it back from their cores: so lines are
// asked for, to be written, some pieces before it is their turn (by processors with prefetchw, for
// which MESHWORK_NATIVE has to be on; else to be read). On two ranks of the network `mlp` that took
// Adam from 180 to 73 us between two cores of an Intel Xeon, and changed nothing between two of an
// AMD EPYC; where nobody shares, no difference was measured.
//
// Where ranks share memory, gradients have been summed before (collectives/shared_reduction.h). One
// pass for both would move a third less for plain SGD, but was no faster on two ranks of two cores
// (174 ms a step of the network `wide` of tests/benchmarks/step, 171 with two passes): all ranks
// then want the memory at the same time, behind backward, where otherwise one adds up while another
// still computes.
#pragma once

#include <algorithm>

#include "runtime/device/cpu/loops.h"
#include "runtime/device/kernels/update.h"
#include "runtime/device/narrowing.h"

namespace meshwork::cpu {

namespace update_detail {

inline constexpr std::int64_t piece = 64;  // elements: four lines of each operand
inline constexpr std::int64_t ahead = 512;

/// Asks for the lines of a piece of `block` that is `ahead` of `from`, to write them.
template <class T>
void ask_ahead(const T* block, std::int64_t from, std::int64_t end) {
  constexpr auto line = static_cast<std::int64_t>(64 / sizeof(T));
  constexpr int to_write = 1;
  for (std::int64_t at = from + ahead; at < from + ahead + piece; at += line) {
    __builtin_prefetch(block + std::min(at, end - 1), to_write);
  }
}

/// Updates [begin, end); new values are stored in `narrow` too, unless that is null.
template <class Form, class Rates>
void update_range(const Form& form, const Rates& rates, std::uint16_t* narrow, std::int64_t begin,
                  std::int64_t end) {
  const auto update = [&](std::int64_t from, std::int64_t to) {
    ask_ahead(form.w, from, end);
#pragma omp simd
    for (std::int64_t i = from; i < to; ++i) form(i, rates);
    if (narrow == nullptr) return;
    ask_ahead(narrow, from, end);
    for (std::int64_t i = from; i < to; ++i) narrow[i] = narrowed(form.w[i]);
  };
  // Pieces of a length that the compiler knows, then what is left.
  std::int64_t from = begin;
  for (; from + piece <= end; from += piece) update(from, from + piece);
  if (from < end) update(from, end);
}

}  // namespace update_detail

/// The kernel of the update `spec` (kernels/update.h), which may be an extension's.
template <class Spec>
KernelPointer compile_update(const Spec& spec, const Context& context) {
  return with_form(spec, [&]<class Form>(std::type_identity<Form>) {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const UpdateOperands in(operands, spec.scaled);
      const Form form(spec, in);
      const auto rates = Form::step_rates(spec, in)();
      std::uint16_t* narrow = spec.narrows ? in.narrow_block(spec.blocks()) : nullptr;
      for_ranges(threads, spec.count, bytes_a_parameter(spec),
                 [=](std::int64_t begin, std::int64_t end) {
                   update_detail::update_range(form, rates, narrow, begin, end);
                 });
    });
  });
}

}  // namespace meshwork::cpu
