#include "runtime/graph/step/update.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/narrowing.h"

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
        update(stretch, factor);
      }
    } else {
      const OwnSquares squares = places_of_own_squares();
      for (const UpdatedStretch& stretch : step_.form.updates) {
        complete_gradients(stretch);
        book_own_squares(stretch, squares);
        clip_by_value(stretch);
        update(stretch, std::nullopt);
      }
      report_own_squares(squares);
    }
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
      if (regularizer.active()) {
        step_.builder.emit(PenaltyGradientSpec{end - begin, regularizer.l1, regularizer.l2},
                           {step_.value_at(span.group, begin), step_.gradient_at(begin)},
                           variable.path + " penalty");
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

  void update(const UpdatedStretch& stretch, const std::optional<Operand>& factor) {
    std::vector<Operand> operands{step_.scalars};
    if (factor) {
      operands.push_back(*factor);
    }
    operands.push_back(step_.gradient_at(stretch.offset));
    operands.push_back(step_.value_at(stretch.group, stretch.offset));
    const ParameterGroup& form = step_.form.groups[stretch.group];
    const StepContext::Group& group = step_.groups[stretch.group];
    for (const Buffer& slot : group.slots) {
      operands.push_back(Operand(slot).after(stretch.offset - form.offset));
    }
    const bool narrows = form.narrowed;
    if (narrows) {
      operands.emplace_back(group.narrow, form.place(stretch.offset) * bfloat16_bytes);
    }
    step_.builder.emit(
        step_.request.update->kernel(
            {.count = stretch.count, .scaled = factor.has_value(), .narrows = narrows}),
        operands, "update");
  }

  // The sharers of the groups of this home.
  void meet_about(Home home, const std::string& what) {
    for (const std::vector<Axis>& axes : shared_axes(step_.form, home)) {
      step_.builder.emit(step_.collectives.barrier_of_sharers(axes, {step_.phase, what}), {}, what);
    }
  }

  // ---- the norm that is reported, where nothing is clipped by norms ------------------------------

  // The squared norms of what this rank counts, in the order of the variables; none where no norm is
  // reported.
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
      if (span.updated && span.count > 0 && sums_.counts(span.layout.splitting_axes())) {
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

  // The squared norm of every variable that is updated, in the order of the variables.
  struct SquaredNorms {
    std::vector<const ParameterSpan*> spans;
    Buffer at;  // float64

    [[nodiscard]] std::int64_t count() const { return std::ssize(spans); }
    [[nodiscard]] Operand of(std::int64_t index) const {
      return {at, index * element_bytes(ElementType::float64)};
    }
  };

  SquaredNorms book_squared_norms() {
    SquaredNorms squares;
    for (const ParameterSpan& span : step_.form.spans) {
      if (span.updated) {
        squares.spans.push_back(&span);
      }
    }
    const std::int64_t count = squares.count();
    const std::int64_t bytes = element_bytes(ElementType::float64);
    const std::vector<Axis> axes = step_.axes_of_trainable_variables();
    squares.at = step_.builder.scratch(count * bytes, "squared norms");
    for (std::int64_t i = 0; i < count; ++i) {
      const ParameterSpan& span = *squares.spans[i];
      const std::string label = path_of(span) + " norm";
      if (step_.counts(axes, span.layout.splitting_axes())) {
        step_.builder.emit(PowerSumSpec{span.count, 2},
                           {step_.gradient_of(span.variable), squares.of(i)}, label);
      } else {
        step_.builder.emit(ZeroSpec{bytes}, {squares.of(i)}, label);
      }
    }
    if (!axes.empty()) {
      step_.builder.emit(
          step_.collectives.book(step_.use_over(axes, count, "squared norms of gradients"),
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
    const SquaredNorms squares = book_squared_norms();
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
    const SquaredNorms squares = book_squared_norms();
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
