// Optimizers: one fused pass over parameters, gradients and slots (update_functions.h).
//
// They are bound by memory traffic: bytes read and written for a parameter are 12 for plain SGD, 20
// with momentum, 28 for Adam. New values that are stored in bfloat16 too are rounded piece by
// piece, while they are in the nearest cache: 2 bytes more.
//
// Where ranks share memory, gradients have been summed before (collectives/shared_reduction.h). One
// pass for both would move a third less for plain SGD, but was no faster on two ranks of two cores
// (174 ms a step of the network `wide` of tests/benchmarks/step, 171 with two passes): all ranks
// then want the memory at the same time, behind backward, where otherwise one adds up while another
// still computes.
#include "runtime/device/update_functions.h"

#include <algorithm>

#include "runtime/device/cpu/loops.h"

namespace meshwork::cpu {

namespace {

template <class Form>
void update_range(const Form& form, const UpdateRates& rates, std::int64_t begin,
                  std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) form(i, rates);
}

/// The same, with the new values stored in `narrow` too.
template <class Form>
void update_narrowed_range(const Form& form, const UpdateRates& rates, std::uint16_t* narrow,
                           std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t piece = 1024;  // elements: 4 KB of each operand
  for (std::int64_t from = begin; from < end; from += piece) {
    const std::int64_t to = std::min(from + piece, end);
    update_range(form, rates, from, to);
    for (std::int64_t i = from; i < to; ++i) narrow[i] = narrowed(form.w[i]);
  }
}

template <class Spec>
KernelPointer compile_update(const Spec& spec, const Context& context) {
  return with_update_form(spec, [&]<class Form>(std::type_identity<Form>) {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const UpdateOperands in(operands, spec.scaled);
      const Form form(spec, in);
      const UpdateRates rates = Form::rates(spec, in)();
      constexpr std::int64_t traffic = 4 + 8 * (Form::blocks - 1);  // bytes an element
      if (spec.narrows) {
        std::uint16_t* narrow = in.narrow_block(Form::blocks);
        for_ranges(threads, spec.count, traffic + bfloat16_bytes,
                   [=](std::int64_t begin, std::int64_t end) {
                     update_narrowed_range(form, rates, narrow, begin, end);
                   });
      } else {
        for_ranges(threads, spec.count, traffic, [=](std::int64_t begin, std::int64_t end) {
          update_range(form, rates, begin, end);
        });
      }
    });
  });
}

}  // namespace

KernelPointer compile(const SgdSpec& spec, const Context& context) {
  return compile_update(spec, context);
}

KernelPointer compile(const AdamSpec& spec, const Context& context) {
  return compile_update(spec, context);
}

KernelPointer compile(const RmspropSpec& spec, const Context& context) {
  return compile_update(spec, context);
}

}  // namespace meshwork::cpu
