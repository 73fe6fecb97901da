#include "runtime/graph/step/update.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/kernels/adafactor.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/middle.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/narrowing.h"
#include "runtime/graph/step/orthogonal_step.h"

namespace meshwork {
namespace {

class Update {
 public:
  Update(StepContext& step, StepGradients& gradients, StepSums& sums)
      : step_(step), gradients_(gradients), sums_(sums) {}

  void book() {
    // That joined blocks are written the next gathering says.
    meet_about(Home::joined, "variables are not read any more");
    if (needs_norms(step_.request.update->clipping)) {
      for (const UpdatedStretch& stretch : step_.form.updates) {
        complete_gradients(stretch);
      }
      const std::optional<Operand> factor = clip_by_norms();
      for (const UpdatedStretch& stretch : step_.form.updates) {
        update_all(stretch, factor);
      }
    } else {
      const OwnSquares squares = places_of_own_squares();
      for (const UpdatedStretch& stretch : step_.form.updates) {
        complete_gradients(stretch);
        book_own_squares(stretch, squares);
        clip_by_value(stretch);
        update_all(stretch, std::nullopt);
      }
      report_own_squares(squares);
    }
    factor_slot();
    take_scaled_steps();
    keep_averages();
    constrain();
    meet_about(Home::one_copy, "variables are updated");
  }

 private:
  [[nodiscard]] const std::string& path_of(const ParameterSpan& span) const {
    return step_.graph.variables[span.variable].path;
  }

  // Books what has to be there before a stretch is updated: its reduction, and penalties.
  void complete_gradients(const UpdatedStretch& stretch) {
    wait_for_buckets_of(stretch);
    for (const ParameterSpan& span : step_.form.spans) {
      const std::int64_t begin = std::max(span.offset, stretch.offset);
      const std::int64_t end = std::min(span.offset + span.count, stretch.offset + stretch.count);
      if (!span.updated || begin >= end) {
        continue;
      }
      const Variable& variable = step_.graph.variables[span.variable];
      // Only its penalty counts, and backward has left here what the last step did.
      if (!step_.plan.tensors[variable.tensor].gradient) {
        step_.builder.emit(ZeroSpec{(end - begin) * float32_bytes}, {step_.gradient_at(begin)},
                           variable.path + " gradient");
      }
      const Regularizer& regularizer = variable.options.regularizer;
      if (regularizer.slope) {
        step_.builder.emit(regularizer.slope(end - begin),
                           {step_.value_at(span.group, begin), step_.gradient_at(begin)},
                           variable.path + " penalty");
      }
      if (const WholePenalty* of = sums_.whole_penalty(span.variable)) {
        book_derivative_of(step_, span, *of);
      }
    }
  }

  void wait_for_buckets_of(const UpdatedStretch& stretch) {
    if (stretch.bucket >= 0) {
      gradients_.wait_for(stretch.bucket);
      return;
    }
    for (int b = 0; b < static_cast<int>(step_.form.buckets.size()); ++b) {
      if (step_.form.buckets[b].group == stretch.group) {
        gradients_.wait_for(b);
      }
    }
  }

  void update(const UpdatedStretch& stretch, const std::optional<Operand>& factor,
              bool decays = true) {
    std::vector<Operand> operands{step_.scalars};
    if (factor) {
      operands.push_back(*factor);
    }
    operands.push_back(step_.gradient_at(stretch.offset));
    operands.push_back(step_.value_at(stretch.group, stretch.offset));
    const UpdateRule& rule = *step_.request.update;
    for (std::size_t slot = 0; slot < rule.slots.size() - (rule.average ? 1 : 0); ++slot) {
      operands.push_back(slot_at(stretch, slot));
    }
    const bool narrows = step_.form.groups[stretch.group].narrowed && !rule.scaled_steps;
    if (narrows) {
      operands.push_back(narrow_at(stretch.group, stretch.offset));
    }
    step_.builder.emit(rule.kernel({.count = stretch.count,
                                    .scaled = factor.has_value(),
                                    .narrows = narrows,
                                    .decays = decays}),
                       operands, "update");
  }

  [[nodiscard]] bool decays(const ParameterSpan& span) const {
    const UpdateRule& rule = *step_.request.update;
    return !rule.decays || rule.decays(step_.graph.variables[span.variable]);
  }

  // In one pass a run of variables that lie side by side and decay alike.
  void update_runs(const UpdatedStretch& stretch, const std::optional<Operand>& factor) {
    struct Run {
      std::int64_t begin, end;
      bool decays;
    };
    std::vector<Run> runs;
    for (const ParameterSpan& span : step_.form.spans) {
      const std::int64_t begin = std::max(span.offset, stretch.offset);
      const std::int64_t end = std::min(span.offset + span.count, stretch.offset + stretch.count);
      if (span.updated && begin < end) {
        runs.push_back({begin, end, decays(span)});
      }
    }
    std::ranges::sort(runs, {}, &Run::begin);
    for (std::size_t first = 0, behind = 0; first < runs.size(); first = behind) {
      while (behind < runs.size() && runs[behind].decays == runs[first].decays) ++behind;
      const Run& run = runs[first];
      update({stretch.group, stretch.bucket, run.begin, runs[behind - 1].end - run.begin}, factor,
             run.decays);
    }
  }

  // In one pass, unless some variables are updated in another way than others.
  void update_all(const UpdatedStretch& stretch, const std::optional<Operand>& factor) {
    const std::optional<MatrixSteps>& matrices = step_.request.update->matrix_steps;
    if (!matrices) {
      step_.request.update->decays ? update_runs(stretch, factor) : update(stretch, factor);
      return;
    }
    for (const ParameterSpan& span : step_.form.spans) {
      if (!span.updated || !span.held || span.group != stretch.group) {
        continue;
      }
      const UpdatedStretch own{span.group, stretch.bucket, span.offset, span.count};
      if (matrices->takes(step_.graph.variables[span.variable])) {
        step_by_matrix(span, own, factor);
      } else {
        update(own, factor, decays(span));
      }
    }
  }

  void step_by_matrix(const ParameterSpan& span, const UpdatedStretch& own,
                      const std::optional<Operand>& factor) {
    const MatrixSteps& steps = *step_.request.update->matrix_steps;
    const std::string label = "step of " + path_of(span);
    const Operand gradient = step_.gradient_at(own.offset), sum = slot_at(own, 0);
    const auto emit = [&](const KernelSpec& spec, std::vector<Operand> operands) {
      step_.builder.emit(spec, std::move(operands), label);
    };
    if (factor) {
      emit(ScaleBySpec{own.count}, {*factor, gradient});
    }
    emit(AffineSpec{own.count, steps.momentum, 0}, {sum, sum});
    emit(SumSpec{own.count, 2}, {sum, gradient, sum});
    if (steps.nesterov) {
      const Operand ahead = step_.builder.scratch(own.count * float32_bytes, label);
      emit(AffineSpec{own.count, steps.momentum, 0}, {sum, ahead});
      emit(SumSpec{own.count, 2}, {gradient, ahead, gradient});
    }
    const Operand step = book_orthogonal(step_, span, steps.nesterov ? gradient : sum, steps);
    std::vector<Operand> operands{step_.scalars, step, step_.value_at(own.group, own.offset)};
    const bool narrows = step_.form.groups[own.group].narrowed;
    if (narrows) {
      operands.push_back(narrow_at(own.group, own.offset));
    }
    emit(steps.kernel({.count = own.count, .narrows = narrows, .decays = decays(span)}), operands);
  }

  void keep_averages() {
    const UpdateRule& rule = *step_.request.update;
    if (!rule.average) {
      return;
    }
    for (const UpdatedStretch& stretch : step_.form.updates) {
      std::vector<Operand> operands{step_.scalars, step_.gradient_at(stretch.offset),
                                    step_.value_at(stretch.group, stretch.offset),
                                    slot_at(stretch, rule.slots.size() - 1)};
      const bool narrows = step_.form.groups[stretch.group].narrowed;
      if (narrows) {
        operands.push_back(narrow_at(stretch.group, stretch.offset));
      }
      step_.builder.emit(rule.average({.count = stretch.count, .narrows = narrows}), operands,
                         "average");
    }
  }

  [[nodiscard]] Operand slot_at(const UpdatedStretch& stretch, std::size_t slot) const {
    return Operand(step_.groups[stretch.group].slots[slot])
        .after(stretch.offset - step_.form.groups[stretch.group].offset);
  }

  [[nodiscard]] Operand narrow_at(int group, std::int64_t offset) const {
    return {step_.groups[group].narrow, step_.form.groups[group].place(offset) * bfloat16_bytes};
  }

  // Steps stand where gradients did. Each variable takes its own, times its factor.
  void take_scaled_steps() {
    const std::optional<ScaledSteps>& steps = step_.request.update->scaled_steps;
    if (!steps) {
      return;
    }
    const auto values_of = [&](const ParameterSpan& span) {
      return step_.value_at(span.group, span.offset);
    };
    const auto steps_of = [&](const ParameterSpan& span) {
      return step_.gradient_of(span.variable);
    };
    const SquaredNorms squares =
        book_squared_norms({values_of, steps_of}, "squared norms of variables and steps");
    for (std::int64_t i = 0; i < squares.count(); ++i) {
      const ParameterSpan& span = *squares.spans[i];
      const std::string label = "step of " + path_of(span);
      const Buffer factor = step_.builder.scratch(float32_bytes, label);
      step_.builder.emit(steps->factor(element_count(shape_of_variable(span))),
                         {squares.of(i, 0), squares.of(i, 1), factor}, label);
      const bool narrows = step_.form.groups[span.group].narrowed;
      std::vector<Operand> operands{step_.scalars, factor, steps_of(span), values_of(span)};
      if (narrows) {
        operands.push_back(narrow_at(span.group, span.offset));
      }
      step_.builder.emit(steps->kernel({.count = span.count, .scaled = true, .narrows = narrows}),
                         operands, label);
    }
  }

  // What their constraints leave of variables.
  void constrain() {
    for (const ParameterSpan& span : step_.form.spans) {
      const Variable& variable = step_.graph.variables[span.variable];
      const Constraint& constraint = variable.options.constraint;
      if (!span.updated || !span.held || !constraint.active()) {
        continue;
      }
      const Operand values = step_.value_of(span.variable);
      if (constraint.elements) {
        step_.builder.emit(constraint.elements(span.count), {values, values},
                           variable.path + " constraint");
      }
      if (constraint.norms) change_norms(span, *constraint.norms, values);
      if (step_.form.groups[span.group].narrowed) {
        step_.builder.emit(NarrowSpec{span.count}, {values, narrow_at(span.group, span.offset)},
                           variable.path + " constraint");
      }
    }
  }

  // The shape of the whole variable.
  [[nodiscard]] const Shape& shape_of_variable(const ParameterSpan& span) const {
    return step_.shapes[step_.graph.variables[span.variable].tensor];
  }

  // What stands before dimension `first`, from there to `last`, and behind that.
  static MiddleExtents extents(const Shape& of, std::size_t first, std::size_t last) {
    const auto product = [&](std::size_t begin, std::size_t end) {
      return element_count(std::span(of).subspan(begin, end - begin));
    };
    return {.outer = product(0, first),
            .middle = product(first, last + 1),
            .inner = product(last + 1, of.size())};
  }

  // Completes `count` sums over dimensions `first` to `last` of a variable, over the ranks that
  // split these; `global` is how many there are of the whole variable.
  void add_up(const ParameterSpan& span, std::size_t first, std::size_t last, ElementType type,
              const Operand& sums, std::int64_t count, std::int64_t global,
              const std::string& what) {
    std::vector<Axis> axes;
    for (std::size_t d = first; d <= last; ++d) {
      const std::vector<Axis>& splits = span.layout.dimensions[d];
      axes.insert(axes.end(), splits.begin(), splits.end());
    }
    if (!axes.empty()) {
      std::ranges::sort(axes);
      const std::string label = what + " of " + path_of(span);
      step_.builder.emit(step_.collectives.book(step_.use_over(axes, global, label),
                                                AllReduce{type, Reduction::sum, count}),
                         {sums}, label);
    }
  }

  // The means of the whole variable over dimension `d` of `values`, an array in which the first
  // dimensions are the variable's: of shape `local`, of the whole variable `global`.
  Operand means_over(const ParameterSpan& span, std::size_t d, const Operand& values,
                     const Shape& local, const Shape& global, const std::string& what) {
    const MiddleExtents at = extents(local, d, d), whole = extents(global, d, d);
    const std::int64_t count = at.outer * at.inner;
    const Buffer means = step_.builder.scratch(count * float32_bytes, what);
    step_.builder.emit(MiddleSumSpec{at, 1.0f / static_cast<float>(whole.middle)}, {values, means},
                       what + " of " + path_of(span));
    add_up(span, d, d, ElementType::float32, means, count, whole.outer * whole.inner, what);
    return means;
  }

  void factor_slot() {
    const std::optional<FactoredSlot>& factored = step_.request.update->factored_slot;
    if (!factored) {
      return;
    }
    for (const ParameterSpan& span : step_.form.spans) {
      if (!span.updated || !span.held) {
        continue;
      }
      const Operand slot = slot_at(
          {.group = span.group, .offset = span.offset, .count = span.count}, factored->slot);
      Shape local = shape_of(span.block), global = shape_of_variable(span);
      if (global.size() >= 2) {
        const std::size_t row = global.size() - 2;
        const MiddleExtents at = extents(local, row, row);
        const Operand of_columns = means_over(span, row, slot, local, global, "means of columns");
        const Operand of_rows = means_over(span, row + 1, slot, local, global, "means of rows");
        local.pop_back();
        global.pop_back();
        const Operand of_all = means_over(span, row, of_rows, local, global, "means of matrices");
        step_.builder.emit(OuterProductSpec{at.outer, at.middle, at.inner},
                           {of_rows, of_columns, of_all, slot}, "factors of " + path_of(span));
      }
      step_.builder.emit(factored->kernel(span.count), {slot, step_.gradient_of(span.variable)},
                         "step of " + path_of(span));
    }
  }

  // Norms of the whole variable: the ranks that split the dimensions of one add up its squares.
  void change_norms(const ParameterSpan& span, const NormRule& rule, const Operand& values) {
    const Shape& shape = shape_of_variable(span);
    const auto [first, last] = constrained_dimensions(rule.axis, shape);
    const MiddleExtents at = extents(shape_of(span.block), first, last);
    const MiddleExtents global = extents(shape, first, last);
    const std::int64_t count = at.outer * at.inner;
    const std::string label = path_of(span) + " constraint";
    const Buffer squares =
        step_.builder.scratch(count * element_bytes(ElementType::float64), label);
    const Buffer factors = step_.builder.scratch(count * float32_bytes, label);
    step_.builder.emit(MiddleSquaresSpec{at}, {values, squares}, label);
    add_up(span, first, last, ElementType::float64, squares, count, global.outer * global.inner,
           "norms");
    step_.builder.emit(rule.factors(count), {squares, factors}, label);
    step_.builder.emit(MiddleScaleSpec{at}, {values, factors, values}, label);
  }

  // The sharers of the groups of this home.
  void meet_about(Home home, const std::string& what) {
    for (const std::vector<Axis>& axes : shared_axes(step_.form, home)) {
      step_.builder.emit(step_.collectives.barrier_of_sharers(axes, {step_.phase, what}), {}, what);
    }
  }

  // ---- the norm that is reported, where nothing is clipped by norms -----------------------------

  // The squared norms of what this rank counts, in the order of the variables; none where no norm
  // is reported.
  struct OwnSquares {
    std::vector<const ParameterSpan*> spans;
    Buffer at;  // float64
  };

  OwnSquares places_of_own_squares() {
    OwnSquares squares;
    if (!sums_.has_gradient_norm()) {
      return squares;
    }
    for (const ParameterSpan& span : step_.form.spans) {
      if (span.updated && span.count > 0 && sums_.counts(span.layout)) {
        squares.spans.push_back(&span);
      }
    }
    squares.at = step_.builder.scratch(
        std::ssize(squares.spans) * element_bytes(ElementType::float64), "squared norms");
    return squares;
  }

  // Those of the variables in a stretch, before anything is clipped.
  void book_own_squares(const UpdatedStretch& stretch, const OwnSquares& squares) {
    for (std::size_t i = 0; i < squares.spans.size(); ++i) {
      const ParameterSpan& span = *squares.spans[i];
      if (span.offset >= stretch.offset && span.offset < stretch.offset + stretch.count) {
        const auto place = static_cast<std::int64_t>(i) * element_bytes(ElementType::float64);
        step_.builder.emit(PowerSumSpec{span.count, 2},
                           {step_.gradient_of(span.variable), Operand{squares.at, place}},
                           path_of(span) + " norm");
      }
    }
  }

  void report_own_squares(const OwnSquares& squares) {
    if (sums_.has_gradient_norm()) {
      step_.builder.emit(WeightedSumSpec{std::vector<double>(squares.spans.size(), 1.0)},
                         {squares.at, sums_.place_of_gradient_norm()}, "squared global norm");
    }
  }

  // ---- clipping ---------------------------------------------------------------------------------

  // Squared norms of every variable that is updated, in the order of the variables: of its
  // gradient, or several side by side.
  struct SquaredNorms {
    std::vector<const ParameterSpan*> spans;
    std::int64_t of_each = 1;
    Buffer at;  // float64

    [[nodiscard]] std::int64_t count() const { return std::ssize(spans); }
    [[nodiscard]] Operand of(std::int64_t index, std::int64_t which = 0) const {
      return {at, (index * of_each + which) * element_bytes(ElementType::float64)};
    }
  };

  SquaredNorms norms_of_gradients() {
    return book_squared_norms(
        {[&](const ParameterSpan& span) { return step_.gradient_of(span.variable); }},
        "squared norms of gradients");
  }

  // Of what stands where `places` say.
  SquaredNorms book_squared_norms(
      const std::vector<std::function<Operand(const ParameterSpan&)>>& places,
      const std::string& what) {
    SquaredNorms squares;
    for (const ParameterSpan& span : step_.form.spans) {
      if (span.updated) {
        squares.spans.push_back(&span);
      }
    }
    squares.of_each = std::ssize(places);
    const std::int64_t count = squares.count() * squares.of_each;
    const std::int64_t bytes = element_bytes(ElementType::float64);
    const std::vector<Axis> axes = step_.axes_of_trainable_variables();
    squares.at = step_.builder.scratch(count * bytes, "squared norms");
    for (std::int64_t i = 0; i < squares.count(); ++i) {
      const ParameterSpan& span = *squares.spans[i];
      const std::string label = path_of(span) + " norm";
      for (std::int64_t k = 0; k < squares.of_each; ++k) {
        if (step_.counts(axes, span.layout)) {
          step_.builder.emit(PowerSumSpec{span.count, 2}, {places[k](span), squares.of(i, k)},
                             label);
        } else {
          step_.builder.emit(ZeroSpec{bytes}, {squares.of(i, k)}, label);
        }
      }
    }
    if (!axes.empty()) {
      step_.builder.emit(
          step_.collectives.book(step_.use_over(axes, count, what),
                                 AllReduce{ElementType::float64, Reduction::sum, count}),
          {squares.at}, "squared norms");
    }
    return squares;
  }

  void clip_by_value(const UpdatedStretch& stretch) {
    if (step_.request.update->clipping == Clipping::value) {
      step_.builder.emit(ClampSpec{stretch.count, step_.request.update->clip},
                         {step_.gradient_at(stretch.offset)}, "clip by value");
    }
  }

  // The squares are those of all ranks already, so one of them counts.
  void report(const SquaredNorms& squares) {
    if (!sums_.has_gradient_norm()) {
      return;
    }
    const double counted = sums_.counts({}) ? 1.0 : 0.0;
    step_.builder.emit(WeightedSumSpec{std::vector<double>(squares.spans.size(), counted)},
                       {squares.at, sums_.place_of_gradient_norm()}, "squared global norm");
  }

  void clip_by_norm(float clip) {
    const SquaredNorms squares = norms_of_gradients();
    report(squares);
    for (std::int64_t i = 0; i < squares.count(); ++i) {
      const ParameterSpan& span = *squares.spans[i];
      const std::string label = "clip " + path_of(span);
      const Buffer factor = step_.builder.scratch(float32_bytes, label);
      step_.builder.emit(ClipFactorSpec{clip, false}, {squares.of(i), factor}, label);
      step_.builder.emit(ScaleBySpec{span.count}, {factor, step_.gradient_of(span.variable)},
                         label);
    }
  }

  // The factor for all gradients, which the fused update applies.
  Operand global_clip_factor(float clip) {
    const SquaredNorms squares = norms_of_gradients();
    report(squares);
    const Buffer total =
        step_.builder.scratch(element_bytes(ElementType::float64), "squared global norm");
    const Buffer factor = step_.builder.scratch(float32_bytes, "clip factor");
    step_.builder.emit(WeightedSumSpec{std::vector<double>(squares.spans.size(), 1.0)},
                       {squares.at, total}, "squared global norm");
    step_.builder.emit(ClipFactorSpec{clip, true}, {total, factor}, "clip by global norm");
    return factor;
  }

  // A factor that is left to the update, if there is one.
  std::optional<Operand> clip_by_norms() {
    const float clip = step_.request.update->clip;
    if (step_.request.update->clipping == Clipping::global_norm) {
      return global_clip_factor(clip);
    }
    clip_by_norm(clip);
    return std::nullopt;
  }

  StepContext& step_;
  StepGradients& gradients_;
  StepSums& sums_;
};

}  // namespace

void update_parameters(StepContext& step, StepGradients& gradients, StepSums& sums) {
  Update(step, gradients, sums).book();
}

}  // namespace meshwork
