// Matrix products, by oneDNN.
//
// Two forms, which are the candidates. "gemm", `dnnl_sgemm`, comes first for products with a
// transposed first operand, the gradients of weights, where it is mostly faster than the primitive:
// 164 against 136 GFLOP/s for 1024x4096x256, 169 against 164 for 784x256x64, 70 against 57 for
// 256x10x64 (one Sapphire Rapids core, oneDNN 2.6, best of 15). It also comes first for many rows:
// 162 against 80 GFLOP/s for 1024x3072x768, 165 against 152 for 1024x768x3072, 158 against 148 for
// 1024x50257x768 transposed. "primitive", the matmul primitive, made here with its strides, for
// everything else: equal for plain products of some hundred rows, 15 % faster for few columns, and
// a bias without relu is part of it. In each run it allocates a few records of its own inside the
// library.
//
// In bfloat16, where the processor gains from instructions for it, the primitive comes first: on
// operands as they are stored in bfloat16, or rounded in every run. The weights of a dense layer
// take longer to be rounded than is saved at a hundred rows, so that programs have them rounded
// once a step. Behind it, and elsewhere alone, come the forms in float32, of rounded operands.
//
// Bound by FLOP from about 64 rows on; tests/benchmarks/kernels shows what a shape reaches.
#include <oneapi/dnnl/dnnl_debug.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/cpu/bfloat16_instructions.h"
#include "runtime/device/cpu/bfloat16_rounding.h"
#include "runtime/device/cpu/dnnl_version.h"
#include "runtime/device/cpu/epilogue.h"
#include "runtime/device/cpu/gradient_epilogue.h"
#include "runtime/device/cpu/loops.h"
#include "runtime/device/cpu/reordered_primitive.h"
#include "runtime/device/kernels/products.h"

namespace meshwork::cpu {

namespace {

void check_dnnl(dnnl_status_t status, const MatmulSpec& spec) {
  if (status != dnnl_success) {
    fail("oneDNN failed in {} with status {}: {}", spec.text(), static_cast<int>(status),
         dnnl_status2str(status));
  }
}

/// The product as a call of dnnl_sgemm, which knows neither bias nor activation.
class Gemm final : public Kernel {
 public:
  explicit Gemm(const MatmulSpec& spec) : spec_(spec) {}

  void run(void* const* operands) override {
    const MatmulSpec& s = spec_;
    for_each_product(s, [&](std::int64_t a, std::int64_t b, std::int64_t c) {
      check_dnnl(
          dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1.0f,
                     at(operands, 0) + a, s.a_stride(), at(operands, 1) + b, s.b_stride(),
                     s.accumulate ? 1.0f : 0.0f, at(operands, 2) + c, s.c_stride()),
          s);
    });
  }

 private:
  MatmulSpec spec_;
};

/// The product as a primitive, which knows bias, accumulation and repeats. In bfloat16 it gets what
/// is multiplied rounded, unless it is already.
KernelPointer compile_primitive(const MatmulSpec& spec) {
  using dnnl::memory;
  constexpr auto f32 = memory::data_type::f32;
  const auto factor =
      spec.precision == Precision::bfloat16 ? memory::data_type::bf16 : memory::data_type::f32;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  memory::dims a_lengths, b_lengths, c_lengths, a_strides, b_strides, c_strides;
  const auto append = [](memory::dims& to, std::initializer_list<memory::dim> more) {
    to.insert(to.end(), more);
  };
  // A factor that all read alike is one.
  for (const MatmulRepeat& repeat : spec.repeats) {
    append(a_lengths, {repeat.a == 0 ? 1 : repeat.count});
    append(b_lengths, {repeat.b == 0 ? 1 : repeat.count});
    append(c_lengths, {repeat.count});
    append(a_strides, {repeat.a == 0 ? spec.a_count() : repeat.a});
    append(b_strides, {repeat.b == 0 ? spec.b_count() : repeat.b});
    append(c_strides, {repeat.c});
  }
  append(a_lengths, {spec.m, spec.k});
  append(b_lengths, {spec.k, spec.n});
  append(c_lengths, {spec.m, spec.n});
  const memory::dim a_row = spec.a_stride(), b_row = spec.b_stride();
  append(a_strides, {spec.transpose_a ? 1 : a_row, spec.transpose_a ? a_row : 1});
  append(b_strides, {spec.transpose_b ? 1 : b_row, spec.transpose_b ? b_row : 1});
  append(c_strides, {spec.c_stride(), 1});
  const auto stored = spec.narrow ? factor : f32;
  const memory::desc a(a_lengths, factor, a_strides), b(b_lengths, factor, b_strides);
  const memory::desc c(c_lengths, f32, c_strides);
  const memory::desc bias =
      spec.bias ? memory::desc({1, spec.n}, f32, memory::dims{spec.n, 1}) : memory::desc();
  dnnl::primitive_attr attributes = with_user_scratchpad();
  if (spec.accumulate) {
    dnnl::post_ops operations;
    operations.append_sum(1.0f);
    attributes.set_post_ops(operations);
  }
  const auto description = describe_matmul(engine, a, b, bias, c, attributes);

  std::vector<ReorderedPrimitive::Argument> arguments{
      {DNNL_ARG_SRC, memory::desc(a_lengths, stored, a_strides), a},
      {DNNL_ARG_WEIGHTS, memory::desc(b_lengths, stored, b_strides), b}};
  if (spec.bias) arguments.push_back({DNNL_ARG_BIAS, bias, bias});
  arguments.push_back({DNNL_ARG_DST, c, c, true});
  return std::make_unique<ReorderedPrimitive>(spec.text(), engine, dnnl::matmul(description),
                                              arguments, description.scratchpad_desc());
}

/// The sum over no terms: the bias, or 0, in every row. Operands as of the product.
KernelPointer empty_sum(const MatmulSpec& whole, const Context& context) {
  MatmulSpec spec = whole;
  if (!spec.plain()) spec = {.m = 1, .n = whole.c_count()};  // the results are one array
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

/// A way to compute products.
struct MatmulForm {
  std::string name;
  std::function<KernelPointer(const MatmulSpec& spec, const Context& context)> compile;
};

/// The product alone, then bias and relu.
MatmulForm with_separate_epilogue(const MatmulForm& form) {
  return {form.name, [form](const MatmulSpec& spec, const Context& context) {
            MatmulSpec alone = spec;
            alone.bias = false;
            alone.activation = Activation::linear;
            return with_epilogue(form.compile(alone, context), spec.m, spec.n, spec.bias,
                                 spec.activation, context);
          }};
}

/// The forms of a product that adds up something, the one of the rule first.
std::vector<MatmulForm> forms_of(const MatmulSpec& spec) {
  const bool relu = spec.activation != Activation::linear;
  MatmulForm gemm{"gemm", [](const MatmulSpec& alone, const Context&) -> KernelPointer {
                    return std::make_unique<Gemm>(alone);
                  }};
  MatmulForm primitive{"primitive", [](const MatmulSpec& alone, const Context&) -> KernelPointer {
                         return compile_primitive(alone);
                       }};
  if (spec.bias || relu) gemm = with_separate_epilogue(gemm);
  if (relu) primitive = with_separate_epilogue(primitive);
  if (spec.precision == Precision::bfloat16) return {primitive};
  std::vector<MatmulForm> forms{primitive, gemm};
  constexpr std::int64_t many_rows = 512, few_columns = 64;
  const bool large = spec.m >= many_rows && spec.n >= few_columns;
  // What the primitive makes of strides is not known.
  if (large || (spec.transpose_a && (relu || !spec.bias)) || !spec.plain()) {
    std::swap(forms[0], forms[1]);
  }
  return forms;
}

KernelPointer compile_form(const MatmulSpec& spec, const Context& context, const MatmulForm& form) {
  try {
    return form.compile(spec, context);
  } catch (const dnnl::error& error) {
    fail("oneDNN cannot make {}: {} (status {})", spec.text(), error.what(),
         static_cast<int>(error.status));
  }
}

/// Whether the rule takes a product in float32, of operands brought to bfloat16's values before.
bool rule_rounds(const MatmulSpec& spec) {
  return spec.precision == Precision::bfloat16 && has_terms(spec) && !uses_bfloat16_instructions();
}

MatmulSpec in_float32(MatmulSpec spec) {
  spec.precision = Precision::float32;
  spec.narrow = false;
  return spec;
}

/// The kernel for `spec` from that for `in_float32(spec)`.
KernelPointer of_rounded(KernelPointer wide, const MatmulSpec& spec, const Context& context) {
  const auto convert = spec.narrow ? with_widened_inputs : with_rounded_inputs;
  return convert(std::move(wide), operand_count(spec), spec.a_count(), spec.b_count(), context);
}

KernelPointer compile(const MatmulSpec& spec, const Context& context) {
  if (rule_rounds(spec)) return of_rounded(compile(in_float32(spec), context), spec, context);
  if (const MatmulSpec inner = without_gradients(spec); inner != spec) {
    return with_gradients(compile(inner, context), spec, context);
  }
  if (has_terms(spec)) return compile_form(spec, context, forms_of(spec).front());
  if (spec.activation == Activation::linear) return empty_sum(spec, context);
  return with_separate_epilogue({"", empty_sum}).compile(spec, context);
}

std::vector<KernelCandidate> candidates(const MatmulSpec& spec, const Context& context) {
  std::vector<KernelCandidate> found;
  if (!has_terms(spec)) return found;
  if (!rule_rounds(spec)) {
    const MatmulSpec inner = without_gradients(spec);
    for (const MatmulForm& form : forms_of(inner)) {
      found.push_back({form.name, [=] {
                         return with_gradients(compile_form(inner, context, form), spec, context);
                       }});
    }
  }
  if (spec.precision == Precision::bfloat16) {
    for (const KernelCandidate& wide : candidates(in_float32(spec), context)) {
      found.push_back({rounded_name(wide.name), [=, compile = wide.compile] {
                         return of_rounded(compile(), spec, context);
                       }});
    }
  }
  return found;
}

}  // namespace

void add_matmul(Kernels& kernels) {
  kernels.add<MatmulSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
  kernels.add_candidates<MatmulSpec>(
      [](const auto& spec, const Context& context) { return candidates(spec, context); });
}

}  // namespace meshwork::cpu
