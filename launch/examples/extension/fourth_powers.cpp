// FourthPowers, a regularizer: factor * the sum of w^4, which charges large weights alone; and Bounded, a
// constraint: no weight is larger than a limit.
//
// Both work element by element, with kernels of their own, on this rank's block. How a variable is
// split does not matter. Norms and the whole variable: runtime/graph/constraint.h and regularizer.h.
// Like every page here but swish.cpp, it has kernels for processors alone.
#include <meshwork/extension.h>

#include <algorithm>

#include "runtime/device/cpu/body_loops.h"
#include "runtime/graph/layer_config.h"

namespace mine {

using namespace meshwork;

namespace {

// ---- kernels ------------------------------------------------------------------------------------

// s (float64) = the sum of w^4. Operands: w, s.
struct FourthPowersSpec {
  std::int64_t count = 0;
  [[nodiscard]] std::string text() const { return spec::sized("fourth powers", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(1, count); }
};
// dw += factor * w^3. Operands: w, dw.
struct CubesSpec {
  std::int64_t count = 0;
  float factor = 0;
  [[nodiscard]] std::string text() const { return spec::sized("cubes", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, count); }
};
// y = w between -limit and limit. Operands: w, y.
struct BoundSpec {
  std::int64_t count = 0;
  float limit = 0;
  [[nodiscard]] std::string text() const { return spec::sized("bound", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, count); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }  // y may lie on w
};

struct FourthPower {
  const float* w;
  double operator()(std::int64_t i) const {
    const double square = static_cast<double>(w[i]) * static_cast<double>(w[i]);
    return square * square;
  }
};
struct Cube {
  const float* w;
  float *dw, factor;
  void operator()(std::int64_t i) const { dw[i] += factor * w[i] * w[i] * w[i]; }
};
struct Bound {
  const float* w;
  float *y, limit;
  void operator()(std::int64_t i) const { y[i] = std::clamp(w[i], -limit, limit); }
};

void add_kernels(cpu::Kernels& kernels) {
  using cpu::Context, cpu::Loops;
  kernels.add<FourthPowersSpec>([](const FourthPowersSpec& spec, const Context& context) {
    return Loops::sum(context, spec.count, 4, 2, 1.0,
                      [](void* const* operands) { return FourthPower{at(operands, 0)}; });
  });
  kernels.add<CubesSpec>([](const CubesSpec& spec, const Context& context) {
    return Loops::elements(context, spec.count, 12, [spec](void* const* operands) {
      return Cube{at(operands, 0), at(operands, 1), spec.factor};
    });
  });
  kernels.add<BoundSpec>([](const BoundSpec& spec, const Context& context) {
    return Loops::elements(context, spec.count, 8, [spec](void* const* operands) {
      return Bound{at(operands, 0), at(operands, 1), spec.limit};
    });
  });
}

// ---- what configurations name -------------------------------------------------------------------

struct FourthPowersOptions {
  double factor = 0.01;
};

template <class Visitor>
void describe(FourthPowersOptions& options, Visitor& option) {
  option.about("a penalty of factor * the sum of w^4");
  option("factor", options.factor, finite_not_negative, "factor of the penalty");
}

Regularizer make_fourth_powers(const FourthPowersOptions& options) {
  const auto slope = static_cast<float>(4 * options.factor);
  return {.name = "FourthPowers",
          .settings = settings_of(options),
          .sums = {{options.factor,
                    [](std::int64_t count) -> KernelSpec { return FourthPowersSpec{count}; }}},
          .slope = [slope](std::int64_t count) -> KernelSpec {
            return CubesSpec{count, slope};
          }};
}

struct BoundedOptions {
  double limit = 1;
};

template <class Visitor>
void describe(BoundedOptions& options, Visitor& option) {
  option.about("sets weights beyond a limit to that limit after each update");
  option("limit", options.limit, finite_positive, "largest absolute value");
}

Constraint make_bounded(const BoundedOptions& options) {
  const auto limit = static_cast<float>(options.limit);
  return {.name = "Bounded",
          .settings = settings_of(options),
          .elements = [limit](std::int64_t count) -> KernelSpec {
            return BoundSpec{count, limit};
          }};
}

}  // namespace

void add_fourth_powers(Catalog& catalog) {
  catalog.add<Regularizer, FourthPowersOptions>("FourthPowers", {}, make_fourth_powers);
  catalog.add<Constraint, BoundedOptions>("Bounded", {}, make_bounded);
  cpu::extend_kernels(add_kernels);
}

}  // namespace mine
