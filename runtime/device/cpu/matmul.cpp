// Matrix products, by oneDNN.
//
// Two forms. `dnnl_sgemm` for products with a transposed first operand, the gradients of weights,
// where it is faster than the primitive: 164 against 136 GFLOP/s for 1024x4096x256, 169 against 164
// for 784x256x64, 70 against 57 for 256x10x64 (one Sapphire Rapids core, oneDNN 2.6, best of 15).
// The matmul primitive, made here with its strides, for everything else: equal for plain products,
// 5 % faster with a transposed second operand, and a bias without relu is part of it. In each run
// it allocates a few records of its own inside the library.
//
// Bound by FLOP from about 64 rows on; reference/speed.md has the shares of peak.
#include <oneapi/dnnl/dnnl_debug.h>

#include <cstdint>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/cpu/bfloat16_product.h"
#include "runtime/device/cpu/bfloat16_rounding.h"
#include "runtime/device/cpu/dnnl_version.h"
#include "runtime/device/cpu/epilogue.h"
#include "runtime/device/cpu/loops.h"
#include "runtime/device/cpu/primitive.h"

namespace meshwork::cpu {

namespace {

void check_dnnl(dnnl_status_t status, const MatmulSpec& spec) {
  if (status != dnnl_success) {
    fail("oneDNN failed in {} with status {}: {}", describe(spec), static_cast<int>(status),
         dnnl_status2str(status));
  }
}

/// The product as a call of dnnl_sgemm, which knows neither bias nor activation.
class Gemm final : public Kernel {
 public:
  explicit Gemm(const MatmulSpec& spec) : spec_(spec) {}

  void run(void* const* operands) override {
    const MatmulSpec& s = spec_;
    check_dnnl(
        dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1.0f,
                   at(operands, 0), s.transpose_a ? s.m : s.k, at(operands, 1),
                   s.transpose_b ? s.k : s.n, s.accumulate ? 1.0f : 0.0f, at(operands, 2), s.n),
        spec_);
  }

 private:
  MatmulSpec spec_;
};

/// The product as a primitive, which knows bias and accumulation.
KernelPointer compile_primitive(const MatmulSpec& spec) {
  using dnnl::memory;
  constexpr auto f32 = memory::data_type::f32;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const memory::desc a({spec.m, spec.k}, f32,
                       spec.transpose_a ? memory::dims{1, spec.m} : memory::dims{spec.k, 1});
  const memory::desc b({spec.k, spec.n}, f32,
                       spec.transpose_b ? memory::dims{1, spec.k} : memory::dims{spec.n, 1});
  const memory::desc c({spec.m, spec.n}, f32, memory::dims{spec.n, 1});
  const memory::desc bias =
      spec.bias ? memory::desc({1, spec.n}, f32, memory::dims{spec.n, 1}) : memory::desc();
  dnnl::primitive_attr attributes;
  if (spec.accumulate) {
    dnnl::post_ops operations;
    operations.append_sum(1.0f);
    attributes.set_post_ops(operations);
  }
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto description = describe_matmul(engine, a, b, bias, c, attributes);
  const memory::desc scratchpad = description.scratchpad_desc();
  const auto bytes = static_cast<std::int64_t>(scratchpad.get_size());

  Primitive primitive(describe(spec), engine, dnnl::matmul(description));
  primitive.add(DNNL_ARG_SRC, a);
  primitive.add(DNNL_ARG_WEIGHTS, b);
  if (spec.bias) primitive.add(DNNL_ARG_BIAS, bias);
  primitive.add(DNNL_ARG_DST, c);
  primitive.add(DNNL_ARG_SCRATCHPAD, scratchpad);
  auto body = [=, primitive = std::move(primitive)](void* const* operands) mutable {
    if (spec.bias) {
      primitive.run(
          {operands[0], operands[1], operands[2], operands[3], bytes > 0 ? operands[4] : nullptr});
    } else {
      primitive.run({operands[0], operands[1], operands[2], bytes > 0 ? operands[3] : nullptr});
    }
  };
  return make_kernel(std::move(body), bytes);
}

/// The sum over no terms: the bias, or 0, in every row. Operands as of the product.
KernelPointer empty_sum(const MatmulSpec& spec, const Context& context) {
  if (spec.accumulate || spec.m == 0 || spec.n == 0) return make_kernel([](void* const*) {});
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* bias = spec.bias ? at(operands, 2) : nullptr;
    float* c = at(operands, spec.bias ? 3 : 2);
    for_rows(threads, spec.m, spec.n * 4, [=](std::int64_t row) {
      float* to = c + row * spec.n;
      for (std::int64_t j = 0; j < spec.n; ++j) to[j] = bias != nullptr ? bias[j] : 0.0f;
    });
  });
}

/// The product with operands rounded to bfloat16; of some terms.
KernelPointer compile_bfloat16(const MatmulSpec& spec, const Context& context) {
  if (!has_bfloat16_instructions()) {
    MatmulSpec rounded = spec;
    rounded.precision = Precision::float32;
    return with_rounded_inputs(compile(rounded, context), spec.bias ? 4 : 3, spec.m * spec.k,
                               spec.k * spec.n, context);
  }
  const Bfloat16Product product{.m = spec.m,
                                .n = spec.n,
                                .k = spec.k,
                                .transpose_a = spec.transpose_a,
                                .transpose_b = spec.transpose_b,
                                .a_stride = spec.transpose_a ? spec.m : spec.k,
                                .b_stride = spec.transpose_b ? spec.k : spec.n,
                                .c_stride = spec.n,
                                .accumulate = spec.accumulate,
                                .relu = spec.activation == Activation::relu};
  auto body = [product, bias = spec.bias, threads = context.threads](void* const* operands) {
    multiply(product, at(operands, 0), at(operands, 1), bias ? at(operands, 2) : nullptr,
             at(operands, bias ? 3 : 2), operands[bias ? 4 : 3], threads);
  };
  return make_kernel(body, workspace_bytes(product, context.threads));
}

}  // namespace

KernelPointer compile(const MatmulSpec& spec, const Context& context) {
  if (spec.m < 0 || spec.n < 0 || spec.k < 0) {
    internal_error(fmt::format("{} has a negative length", describe(spec)));
  }
  if (spec.activation != Activation::linear && spec.activation != Activation::relu) {
    internal_error(
        fmt::format("{} fuses an activation that is neither linear nor relu", describe(spec)));
  }
  if (spec.accumulate && (spec.bias || spec.activation != Activation::linear)) {
    internal_error(fmt::format("{} accumulates and has a bias or an activation", describe(spec)));
  }
  if (spec.precision == Precision::bfloat16 && spec.m > 0 && spec.n > 0 && spec.k > 0) {
    return compile_bfloat16(spec, context);
  }
  if (spec.activation != Activation::linear) {
    MatmulSpec product = spec;
    product.bias = false;
    product.activation = Activation::linear;
    return with_epilogue(compile(product, context), spec.m, spec.n, spec.bias, spec.activation,
                         context);
  }
  if (spec.m == 0 || spec.n == 0 || spec.k == 0) return empty_sum(spec, context);
  if (spec.transpose_a && !spec.bias) return std::make_unique<Gemm>(spec);
  try {
    return compile_primitive(spec);
  } catch (const dnnl::error& error) {
    fail("oneDNN cannot make {}: {} (status {})", describe(spec), error.what(),
         static_cast<int>(error.status));
  }
}

}  // namespace meshwork::cpu
