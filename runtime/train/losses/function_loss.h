// Losses that are functions: of a value (kernels/value_losses.h) or of a row
// (kernels/row_losses.h).
//
// A function of values has the rule and the operation of value_comparison.h. A function of rows
// takes the last dimension for the letter k, which axes may split: what is known of a row is
// completed over them, first its maximum, then its sums, and no rank gathers a row. Then the loss
// of a row follows on every rank, and the gradient of a block from that block.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/kernels/row_losses.h"
#include "runtime/device/kernels/value_losses.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/train/losses/comparison.h"
#include "runtime/train/losses/value_comparison.h"

namespace meshwork {

/// What a loss of values needs beside its function.
struct ValueLossForm {
  Predictions predictions = Predictions::any;
  bool binary = false;    // as in make_loss
  bool sums_row = false;  // as in ValueKernels
};

/// The loss of a function of values. `kind` as in make_value_loss.
template <class Function>
[[nodiscard]] SharedLoss make_function_loss(std::string name, std::string kind, Function function,
                                            const ValueLossForm& form = {}) {
  return make_value_loss(
      std::move(name), std::move(kind),
      {.sum =
           [function](std::int64_t count, double scale, std::int64_t values_a_weight) {
             return ValueLossSpec<Function>{count, scale, function, values_a_weight};
           },
       .gradient =
           [function](Lowering& lowering, std::int64_t count, double scale) {
             lowering.emit(ValueSlopeSpec<Function>{count, static_cast<float>(scale), function},
                           {lowering.input(0), lowering.input(1), lowering.input_gradient(0)});
           },
       .sums_row = form.sums_row},
      form.predictions, form.binary);
}

template <class Function>
class RowLossOperation final : public ComparisonOperation {
 public:
  RowLossOperation(std::string kind, Function function, bool weighted)
      : ComparisonOperation(std::move(kind), TargetForm::weights, weighted), function_(function) {}

  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    std::vector<OwnReduction> reductions;
    if (Function::has_maximum) reductions.push_back(row_reduction(rule, 1, false));
    for (const int sums : {Function::sums, Function::further}) {
      if (sums > 0) {
        reductions.push_back(row_reduction(rule, 1, false));
        reductions.back().bytes_per_element = sums * element_bytes(ElementType::float64);
      }
    }
    return reductions;
  }

  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return 3.0 * (Function::has_maximum + Function::sums + Function::further) *
           static_cast<double>(element_count(inputs[0]));
  }

  void forward(Lowering& lowering) const override {
    const std::int64_t rows = rows_of(lowering.local_shape(0));
    const std::int64_t columns = columns_of(lowering.local_shape(0));
    const Known known = known_of(lowering, rows);
    const Function function = function_for(lowering);
    if constexpr (Function::has_maximum) {
      lowering.emit(RowScoreSpec<Function>{rows, columns, function},
                    {lowering.input(0), lowering.input(1), known.maxima});
      reduce_over_classes(lowering, Reduction::maximum, known.maxima, 1, "row maxima");
    }
    const std::vector<Operand> operands{lowering.input(0), lowering.input(1), known.maxima,
                                        known.sums, known.further};
    lowering.emit(RowSumsSpec<Function, false>{rows, columns, function}, operands);
    reduce_over_classes(lowering, Reduction::sum, known.sums, Function::sums, "row sums",
                        ElementType::float64);
    if constexpr (Function::further > 0) {
      lowering.emit(RowSumsSpec<Function, true>{rows, columns, function}, operands);
      reduce_over_classes(lowering, Reduction::sum, known.further, Function::further,
                          "further row sums", ElementType::float64);
    }
    lowering.emit(
        RowLossSpec<Function>{rows, function, rows_a_weight(lowering)},
        with_weights(lowering, {known.maxima, known.sums, known.further}, lowering.output()));
  }

  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) return;
    if constexpr (!Function::has_slope) {
      give_no_gradient(lowering);
    } else {
      const std::int64_t rows = rows_of(lowering.local_shape(0));
      const Known known = known_of(lowering, rows);
      lowering.emit(RowSlopeSpec<Function>{rows, columns_of(lowering.local_shape(0)),
                                           static_cast<float>(mean_factor(lowering)),
                                           function_for(lowering), rows_a_weight(lowering)},
                    with_weights(lowering,
                                 {lowering.input(0), lowering.input(1), known.maxima, known.sums,
                                  known.further},
                                 lowering.input_gradient(0)));
    }
  }

 private:
  // What is known of the rows of this rank; what a function has none of stands for nothing.
  struct Known {
    Operand maxima, sums, further;
  };
  static Known known_of(Lowering& lowering, std::int64_t rows) {
    const Operand sums = lowering.scratch("row sums", rows * Function::sums, ElementType::float64);
    return {Function::has_maximum ? lowering.scratch("row maxima", rows) : sums, sums,
            Function::further > 0 ? lowering.scratch("further row sums", rows * Function::further,
                                                     ElementType::float64)
                                  : sums};
  }

  [[nodiscard]] Function function_for(const Lowering& lowering) const {
    if constexpr (requires { function_.of_classes(0); }) {
      return function_.of_classes(class_count(lowering.global_shape(0)));
    } else {
      return function_;
    }
  }

  std::vector<Operand> with_weights(Lowering& lowering, std::vector<Operand> operands,
                                    const Operand& result) const {
    if (weighted()) operands.push_back(lowering.input(2));
    operands.push_back(result);
    return operands;
  }

  Function function_;
};

/// The loss of a function of rows.
template <class Function>
[[nodiscard]] SharedLoss make_row_loss(std::string name, std::string kind, Function function,
                                       Predictions predictions = Predictions::any) {
  return make_loss(
      std::move(name), TargetForm::weights,
      [kind = std::move(kind), function](bool weighted) {
        return std::make_unique<RowLossOperation<Function>>(kind, function, weighted);
      },
      predictions);
}

/// The metric of a function of rows, of which more is better.
template <class Function>
[[nodiscard]] SharedMetric make_row_metric(std::string name, std::string kind, Function function) {
  return make_metric(std::move(name), TargetForm::weights,
                     [kind = std::move(kind), function](bool weighted) {
                       return std::make_unique<RowLossOperation<Function>>(kind, function,
                                                                           weighted);
                     },
                     {.better = Better::higher, .value = {}, .weighs = true});
}

}  // namespace meshwork
