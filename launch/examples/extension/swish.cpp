// Swish with a learned slope: y = x * sigmoid(beta * x), with a beta for each feature
// (Ramachandran et al., arXiv:1710.05941).
//
// The page has all that a layer of one's own takes: kernels, the operation that states its letters
// and emits them, and the layer that makes its variable. None of it knows of meshes: by the letters
// "btk,k->btk" the planner splits batch, places and features over any axes, and the gradient of
// beta, which lacks b and t, is summed over the axes that split them.
#include <meshwork/extension.h>

#include "layers/initializers/ones.h"
#include "layers/layer_of.h"
#include "runtime/device/cpu/body_loops.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/launched_kernels.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"
#include "swish.h"

namespace mine {

using namespace meshwork;

namespace {

// ---- kernels: what they are called, how much they do, and a body for the device's loops ---------

// y (rows, columns) = x * sigmoid(beta * x). Operands: x, beta (columns), y.
struct SwishSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("swish", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 2 * columns); }
};
// With s = sigmoid(beta * x): dx = dy * (s + beta * x * s * (1 - s)), and terms of the gradient of
// beta, dy * x^2 * s * (1 - s). Operands: x, beta, dy, dx, terms.
struct SwishGradientSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("swish gradient", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 4 * columns); }
};

template <class Math>
struct Swish {
  const float *x, *beta;
  float* y;
  [[nodiscard]] auto row(std::int64_t) const { return *this; }
  void operator()(std::int64_t column, std::int64_t i) const {
    y[i] = x[i] * Math::sigmoid(beta[column] * x[i]);
  }
};
template <class Math>
struct SwishGradient {
  const float *x, *beta, *dy;
  float *dx, *terms;
  [[nodiscard]] auto row(std::int64_t) const { return *this; }
  void operator()(std::int64_t column, std::int64_t i) const {
    const float s = Math::sigmoid(beta[column] * x[i]);
    const float slope = x[i] * s * (1 - s);
    dx[i] = dy[i] * (s + beta[column] * slope);
    terms[i] = dy[i] * x[i] * slope;
  }
};

template <class Loops>
void add_kernels(auto& kernels) {
  using Math = typename Loops::Math;
  kernels.template add<SwishSpec>([](const SwishSpec& spec, const auto& context) {
    return Loops::grid(context, spec.rows, spec.columns, 8, [](void* const* operands) {
      return Swish<Math>{at(operands, 0), at(operands, 1), at(operands, 2)};
    });
  });
  kernels.template add<SwishGradientSpec>([](const SwishGradientSpec& spec, const auto& context) {
    return Loops::grid(context, spec.rows, spec.columns, 16, [](void* const* operands) {
      return SwishGradient<Math>{at(operands, 0), at(operands, 1), at(operands, 2), at(operands, 3),
                                 at(operands, 4)};
    });
  });
}

#ifdef MINE_HAS_CUDA
// The same for GPUs, whose kernels nvcc compiles (swish.cu): how they are started.
void add_launches(gpu::Kernels& kernels) {
  kernels.add<SwishSpec>([](const SwishSpec& spec) -> gpu::Launch {
    return {.start = [spec](const gpu::Queue& queue, void* const* operands) {
      return launch_swish({queue.stream, queue.processors}, spec.rows, spec.columns,
                          at(operands, 0), at(operands, 1), at(operands, 2));
    }};
  });
  kernels.add<SwishGradientSpec>([](const SwishGradientSpec& spec) -> gpu::Launch {
    return {.start = [spec](const gpu::Queue& queue, void* const* operands) {
      return launch_swish_gradient({queue.stream, queue.processors}, spec.rows, spec.columns,
                                   at(operands, 0), at(operands, 1), at(operands, 2),
                                   at(operands, 3), at(operands, 4));
    }};
  });
}
#endif

// ---- the operation ------------------------------------------------------------------------------

class SwishOperation final : public Operation {
 public:
  std::string kind() const override { return "swish"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 2);
    return inputs[0];
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size(), 'k');
    return {.inputs = {letters, "k"}, .output = letters};
  }

  // Shapes are those of this rank's blocks.
  void forward(Lowering& lowering) const override {
    const Shape y = lowering.local_output_shape();
    lowering.emit(SwishSpec{rows_of(y), columns_of(y)},
                  {lowering.input(0), lowering.input(1), lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    const Shape y = lowering.local_output_shape();
    const std::int64_t rows = rows_of(y), columns = columns_of(y);
    const Operand terms = lowering.scratch("terms", rows * columns);
    const Operand dx = lowering.needs_gradient(0) ? lowering.input_gradient(0)
                                                  : lowering.scratch("dx", rows * columns);
    lowering.emit(SwishGradientSpec{rows, columns},
                  {lowering.input(0), lowering.input(1), lowering.output_gradient(), dx, terms});
    if (lowering.needs_gradient(1)) {
      lowering.emit(ColumnSumSpec{rows, columns}, {terms, lowering.input_gradient(1)});
    }
  }
};

// ---- the layer ----------------------------------------------------------------------------------

struct SwishOptions {
  std::string name;
  Initializer beta_initializer = Ones();
};

// Describes each option once; messages, `meshwork reference Swish` and checkpoints follow from it.
template <class Visitor>
void describe(SwishOptions& options, Visitor& option) {
  option.about("x * sigmoid(beta * x), with a learned beta for each feature");
  describe_name(options, option);
  option("beta_initializer", options.beta_initializer, "initial beta");
}

SharedLayer make_swish(SwishOptions options) {
  return layer_of(
      "Swish", std::move(options), [](const SwishOptions& of, LayerBuilder& builder, TensorId x) {
        const TensorId beta = builder.variable(
            "beta", {.shape = {builder.shape(x).back()}, .initializer = of.beta_initializer});
        return builder.apply(std::make_unique<SwishOperation>(), {x, beta});
      });
}

}  // namespace

void add_swish(Catalog& catalog) {
  catalog.add<SharedLayer, SwishOptions>("Swish", {}, make_swish);
  cpu::extend_kernels([](cpu::Kernels& kernels) { add_kernels<cpu::Loops>(kernels); });
#ifdef MINE_HAS_CUDA
  gpu::extend_kernels(add_launches);
#endif
}

}  // namespace mine
