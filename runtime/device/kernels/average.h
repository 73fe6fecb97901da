// The running mean of parameters, which optimizers keep if asked to (use_ema).
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernels/update.h"

namespace meshwork {

struct AverageForm;

/// Operands: StepScalars, g, w, a, [narrowed w]. g is left alone. a = momentum a + (1 - momentum)
/// w, and w in the first step; w = a in every step that `overwrite_every` divides, if that is not
/// 0.
struct AverageSpec {
  std::int64_t count = 0;
  double momentum = 0.99;
  std::int64_t overwrite_every = 0;
  float decay = 0;      // none
  bool scaled = false;  // never
  bool narrows = false;

  using Form = AverageForm;
  [[nodiscard]] std::string text() const {
    return spec::sized("average", {count}) +
           spec::words({{overwrite_every > 0, "overwrites"}, {narrows, "narrows"}});
  }
  [[nodiscard]] int blocks() const { return 3; }
  [[nodiscard]] KernelWork work() const { return work_of_update(*this); }
};

struct AverageShares {
  float kept, added;
  bool overwrites;
};

class AverageRates {
 public:
  using Result = AverageShares;
  AverageRates(const AverageSpec& spec, const UpdateOperands& in)
      : scalars_(in.scalars()),
        momentum_(static_cast<float>(spec.momentum)),
        overwrite_every_(spec.overwrite_every) {}
  MESHWORK_HOST_DEVICE AverageShares operator()() const {
    const float kept = scalars_->step == 0 ? 0.0f : momentum_;
    return {kept, 1.0f - kept,
            overwrite_every_ > 0 && (scalars_->step + 1) % overwrite_every_ == 0};
  }

 private:
  const StepScalars* scalars_;
  float momentum_;
  std::int64_t overwrite_every_;
};

struct AverageForm {
  float *w, *average;

  AverageForm(const AverageSpec&, const UpdateOperands& in)
      : w(in.block(1)), average(in.block(2)) {}
  [[nodiscard]] static AverageRates step_rates(const AverageSpec& spec, const UpdateOperands& in) {
    return {spec, in};
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const AverageShares& shares) const {
    average[i] = shares.kept * average[i] + shares.added * w[i];
    w[i] = shares.overwrites ? average[i] : w[i];
  }
};

}  // namespace meshwork
