// Which rows count. Bound by memory traffic.
#pragma once

#include "runtime/device/body_forms.h"
#include "runtime/device/folds.h"
#include "runtime/device/kernels/masks.h"

namespace meshwork::bodies {

/// A mask of rows. Null: all count.
struct RowMask {
  const float* mask;
  std::int64_t rows_a_mask;
  [[nodiscard]] MESHWORK_HOST_DEVICE bool counts(std::int64_t row) const {
    return mask == nullptr || mask[row / rows_a_mask] != 0.0f;
  }
};

template <class Number>
struct Mask {
  using Fold = folds::Added<std::int64_t>;
  const Number* x;
  RowMask mask;
  float* y;
  Number value;
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t term(std::int64_t, std::int64_t,
                                                       std::int64_t i) const {
    return x[i] != value ? 1 : 0;
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, std::int64_t different) const {
    y[row] = different > 0 && mask.counts(row) ? 1.0f : 0.0f;
  }
};
struct MaskedRows {
  const float* x;
  RowMask mask;
  float* y;
  struct Row {
    const float* x;
    float* y;
    bool counts;
    MESHWORK_HOST_DEVICE void operator()(std::int64_t, std::int64_t i) const {
      y[i] = counts ? x[i] : 0.0f;
    }
  };
  [[nodiscard]] MESHWORK_HOST_DEVICE Row row(std::int64_t row) const {
    return {x, y, mask.counts(row)};
  }
};
struct MaskedClass {
  const std::int32_t* t;
  RowMask mask;
  std::int32_t* y;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t row) const {
    y[row] = mask.counts(row) ? t[row] : -1;
  }
};
struct Counted {
  const float* mask;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t i) const {
    return mask[i] != 0.0f ? 1.0 : 0.0;
  }
};

template <class Loops, class Number>
auto mask_of(const MaskSpec& spec, const auto& context) {
  return Loops::rows(context, spec.rows, spec.columns, 4, [=](void* const* operands) {
    const bool masked = spec.rows_a_mask > 0;
    return Mask<Number>{at<const Number>(operands, 0),
                        {masked ? at<const float>(operands, 1) : nullptr, spec.rows_a_mask},
                        at(operands, masked ? 2 : 1),
                        static_cast<Number>(spec.value)};
  });
}

template <class Loops>
void add_masks(auto& kernels) {
  kernels.template add<MaskSpec>([](const MaskSpec& spec, const auto& context) {
    return spec.type == ElementType::int32 ? mask_of<Loops, std::int32_t>(spec, context)
                                           : mask_of<Loops, float>(spec, context);
  });
  kernels.template add<MaskedRowsSpec>([](const MaskedRowsSpec& spec, const auto& context) {
    return Loops::grid(context, spec.rows, spec.columns, 8, [](void* const* operands) {
      return MaskedRows{at(operands, 0), {at(operands, 1), 1}, at(operands, 2)};
    });
  });
  kernels.template add<MaskedClassSpec>([](const MaskedClassSpec& spec, const auto& context) {
    return Loops::elements(context, spec.rows, 12,
                           [rows_a_mask = spec.rows_a_mask](void* const* operands) {
                             return MaskedClass{at<const std::int32_t>(operands, 0),
                                                {at(operands, 1), rows_a_mask},
                                                at<std::int32_t>(operands, 2)};
                           });
  });
  kernels.template add<MaskCountSpec>([](const MaskCountSpec& spec, const auto& context) {
    return Loops::sum(context, spec.count, 4, 2, spec.scale,
                      [](void* const* operands) { return Counted{at(operands, 0)}; });
  });
}

}  // namespace meshwork::bodies
