#include "runtime/graph/step/operation_lowering.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/pieces.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/philox.h"
#include "runtime/graph/operation_windows.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/path_error.h"

namespace meshwork {
namespace {

class OperationLowering final : public Lowering {
 public:
  OperationLowering(StepContext& step, StepValues& values, StepSums* sums, StepGradients* gradients,
                    const PlannedOperation& planned, Remains& remains, bool again = false)
      : step_(step),
        again_(again),
        values_(values),
        sums_(sums),
        gradients_(gradients),
        planned_(planned),
        remains_(remains),
        raw_(planned.inputs.size()) {
    for (const TensorId input : planned_.inputs) shapes_.push_back(step_.shapes[input]);
    find_pieces();
    for (int i = 0; i < static_cast<int>(planned_.inputs.size()); ++i) {
      blocks_.push_back(block_of(needed_[i], shapes_[i], step_.plan.mesh, rank()));
      windows_.push_back(find_windows(i));
      if (windows_.back()) blocks_.back() = box_of(*windows_.back(), step_.plan.mesh, rank());
    }
    for (const auto& [input, dimension] : kept_) {
      const std::int64_t all = step_.request.piece->of->length;
      shapes_[input][dimension] = all;
      blocks_[input][dimension] = {0, all};
    }
    output_block_ = step_.block(planned_.output, planned_.natural);
  }

  const std::string& path() const override { return planned_.path; }
  bool training() const override { return step_.training(); }
  bool needs_gradient(int input) const override { return training() && planned_.gradient[input]; }
  bool splits(std::string_view letters) const override {
    return step_.plan.mesh.size_over(axes_of(letters)) > 1;
  }
  double share_of_batch() const override { return step_.share_of_batch(); }
  double loss_weight() const override { return planned_.loss_weight * share_of_batch(); }
  std::uint64_t random_key() const override {
    return meshwork::random_key(step_.request.seed, planned_.draws_as);
  }

  const Shape& global_shape(int input) const override { return shapes_[input]; }
  const Shape& global_output_shape() const override { return step_.shapes[planned_.output]; }
  const Block& block(int input) const override { return blocks_[input]; }
  const Block& output_block() const override { return output_block_; }
  Place output_in_batch() const override {
    Place place{global_output_shape(), output_block_};
    if (step_.graph.tensors[planned_.output].batched()) {
      place.shape.front() = step_.request.rows;
      place.block.front().begin += step_.rows().begin;
      place.block.front().end += step_.rows().begin;
    }
    return place;
  }
  std::int64_t positions(char letter) const override {
    return letter_ != 0 && letter == letter_ ? step_.request.piece->of->length : 0;
  }

  Operand input(int input) override {
    const bool of_piece = kept_.contains(input) || cut_.contains(input);
    if (!windows_[input] && !of_piece) return value(input);
    if (const auto known = remains_.boxes.find(input); known != remains_.boxes.end()) {
      return known->second;
    }
    const Operand box = kept_.contains(input)  ? keep(input)
                        : cut_.contains(input) ? cut(input)
                                               : value(input);
    if (of_piece || step_.variable_of(planned_.inputs[input]) < 0) {
      remains_.boxes.emplace(input, box);
    }
    return box;
  }

  Operand output() override {
    Operand& output = remains_.output;
    if (!output.buffer.exists()) {
      if (!sums_) {
        fail("{}: backward asks for the output, which forward did not give", path());
      }
      output = step_.is_sum(planned_.output)
                   ? sums_->place_of(planned_.output)
                   : scratch_floats(element_count(shape_of(output_block_)), path());
    }
    return output;
  }

  std::optional<Operand> relu_mask() override {
    const PlannedTensor& tensor = step_.plan.tensors[planned_.output];
    if (!step_.request.device.reads_relu_masks || !training() ||
        tensor.gradient_before != Activation::relu) {
      return std::nullopt;
    }
    const Shape shape = shape_of(output_block_);
    const Operand mask = scratch(
        "relu mask", rows_of(shape) * relu_mask_row_bytes(columns_of(shape)), ElementType::uint8);
    values_.add_mask(planned_.output, mask);
    return mask;
  }

  void output_is_input(int input) override { remains_.output = this->input(input); }

  Operand output_gradient() override {
    if (!output_gradient_) {
      const TensorId output = planned_.output;
      output_gradient_ = step_.move(
          output, gradients_->completed(output), step_.plan.tensors[output].layout,
          planned_.natural.without_partial(), std::nullopt, step_.name_of(output) + " gradient");
    }
    return *output_gradient_;
  }

  bool output_gradient_is_before_activation() const override {
    return step_.plan.tensors[planned_.output].gradient_before != Activation::linear;
  }

  std::optional<Derivative> derivative(int input) override {
    const TensorId id = planned_.inputs[input];
    const PlannedTensor& tensor = step_.plan.tensors[id];
    if (tensor.gradient_before == Activation::linear) {
      return std::nullopt;
    }
    return Derivative{tensor.gradient_before,
                      values_.in(tensor.derivative_at, planned_.needed[input]),
                      values_.mask_of(id)};
  }

  Operand input_gradient(int input) override {
    if (!gradients_) {
      return early_gradient(input);
    }
    std::optional<Operand>& gradient = raw_[input];
    if (!gradient && !windows_[input]) {
      const TensorId tensor = planned_.inputs[input];
      gradient = gradients_->place_of(tensor);
      // That place is others' as well, as soon as this operation is over.
      if (!gradient && (!puts_off_ || is_putting_off())) gradient = step_.whole_gradient_of(tensor);
    }
    if (!gradient) {
      gradient = scratch_floats(element_count(local_shape(input)), path() + " gradient");
    }
    return *gradient;
  }

  void input_gradient_is_complete(int input) override {
    std::erase(expected_, input);
    if (raw_[input] && !windows_[input]) {
      gradients_->start_reduction(planned_.inputs[input], planned_.raw[input], *raw_[input]);
    }
  }

  void input_gradient_is_output_gradient(int input) override {
    if (!windows_[input] && gradients_->place_of(planned_.inputs[input])) {
      step_.builder.emit(SumSpec{element_count(local_shape(input)), 1},
                         {output_gradient(), input_gradient(input)}, path());
      return;
    }
    raw_[input] = output_gradient();
  }

  Operand updated(int input) override {
    if (const auto known = updated_.find(input); known != updated_.end()) {
      return known->second;
    }
    const TensorId tensor = planned_.inputs[input];
    const int variable = step_.variable_of(tensor);
    if (variable < 0 || step_.form.spans[variable].trainable) {
      fail("{} writes {}: an operation can only write variables that are not trained", path(),
           step_.name_of(tensor));
    }
    const Layout& stored = step_.plan.tensors[tensor].layout;
    if (planned_.needed[input].places != stored.places) {
      fail("{} writes {}, which is used at other places too ({}): place them together", path(),
           step_.name_of(tensor),
           stored.places.empty() ? "everywhere" : to_string(stored.places, step_.plan.mesh));
    }
    const Operand value =
        !again_ && planned_.needed[input] == stored
            ? step_.value_of(step_.variable_of(tensor))
            : scratch_floats(element_count(local_shape(input)), path() + " update");
    updated_.emplace(input, value);
    return value;
  }

  Operand scratch(const std::string& name, std::int64_t count, ElementType type) override {
    auto [at, added] = remains_.scratch.try_emplace(name);
    if (added) {
      at->second = step_.builder.scratch(count * element_bytes(type), path() + " " + name);
    }
    return at->second;
  }

  Operand step_scalars() override { return step_.scalars; }

  void emit(const KernelSpec& spec, std::vector<Operand> operands) override {
    now_or_later([this, spec, operands = std::move(operands)] {
      book_kernel(step_, remains_.narrow, spec, operands, path());
    });
  }

  void all_reduce(std::string_view letters, ElementType type, Reduction reduction, Operand buffer,
                  std::int64_t count, std::int64_t global_count, const std::string& what) override {
    const std::vector<Axis> axes = axes_of(letters);
    if (axes.empty()) {
      return;
    }
    now_or_later([=, this] {
      const CollectiveUse use = step_.use_over(axes, global_count, path() + " " + what);
      step_.builder.emit(step_.collectives.book(use, AllReduce{type, reduction, count}), {buffer},
                         path());
    });
  }

  // Whether forward asked where its output goes, or said that it is an input.
  [[nodiscard]] bool has_output() const { return remains_.output.buffer.exists(); }

  // Brings the new values that forward gave to where their variables are stored.
  void store_updates() {
    for (const auto& [input, value] : updated_) {
      const TensorId tensor = planned_.inputs[input];
      const Layout& stored = step_.plan.tensors[tensor].layout;
      if (planned_.needed[input] != stored) {
        (void)step_.move(tensor, value, planned_.needed[input], stored,
                         step_.value_of(step_.variable_of(tensor)),
                         step_.name_of(tensor) + " update");
      }
      values_.update(tensor, planned_.needed[input], value);
    }
  }

  // From when the gradients of values are complete, what is booked waits for `book_rest`.
  void put_off_weights() {
    puts_off_ = true;
    for (std::size_t i = 0; i < planned_.inputs.size(); ++i) {
      if (planned_.gradient[i] && !is_variable(i)) expected_.push_back(static_cast<int>(i));
    }
  }
  void book_rest() {
    for (const std::function<void()>& book : put_off_) book();
    put_off_.clear();
  }

  // Hands the raw gradients that backward gave to their tensors.
  void deliver(GradientsOf which) {
    for (std::size_t i = 0; i < planned_.inputs.size(); ++i) {
      if (!planned_.gradient[i] || !includes(which, is_variable(i))) {
        continue;
      }
      if (!raw_[i]) {
        take_early_gradient(static_cast<int>(i));
      }
      if (!raw_[i]) {
        fail(
            "{}: backward gave no gradient of input {}, though one is needed; it writes "
            "input_gradient({}), or says that it is the output's",
            path(), i, i);
      }
      const TensorId input = planned_.inputs[i];
      if (windows_[i]) {
        gradients_->contribute_box(input, planned_.raw[i], *windows_[i], *raw_[i]);
      } else {
        gradients_->contribute(input, planned_.raw[i], *raw_[i]);
      }
    }
  }

 private:
  template <class Book>
  void now_or_later(Book book) {
    if (is_putting_off()) {
      put_off_.emplace_back(std::move(book));
    } else {
      book();
    }
  }
  bool is_putting_off() const { return puts_off_ && expected_.empty(); }
  bool is_variable(std::size_t input) const {
    return step_.variable_of(planned_.inputs[input]) >= 0;
  }

  // The axes that split one of `letters`, ascending.
  std::vector<Axis> axes_of(std::string_view letters) const {
    std::vector<Axis> axes;
    for (const char letter : letters) {
      if (const auto found = planned_.split.find(letter); found != planned_.split.end()) {
        axes.insert(axes.end(), found->second.begin(), found->second.end());
      }
    }
    std::sort(axes.begin(), axes.end());
    return axes;
  }

  [[nodiscard]] std::int64_t rank() const { return step_.collectives.rank(); }

  // How inputs go with the positions of a piece (sequences.h): which are kept, of which it is cut
  // out, and how they lie.
  void find_pieces() {
    needed_ = planned_.needed;
    if (!step_.request.piece) return;
    const Piece& piece = *step_.request.piece;
    letter_ = piece.letter(planned_.rule, planned_.inputs);
    for (std::size_t i = 0; i < std::min(needed_.size(), planned_.rule.inputs.size()); ++i) {
      const std::size_t dimension = planned_.rule.inputs[i].find(letter_);
      if (letter_ == 0 || dimension == std::string::npos) continue;
      if (piece.of->dimensions[planned_.inputs[i]] < 0) {
        cut_[static_cast<int>(i)] = dimension;
        shapes_[i][dimension] = piece.positions;
      } else if (piece.keeps(planned_, step_.graph, static_cast<int>(i))) {
        kept_[static_cast<int>(i)] = dimension;
        needed_[i].dimensions[dimension].clear();
      }
    }
  }

  // An input as it is needed.
  Operand value(int input) {
    const TensorId tensor = planned_.inputs[input];
    return windows_[input] ? values_.in_boxes(tensor, needed_[input], *windows_[input])
                           : values_.in(tensor, needed_[input]);
  }

  // Puts what the piece has of an input behind what was kept, and gives both.
  Operand keep(int input) {
    const Operand piece = value(input);
    const Shape whole = local_shape(input);
    const auto [outer, all, inner] = around(whole, kept_.at(input));
    const std::string label = fmt::format("{} kept {}", path(), input);
    const std::int64_t bytes = element_count(whole) * float32_bytes;
    const Buffer kept = step_.builder.external(
        step_.request.kept ? step_.request.kept(label, bytes) : nullptr, bytes, label);
    step_.builder.emit(KeepPieceSpec{outer, step_.request.piece->positions, inner, all},
                       {piece, step_.scalars, kept}, label);
    return kept;
  }

  // The piece of an input that has all positions.
  Operand cut(int input) {
    const std::size_t dimension = cut_.at(input);
    Layout layout = needed_[input];
    layout.dimensions[dimension].clear();
    const Operand whole = values_.in(planned_.inputs[input], layout);
    const Shape shape = local_shape(input);
    const auto [outer, positions, inner] = around(shape, dimension);
    const std::string label = fmt::format("{} piece {}", path(), input);
    const Buffer piece = step_.builder.scratch(element_count(shape) * float32_bytes, label);
    step_.builder.emit(CutPieceSpec{outer, positions, inner, step_.request.piece->of->length,
                                    blocks_[input][dimension].begin},
                       {whole, step_.scalars, piece}, label);
    return piece;
  }

  // A shape as (what is before a dimension, its length, what is behind it).
  static std::array<std::int64_t, 3> around(const Shape& shape, std::size_t dimension) {
    const std::span all(shape);
    return {element_count(all.first(dimension)), shape[dimension],
            element_count(all.subspan(dimension + 1))};
  }

  // What the ranks want of an input beyond their blocks, or nothing if every box is the block: the
  // same answer on all ranks, since what follows from it can be a collective. Along the positions
  // of a piece nothing is wanted.
  std::optional<Windows> find_windows(int input) const {
    Rule rule = planned_.rule;
    Split split = planned_.split;
    if (letter_ != 0) {
      std::erase(rule.windows, letter_);
      if (kept_.contains(input)) split.erase(letter_);
    }
    if (!has_windows(rule, input)) {
      return std::nullopt;
    }
    Windows windows =
        windows_of(*planned_.operation, rule, split, input, shapes_, global_output_shape());
    if (boxes_are_blocks(windows, step_.plan.mesh)) {
      return std::nullopt;
    }
    return windows;
  }

  // A gradient that is written in forward stands by itself until backward takes it.
  Operand early_gradient(int input) {
    if (!step_.is_sum(planned_.output)) {
      fail("{}: forward asks for a gradient, which only one whose output is a sum may", path());
    }
    auto [at, added] = remains_.gradients.try_emplace(input);
    if (added) {
      at->second = scratch_floats(element_count(local_shape(input)), path() + " gradient");
    }
    return at->second;
  }

  void take_early_gradient(int input) {
    const auto early = remains_.gradients.find(input);
    if (early == remains_.gradients.end()) {
      return;
    }
    raw_[input] = early->second;
    if (const auto place = gradients_->place_of(planned_.inputs[input]);
        place && !windows_[input]) {
      step_.builder.emit(SumSpec{element_count(local_shape(input)), 1}, {early->second, *place},
                         path());
      raw_[input] = place;
    }
  }

  // For outputs and gradients, which can be looked at after a step that went wrong.
  Operand scratch_floats(std::int64_t count, std::string label) {
    if (step_.micro_batches.size() > 1) {
      label += fmt::format(" of micro-batch {}", step_.micro_batch + 1);
    }
    const Buffer buffer = step_.builder.scratch(count * float32_bytes, std::move(label));
    step_.builder.observe(buffer);
    return buffer;
  }

  StepContext& step_;
  bool again_;  // new values of variables are not kept
  StepValues& values_;
  StepSums* sums_;            // null in backward
  StepGradients* gradients_;  // null in forward
  const PlannedOperation& planned_;
  Remains& remains_;
  char letter_ = 0;                              // of the positions of a piece; 0: it has none
  std::map<int, std::size_t> kept_, cut_;        // by input: the dimension of positions
  std::vector<Layout> needed_;                   // by input: how it is brought
  std::vector<Shape> shapes_;                    // by input: global, as the operation sees it
  std::vector<Block> blocks_;                    // by input: what the operation works on
  std::vector<std::optional<Windows>> windows_;  // by input, where boxes are not blocks
  Block output_block_;
  std::optional<Operand> output_gradient_;
  std::vector<std::optional<Operand>> raw_;  // by input: raw gradients
  std::map<int, Operand> updated_;           // by input
  bool puts_off_ = false;
  std::vector<int> expected_;  // inputs that are values, whose gradients are not complete
  std::vector<std::function<void()>> put_off_;
};

}  // namespace

namespace {

void lower_forward(const ForwardParts& parts, const PlannedOperation& planned, Remains& remains,
                   bool again) {
  OperationLowering lowering(parts.step, parts.values, &parts.sums, nullptr, planned, remains,
                             again);
  named(planned.path, "forward", [&] { planned.operation->forward(lowering); });
  if (!lowering.has_output()) {
    fail("{}: forward of the operation \"{}\" neither writes its output nor says which input it is",
         planned.path, planned.operation->kind());
  }
  if (!again) {
    lowering.store_updates();
  }
  const Operand output = lowering.output();
  if (!parts.step.is_sum(planned.output)) {
    parts.values.add(planned.output, planned.natural, output);
  }
}

}  // namespace

void lower_forward(const ForwardParts& parts, const PlannedOperation& planned, Remains& remains) {
  lower_forward(parts, planned, remains, false);
}

void lower_forward_again(const ForwardParts& parts, const PlannedOperation& planned,
                         Remains& remains) {
  lower_forward(parts, planned, remains, true);
}

void lower_backward(const BackwardParts& parts, const PlannedOperation& planned, Remains& remains) {
  OperationLowering lowering(parts.step, parts.values, nullptr, &parts.gradients, planned, remains);
  named(planned.path, "backward", [&] { planned.operation->backward(lowering); });
  lowering.deliver(GradientsOf::all);
}

std::function<void()> lower_gradients_of_values(const BackwardParts& parts,
                                                const PlannedOperation& planned, Remains& remains) {
  const auto lowering = std::make_shared<OperationLowering>(parts.step, parts.values, nullptr,
                                                            &parts.gradients, planned, remains);
  lowering->put_off_weights();
  named(planned.path, "backward", [&] { planned.operation->backward(*lowering); });
  lowering->deliver(GradientsOf::values);
  return [lowering] {
    lowering->book_rest();
    lowering->deliver(GradientsOf::variables);
  };
}

}  // namespace meshwork
