// SignMomentum: steps of one size a weight, by the sign of the mean of gradients ("Signum", Bernstein
// et al., arXiv:1802.04434).
//
//     m = momentum * m + (1 - momentum) * g;  w -= rate * sign(m)
//
// An update is one pass over a block of weights, their gradients and what is kept for each weight.
// Clipping, weight decay, schedules, sharded state and checkpoints come with `make_optimizer`.
#include <meshwork/extension.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/device/cpu/update_loops.h"
#include "runtime/train/optimizers/make.h"

namespace mine {

using namespace meshwork;

namespace {

struct SignMomentumForm;

// Operands: StepScalars, [factor], g, w, m, [narrowed w]. Weights are "w", as loops expect.
struct SignMomentumSpec {
  std::int64_t count = 0;
  double momentum = 0.9;
  float decay = 0;
  bool scaled = false, narrows = false;

  using Form = SignMomentumForm;
  [[nodiscard]] std::string text() const {
    return spec::sized("sign momentum", {count}) + words_of_update(*this);
  }
  [[nodiscard]] int blocks() const { return 3; }
  [[nodiscard]] KernelWork work() const { return work_of_update(*this); }
};

// What one element does.
struct SignMomentumForm {
  const float* g;
  float *w, *m;
  float kept, added;

  SignMomentumForm(const SignMomentumSpec& spec, const UpdateOperands& in)
      : g(in.block(0)),
        w(in.block(1)),
        m(in.block(2)),
        kept(static_cast<float>(spec.momentum)),
        added(static_cast<float>(1 - spec.momentum)) {}
  [[nodiscard]] static PlainRates step_rates(const SignMomentumSpec& spec,
                                             const UpdateOperands& in) {
    return {spec.decay, in};
  }
  void operator()(std::int64_t i, const UpdateRates& of) const {
    const float mean = kept * m[i] + added * (g[i] * of.factor);
    const float sign = mean > 0 ? 1.0f : mean < 0 ? -1.0f : 0.0f;
    m[i] = mean;
    w[i] -= w[i] * of.decay + of.rate * sign;
  }
};

struct SignMomentumOptions {
  Schedule learning_rate = 0.001;
  double momentum = 0.9;
  std::optional<double> weight_decay;
  std::vector<std::string> exclude_from_weight_decay;
  std::optional<double> clipnorm, clipvalue, global_clipnorm;
  MovingAverage ema;
};

template <class Visitor>
void describe(SignMomentumOptions& options, Visitor& option) {
  option.about("steps by the sign of the mean of gradients");
  describe_common(options, option);
  option("momentum", options.momentum, at_least(0).below(1), "share of the mean kept per step");
}

Optimizer make_sign_momentum(const SignMomentumOptions& options) {
  return make_optimizer("SignMomentum", options, {{"momentum"}},
                        SignMomentumSpec{.momentum = options.momentum});
}

}  // namespace

void add_sign_momentum(Catalog& catalog) {
  catalog.add<Optimizer, SignMomentumOptions>("SignMomentum", {}, make_sign_momentum);
  cpu::extend_kernels([](cpu::Kernels& kernels) {
    kernels.add<SignMomentumSpec>([](const SignMomentumSpec& spec, const cpu::Context& context) {
      return cpu::compile_update(spec, context);
    });
  });
}

}  // namespace mine
