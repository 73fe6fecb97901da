#include "runtime/graph/lower.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/philox.h"
#include "runtime/graph/lowering.h"
#include "runtime/mesh/lower_redistribution.h"

namespace meshwork {
namespace {

class OperationLowering;

// Books one step. Values are found by tensor and layout; gradients are collected by tensor until
// all uses have contributed.
class StepLowering {
 public:
  StepLowering(const LoweringRequest& request, ProgramBuilder& builder,
               MeshCollectives& collectives)
      : request_(request),
        plan_(*request.plan),
        graph_(*request.plan->graph),
        form_(*request.form),
        builder_(builder),
        collectives_(collectives) {}

  LoweredStep lower() {
    find_needed_operations();
    find_shapes();
    book_memory();
    feed();
    phase_ = "forward";
    forward();
    if (request_.mode == Mode::predict) {
      give_output();
      return std::move(step_);
    }
    complete_sums();
    if (request_.mode == Mode::train) {
      phase_ = "backward";
      backward();
      phase_ = "update";
      update();
    }
    phase_ = "metrics";
    reduce_sums();
    return std::move(step_);
  }

 private:
  friend class OperationLowering;

  using ByLayout = std::vector<std::pair<Layout, Operand>>;

  // ---- preparation ------------------------------------------------------------------------------

  // Prediction leaves out what only losses and metrics need.
  void find_needed_operations() {
    needed_.assign(plan_.operations.size(), true);
    if (request_.mode != Mode::predict) {
      return;
    }
    std::vector<bool> wanted(graph_.tensors.size(), false);
    for (const TensorId output : graph_.outputs) {
      wanted[output] = true;
    }
    for (std::size_t o = plan_.operations.size(); o-- > 0;) {
      needed_[o] = wanted[plan_.operations[o].output];
      if (needed_[o]) {
        for (const TensorId input : plan_.operations[o].inputs) {
          wanted[input] = true;
        }
      }
    }
  }

  void find_shapes() {
    for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors.size()); ++id) {
      shapes_.push_back(graph_.shape_of(id, request_.rows));
    }
  }

  void book_memory() {
    const Parameters* parameters = request_.parameters;
    const std::int64_t bytes = form_.trainable_count * 4;
    values_ = builder_.external(parameters ? parameters->values() : nullptr, bytes, "parameters");
    fixed_ = builder_.external(parameters ? parameters->fixed() : nullptr, form_.fixed_count * 4,
                               "fixed variables");
    gradients_ =
        builder_.external(parameters ? parameters->gradients() : nullptr, bytes, "gradients");
    scalars_ = builder_.external(request_.step_scalars, sizeof(StepScalars), "step scalars");

    available_.resize(graph_.tensors.size());
    contributions_.resize(graph_.tensors.size());
    gradient_at_.resize(graph_.tensors.size());
    natural_.resize(plan_.operations.size());
    scratch_.resize(plan_.operations.size());
    for (int v = 0; v < static_cast<int>(graph_.variables.size()); ++v) {
      const TensorId tensor = graph_.variables[v].tensor;
      available_[tensor].emplace_back(plan_.tensors[tensor].layout, value_of(v));
    }
    if (request_.mode != Mode::predict) {
      for (std::size_t o = 0; o < plan_.operations.size(); ++o) {
        const TensorId output = plan_.operations[o].output;
        if (shapes_[output].empty()) {
          step_.sum_tensors.push_back(output);
        }
      }
      step_.has_penalty = std::any_of(
          graph_.variables.begin(), graph_.variables.end(), [](const Variable& variable) {
            return variable.options.trainable && variable.options.regularizer.active();
          });
      const std::int64_t count =
          static_cast<std::int64_t>(step_.sum_tensors.size()) + (step_.has_penalty ? 1 : 0);
      step_.sums = builder_.scratch(count * 8, "sums");
      builder_.keep(step_.sums);
    }
  }

  void feed() {
    for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors.size()); ++id) {
      const GraphTensor& tensor = graph_.tensors[id];
      const bool is_target = tensor.role == TensorRole::target;
      if (tensor.role != TensorRole::input && !(is_target && request_.mode != Mode::predict)) {
        continue;
      }
      const Layout& layout = plan_.tensors[id].layout;
      const Block block = block_of(layout, shapes_[id], plan_.mesh, collectives_.rank());
      const std::int64_t count = element_count(shape_of(block));
      const auto type = request_.fed.find(id);
      const ElementType fed = type == request_.fed.end() ? ElementType::float32 : type->second;
      const auto memory = request_.feeds.find(id);
      const Buffer at = builder_.external(memory == request_.feeds.end() ? nullptr : memory->second,
                                          count * element_bytes(fed), tensor_name(id));
      step_.fed_blocks[id] = block;
      if (fed == ElementType::float32) {
        available_[id].emplace_back(layout, at);
      } else {
        const Buffer converted = builder_.scratch(count * 4, tensor_name(id));
        builder_.emit(ConvertSpec{count, fed}, {at, converted}, tensor_name(id));
        available_[id].emplace_back(layout, converted);
      }
    }
  }

  // ---- values --------------------------------------------------------------------------------

  std::string tensor_name(TensorId id) const {
    const GraphTensor& tensor = graph_.tensors[id];
    if (!tensor.path.empty()) {
      return tensor.path;
    }
    return tensor.producer >= 0 ? graph_.operations[tensor.producer].path
                                : "tensor " + std::to_string(id);
  }

  Operand value_of(int variable) const {
    const ParameterSpan& span = form_.spans[variable];
    return {span.trainable ? values_ : fixed_, span.offset * 4};
  }
  Operand gradient_of(int variable) const { return {gradients_, form_.spans[variable].offset * 4}; }

  std::int64_t local_count(TensorId id, const Layout& layout) const {
    return element_count(shape_of(block_of(layout, shapes_[id], plan_.mesh, collectives_.rank())));
  }

  static const Operand* find(const ByLayout& values, const Layout& layout) {
    for (const auto& [known, operand] : values) {
      if (known == layout) {
        return &operand;
      }
    }
    return nullptr;
  }

  Operand move(TensorId id, Operand source, const Layout& from, const Layout& to,
               std::optional<Operand> destination, const std::string& what,
               bool source_is_free = false) {
    return lower_redistribution(
        builder_, collectives_, plan_redistribution(from, to, shapes_[id], plan_.mesh), shapes_[id],
        ElementType::float32, source, destination, {phase_, what}, source_is_free);
  }

  // Tensor `id` in `layout`; brought there once for all that ask.
  Operand value_as(TensorId id, const Layout& layout) {
    if (const Operand* known = find(available_[id], layout)) {
      return *known;
    }
    const auto& [settled, source] = available_[id].front();
    const Operand moved = move(id, source, settled, layout, std::nullopt, tensor_name(id));
    available_[id].emplace_back(layout, moved);
    return moved;
  }

  // ---- the walk --------------------------------------------------------------------------------

  void forward();
  void backward();

  void forget_gathered_variables() {
    for (const Variable& variable : graph_.variables) {
      available_[variable.tensor].resize(1);
    }
  }

  void add_contribution(TensorId id, const Layout& raw, Operand gradient) {
    for (auto& [layout, operand] : contributions_[id]) {
      if (layout == raw) {
        const std::int64_t count = local_count(id, raw);
        const Buffer sum = builder_.scratch(count * 4, "gradient of " + tensor_name(id));
        builder_.emit(SumSpec{count, 2}, {operand, gradient, sum}, tensor_name(id) + " gradient");
        operand = sum;
        return;
      }
    }
    contributions_[id].emplace_back(raw, gradient);
  }

  // Brings all contributions to the tensor's layout and adds them.
  Operand complete_gradient(TensorId id, std::optional<Operand> destination) {
    const Layout& settled = plan_.tensors[id].layout;
    const std::string what = tensor_name(id) + " gradient";
    ByLayout& parts = contributions_[id];
    const std::int64_t count = local_count(id, settled);
    if (parts.size() == 1 && (parts[0].first != settled || !destination)) {
      return move(id, parts[0].second, parts[0].first, settled, destination, what, true);
    }
    std::vector<Operand> operands;
    for (const auto& [raw, operand] : parts) {
      operands.push_back(move(id, operand, raw, settled, std::nullopt, what, true));
    }
    const Operand sum = destination ? *destination : Operand(builder_.scratch(count * 4, what));
    operands.push_back(sum);
    builder_.emit(SumSpec{count, static_cast<int>(parts.size())}, operands, what);
    return sum;
  }

  // ---- gradients of variables ------------------------------------------------------------------

  void count_uses() {
    uses_left_.assign(graph_.variables.size(), 0);
    for (const PlannedOperation& operation : plan_.operations) {
      for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
        const int variable = graph_.tensors[operation.inputs[i]].variable;
        if (variable >= 0 && operation.gradient[i]) {
          ++uses_left_[variable];
        }
      }
    }
    bucket_of_.assign(graph_.variables.size(), -1);
    for (std::size_t b = 0; b < form_.buckets.size(); ++b) {
      left_in_bucket_.push_back(static_cast<int>(form_.buckets[b].variables.size()));
      for (const int variable : form_.buckets[b].variables) {
        bucket_of_[variable] = static_cast<int>(b);
      }
    }
  }

  void variable_used(int variable) {
    if (--uses_left_[variable] > 0) {
      return;
    }
    if (!form_.spans[variable].in_place) {
      (void)complete_gradient(graph_.variables[variable].tensor, gradient_of(variable));
    }
    const int bucket = bucket_of_[variable];
    if (bucket >= 0 && --left_in_bucket_[bucket] == 0) {
      start_bucket(form_.buckets[bucket]);
    }
  }

  CollectiveRecord all_reduce_record(std::vector<Axis> axes, ElementType type, Reduction reduction,
                                     std::int64_t global, std::int64_t local, std::string what) {
    const std::int64_t ranks = plan_.mesh.size_over(axes);
    const std::int64_t sent = (2 * (ranks - 1) * local + ranks - 1) / ranks;
    return {CollectiveKind::all_reduce,
            {phase_, std::move(what)},
            std::move(axes),
            type,
            reduction,
            global,
            sent * element_bytes(type)};
  }

  void start_bucket(const GradientBucket& bucket) {
    std::string what = "gradients " + graph_.variables[bucket.variables.front()].path;
    if (bucket.variables.size() > 1) {
      what += bucket.variables.size() > 2 ? " ... " : ", ";
      what += graph_.variables[bucket.variables.back()].path;
    }
    auto [start, wait] = collectives_.started_all_reduce(
        all_reduce_record(bucket.axes, ElementType::float32, Reduction::sum, bucket.global_count,
                          bucket.count, what),
        bucket.count);
    const Operand at{gradients_, bucket.offset * 4};
    builder_.emit(std::move(start), {at}, "start " + what);
    waiting_.push_back({std::move(wait), at, "wait for " + what});
  }

  // ---- update ----------------------------------------------------------------------------------

  // Over `axes` every value shall be counted once: whether this rank counts one that lies split by,
  // or is partial over, `own`.
  bool counts(const std::vector<Axis>& axes, const std::vector<Axis>& own) const {
    return std::all_of(axes.begin(), axes.end(), [&](Axis axis) {
      return std::find(own.begin(), own.end(), axis) != own.end() ||
             plan_.mesh.coordinate(collectives_.rank(), axis) == 0;
    });
  }

  std::vector<Axis> axes_of_trainable_variables() const {
    std::set<Axis> axes;
    for (const ParameterSpan& span : form_.spans) {
      if (span.trainable) {
        const std::vector<Axis> own = span.layout.splitting_axes();
        axes.insert(own.begin(), own.end());
      }
    }
    return {axes.begin(), axes.end()};
  }

  void update();
  std::optional<Operand> clip();

  // ---- sums -------------------------------------------------------------------------------------

  Operand sum_slot(TensorId id) const {
    const auto at = std::find(step_.sum_tensors.begin(), step_.sum_tensors.end(), id);
    return {step_.sums, (at - step_.sum_tensors.begin()) * 8};
  }

  void complete_sums();
  void reduce_sums();
  void book_penalty(const std::vector<Axis>& axes);
  void give_output();

  const LoweringRequest& request_;
  const Plan& plan_;
  const Graph& graph_;
  const ParameterForm& form_;
  ProgramBuilder& builder_;
  MeshCollectives& collectives_;
  LoweredStep step_;
  std::string phase_;

  std::vector<bool> needed_;         // by operation
  std::vector<Shape> shapes_;        // by tensor, global
  std::vector<ByLayout> available_;  // by tensor; the first is in the tensor's layout
  std::vector<Operand> natural_;     // by operation: its output where it left it
  std::vector<std::map<std::string, Operand>> scratch_;  // by operation
  std::vector<ByLayout> contributions_;                  // by tensor: raw gradients
  std::vector<std::optional<Operand>> gradient_at_;      // by tensor: complete

  std::vector<int> uses_left_;  // by variable
  std::vector<int> bucket_of_;  // by variable, -1 for none
  std::vector<int> left_in_bucket_;
  struct Waiting {
    std::unique_ptr<Kernel> wait;
    Operand at;
    std::string label;
  };
  std::vector<Axis> sum_axes_;  // over which the sums are reduced
  std::vector<Waiting> waiting_;

  Buffer values_, fixed_, gradients_, scalars_;
};

class OperationLowering final : public Lowering {
 public:
  OperationLowering(StepLowering& step, int index, bool backward)
      : step_(step), index_(index), planned_(step.plan_.operations[index]), backward_(backward) {
    const std::int64_t rank = step.collectives_.rank();
    for (std::size_t i = 0; i < planned_.inputs.size(); ++i) {
      blocks_.push_back(
          block_of(planned_.needed[i], step.shapes_[planned_.inputs[i]], step.plan_.mesh, rank));
    }
    output_block_ =
        block_of(planned_.natural, step.shapes_[planned_.output], step.plan_.mesh, rank);
    gradients_.resize(planned_.inputs.size());
  }

  const std::string& path() const override { return planned_.path; }
  bool training() const override { return step_.request_.mode == Mode::train; }
  bool needs_gradient(int input) const override { return planned_.gradient[input]; }
  std::uint64_t random_key() const override {
    return meshwork::random_key(step_.request_.seed, planned_.path);
  }

  const Shape& global_shape(int input) const override {
    return step_.shapes_[planned_.inputs[input]];
  }
  const Shape& global_output_shape() const override { return step_.shapes_[planned_.output]; }
  const Block& block(int input) const override { return blocks_[input]; }
  const Block& output_block() const override { return output_block_; }

  Operand input(int input) override {
    return step_.value_as(planned_.inputs[input], planned_.needed[input]);
  }

  Operand output() override {
    Operand& natural = step_.natural_[index_];
    if (!natural.buffer.exists()) {
      if (backward_) {
        internal_error("backward of " + path() + " asks for an output that forward did not give");
      }
      natural =
          step_.shapes_[planned_.output].empty()
              ? step_.sum_slot(planned_.output)
              : Operand(step_.builder_.scratch(element_count(shape_of(output_block_)) * 4, path()));
    }
    return natural;
  }

  void output_is_input(int input) override { step_.natural_[index_] = this->input(input); }

  Operand output_gradient() override {
    if (!output_gradient_) {
      const std::optional<Operand>& complete = step_.gradient_at_[planned_.output];
      if (!complete) {
        internal_error("backward of " + path() + " asks for a gradient that nothing gave");
      }
      output_gradient_ =
          step_.move(planned_.output, *complete, step_.plan_.tensors[planned_.output].layout,
                     planned_.natural.without_partial(), std::nullopt,
                     step_.tensor_name(planned_.output) + " gradient");
    }
    return *output_gradient_;
  }

  Operand input_gradient(int input) override {
    std::optional<Operand>& gradient = gradients_[input];
    if (!gradient) {
      const int variable = step_.graph_.tensors[planned_.inputs[input]].variable;
      gradient = variable >= 0 && step_.form_.spans[variable].in_place
                     ? step_.gradient_of(variable)
                     : Operand(step_.builder_.scratch(element_count(shape_of(blocks_[input])) * 4,
                                                      path() + " gradient"));
    }
    return *gradient;
  }

  void input_gradient_is_output_gradient(int input) override {
    const int variable = step_.graph_.tensors[planned_.inputs[input]].variable;
    if (variable >= 0 && step_.form_.spans[variable].in_place) {
      const std::int64_t count = element_count(shape_of(blocks_[input]));
      step_.builder_.emit(SumSpec{count, 1}, {output_gradient(), input_gradient(input)}, path());
      return;
    }
    gradients_[input] = output_gradient();
  }

  Operand scratch(const std::string& name, std::int64_t bytes) override {
    auto [at, added] = step_.scratch_[index_].try_emplace(name);
    if (added) {
      at->second = step_.builder_.scratch(bytes, path() + " " + name);
    }
    return at->second;
  }

  Operand step_scalars() override { return step_.scalars_; }

  void emit(const KernelSpec& spec, std::vector<Operand> operands) override {
    step_.builder_.emit(spec, std::move(operands), path());
  }

  void all_reduce(char letter, ElementType type, Reduction reduction, Operand buffer,
                  std::int64_t count, const std::string& what) override {
    const auto found = planned_.split.find(letter);
    if (found == planned_.split.end()) {
      return;
    }
    std::vector<Axis> axes = found->second;
    std::sort(axes.begin(), axes.end());
    const CollectiveRecord record = step_.all_reduce_record(
        axes, type, reduction, element_count(global_shape(0)), count, path() + " " + what);
    step_.builder_.emit(step_.collectives_.all_reduce(record, count), {buffer}, path());
  }

  // Hands the raw gradients that backward gave to their tensors.
  void deliver() {
    for (std::size_t i = 0; i < planned_.inputs.size(); ++i) {
      if (!planned_.gradient[i]) {
        continue;
      }
      const TensorId input = planned_.inputs[i];
      const int variable = step_.graph_.tensors[input].variable;
      if (!gradients_[i]) {
        internal_error("backward of " + path() + " did not give the gradient of input " +
                       std::to_string(i));
      }
      if (variable < 0 || !step_.form_.spans[variable].in_place) {
        step_.add_contribution(input, planned_.raw[i], *gradients_[i]);
      }
      if (variable >= 0) {
        step_.variable_used(variable);
      }
    }
  }

 private:
  StepLowering& step_;
  int index_;
  const PlannedOperation& planned_;
  bool backward_;
  std::vector<Block> blocks_;
  Block output_block_;
  std::optional<Operand> output_gradient_;
  std::vector<std::optional<Operand>> gradients_;
};

void StepLowering::forward() {
  for (int o = 0; o < static_cast<int>(plan_.operations.size()); ++o) {
    if (!needed_[o]) {
      continue;
    }
    const PlannedOperation& planned = plan_.operations[o];
    OperationLowering lowering(*this, o, false);
    planned.operation->forward(lowering);
    const Operand natural = lowering.output();
    if (shapes_[planned.output].empty()) {
      continue;
    }
    const Layout& settled = plan_.tensors[planned.output].layout;
    ByLayout& values = available_[planned.output];
    if (planned.natural == settled) {
      values.emplace_back(settled, natural);
    } else {
      values.emplace_back(settled, move(planned.output, natural, planned.natural, settled,
                                        std::nullopt, tensor_name(planned.output), true));
      if (planned.natural.partial.empty()) {
        values.emplace_back(planned.natural, natural);
      }
    }
  }
}

void StepLowering::backward() {
  count_uses();
  forget_gathered_variables();
  for (int o = static_cast<int>(plan_.operations.size()) - 1; o >= 0; --o) {
    const PlannedOperation& planned = plan_.operations[o];
    if (std::none_of(planned.gradient.begin(), planned.gradient.end(), [](bool g) { return g; })) {
      continue;
    }
    if (!shapes_[planned.output].empty()) {
      if (contributions_[planned.output].empty()) {
        internal_error("nothing gave a gradient to " + tensor_name(planned.output));
      }
      gradient_at_[planned.output] = complete_gradient(planned.output, std::nullopt);
    }
    OperationLowering lowering(*this, o, true);
    planned.operation->backward(lowering);
    lowering.deliver();
  }
  for (Waiting& waiting : waiting_) {
    builder_.emit(std::move(waiting.wait), {waiting.at}, waiting.label);
  }
}

std::optional<Operand> StepLowering::clip() {
  const UpdateRule& rule = *request_.update;
  if (rule.clipping == Clipping::none) {
    return std::nullopt;
  }
  if (rule.clipping == Clipping::value) {
    builder_.emit(ClampSpec{form_.trainable_count, rule.clip}, {gradients_}, "clip by value");
    return std::nullopt;
  }
  // Squared norms of whole variables: each element counts once over the ranks.
  std::vector<const ParameterSpan*> spans;
  for (const ParameterSpan& span : form_.spans) {
    if (span.trainable) {
      spans.push_back(&span);
    }
  }
  const std::int64_t count = static_cast<std::int64_t>(spans.size());
  const std::vector<Axis> axes = axes_of_trainable_variables();
  const Buffer squares = builder_.scratch(count * 8, "squared norms");
  for (std::int64_t i = 0; i < count; ++i) {
    const Operand square{squares, i * 8};
    const std::string label = graph_.variables[spans[i]->variable].path + " norm";
    if (counts(axes, spans[i]->layout.splitting_axes())) {
      builder_.emit(PowerSumSpec{spans[i]->count, 2}, {gradient_of(spans[i]->variable), square},
                    label);
    } else {
      builder_.emit(ZeroSpec{8}, {square}, label);
    }
  }
  if (!axes.empty()) {
    builder_.emit(
        collectives_.all_reduce(all_reduce_record(axes, ElementType::float64, Reduction::sum, count,
                                                  count, "squared norms of gradients"),
                                count),
        {squares}, "squared norms");
  }
  if (rule.clipping == Clipping::global_norm) {
    const Buffer total = builder_.scratch(8, "squared global norm");
    const Buffer factor = builder_.scratch(4, "clip factor");
    builder_.emit(WeightedSumSpec{std::vector<double>(static_cast<std::size_t>(count), 1.0)},
                  {squares, total}, "squared global norm");
    builder_.emit(ClipFactorSpec{rule.clip, true}, {total, factor}, "clip by global norm");
    return factor;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string label = "clip " + graph_.variables[spans[i]->variable].path;
    const Buffer factor = builder_.scratch(4, label);
    builder_.emit(ClipFactorSpec{rule.clip, false}, {Operand{squares, i * 8}, factor}, label);
    builder_.emit(ScaleBySpec{spans[i]->count}, {factor, gradient_of(spans[i]->variable)}, label);
  }
  return std::nullopt;
}

void StepLowering::update() {
  for (const Variable& variable : graph_.variables) {
    const Regularizer& regularizer = variable.options.regularizer;
    const int index = graph_.tensors[variable.tensor].variable;
    // Nothing leads from it to the loss, so backward has left here what the last step did.
    if (variable.options.trainable && !plan_.tensors[variable.tensor].gradient) {
      builder_.emit(ZeroSpec{form_.spans[index].count * 4}, {gradient_of(index)},
                    variable.path + " gradient");
    }
    if (variable.options.trainable && regularizer.active()) {
      builder_.emit(PenaltyGradientSpec{form_.spans[index].count, regularizer.l1, regularizer.l2},
                    {value_of(index), gradient_of(index)}, variable.path + " penalty");
    }
  }
  const std::optional<Operand> factor = clip();
  std::vector<Operand> operands{scalars_};
  if (factor) {
    operands.push_back(*factor);
  }
  operands.push_back(gradients_);
  operands.push_back(values_);
  for (int slot = 0; slot < request_.update->slots; ++slot) {
    operands.push_back(
        builder_.external(request_.parameters ? request_.parameters->slot(slot) : nullptr,
                          form_.trainable_count * 4, "optimizer slot " + std::to_string(slot)));
  }
  builder_.emit(request_.update->kernel(form_.trainable_count, factor.has_value()), operands,
                "update");
}

void StepLowering::book_penalty(const std::vector<Axis>& axes) {
  std::vector<double> factors;
  std::vector<std::pair<int, int>> terms;  // variable, power
  for (const ParameterSpan& span : form_.spans) {
    const Regularizer& regularizer = graph_.variables[span.variable].options.regularizer;
    if (!span.trainable || !counts(axes, span.layout.splitting_axes())) {
      continue;
    }
    if (regularizer.l1 != 0) {
      terms.emplace_back(span.variable, 1);
      factors.push_back(regularizer.l1);
    }
    if (regularizer.l2 != 0) {
      terms.emplace_back(span.variable, 2);
      factors.push_back(regularizer.l2);
    }
  }
  const Buffer powers =
      builder_.scratch(static_cast<std::int64_t>(terms.size()) * 8, "penalty terms");
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const auto [variable, power] = terms[i];
    builder_.emit(PowerSumSpec{form_.spans[variable].count, power},
                  {value_of(variable), Operand{powers, static_cast<std::int64_t>(i) * 8}},
                  graph_.variables[variable].path + " penalty");
  }
  const Operand slot{step_.sums, static_cast<std::int64_t>(step_.sum_tensors.size()) * 8};
  builder_.emit(WeightedSumSpec{std::move(factors)}, {powers, slot}, "penalty");
}

void StepLowering::complete_sums() {
  std::set<Axis> all;
  std::map<TensorId, std::vector<Axis>> partial;
  for (const PlannedOperation& planned : plan_.operations) {
    if (shapes_[planned.output].empty()) {
      partial[planned.output] = planned.natural.partial;
      all.insert(planned.natural.partial.begin(), planned.natural.partial.end());
    }
  }
  if (step_.has_penalty) {
    const std::vector<Axis> axes = axes_of_trainable_variables();
    all.insert(axes.begin(), axes.end());
  }
  sum_axes_.assign(all.begin(), all.end());
  for (const TensorId id : step_.sum_tensors) {
    if (!counts(sum_axes_, partial[id])) {
      builder_.emit(ZeroSpec{8}, {sum_slot(id)}, tensor_name(id));
    }
  }
  if (step_.has_penalty) {
    book_penalty(sum_axes_);
  }
}

void StepLowering::reduce_sums() {
  const std::int64_t count =
      static_cast<std::int64_t>(step_.sum_tensors.size()) + (step_.has_penalty ? 1 : 0);
  if (!sum_axes_.empty() && count > 0) {
    builder_.emit(
        collectives_.all_reduce(all_reduce_record(sum_axes_, ElementType::float64, Reduction::sum,
                                                  count, count, "sums of losses and metrics"),
                                count),
        {step_.sums}, "sums");
  }
}

void StepLowering::give_output() {
  const TensorId id = graph_.outputs.front();
  const Layout whole = Layout::replicated(shapes_[id].size());
  const Buffer output = builder_.scratch(element_count(shapes_[id]) * 4, "prediction");
  builder_.keep(output);
  const Operand source = available_[id].front().second;
  const Layout& settled = plan_.tensors[id].layout;
  if (settled == whole) {
    builder_.emit(SumSpec{element_count(shapes_[id]), 1}, {source, output}, "prediction");
  } else {
    (void)move(id, source, settled, whole, output, "prediction");
  }
  step_.output = output;
}

}  // namespace

std::string_view name_of(Mode mode) {
  switch (mode) {
    case Mode::train:
      return "train";
    case Mode::evaluate:
      return "evaluate";
    case Mode::predict:
      return "predict";
  }
  return "?";
}

LoweredStep lower(const LoweringRequest& request, ProgramBuilder& builder,
                  MeshCollectives& collectives) {
  return StepLowering(request, builder, collectives).lower();
}

}  // namespace meshwork
