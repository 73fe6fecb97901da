// Lowering: what one planned operation sees while it emits its instructions.
//
// Everything here is local to this rank and fixed: which block it holds of each operand, where the
// operands are, what has to be computed. `emit` books kernels; a collective over the axes that
// split a letter is booked by `all_reduce`. Nothing runs. The same code is walked without a device
// to show a plan, so an operation books what it needs and asks nothing of the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/transport.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/device/program.h"
#include "runtime/mesh/layout.h"

namespace meshwork {

/// What the gradient of an input is multiplied by, element by element: the derivative of the
/// activation that made the input.
struct Derivative {
  Activation activation = Activation::linear;
  Operand value;                // at which it is taken: ActivationGradientSpec says which
  std::optional<Operand> mask;  // of relu: what MatmulSpec can take instead
};

class Lowering {
 public:
  virtual ~Lowering() = default;

  // ---- what is to be done -----------------------------------------------------------------------
  /// The layer's path and the operation's kind, for labels: "d1/product".
  [[nodiscard]] virtual const std::string& path() const = 0;
  /// Whether the program trains: dropout drops, statistics are those of the batch.
  [[nodiscard]] virtual bool training() const = 0;
  /// Whether backward has to give the raw gradient of input `input`.
  [[nodiscard]] virtual bool needs_gradient(int input) const = 0;
  /// Whether an axis splits one of `letters`: then this rank lacks some of what they stand for.
  [[nodiscard]] virtual bool splits(std::string_view letters) const = 0;
  /// The part of the batch's rows that is worked on at once (walk.h): of a mean over the rows at
  /// hand, its part of the mean over the batch.
  [[nodiscard]] virtual double share_of_batch() const { return 1; }
  /// Of a loss: its weight in the sum of losses, by which its gradients are multiplied, times
  /// `share_of_batch`.
  [[nodiscard]] virtual double loss_weight() const = 0;
  /// Key for the random numbers of this use of the layer, from the model's seed and the path.
  [[nodiscard]] virtual std::uint64_t random_key() const = 0;

  // ---- shapes: global, and this rank's part -----------------------------------------------------
  // `block` is the part of an input that the operation works on: this rank's block of it; along
  // letters with windows, where that lacks something of `Operation::window`, exactly the window.

  [[nodiscard]] virtual const Shape& global_shape(int input) const = 0;
  [[nodiscard]] virtual const Shape& global_output_shape() const = 0;
  [[nodiscard]] virtual const Block& block(int input) const = 0;
  [[nodiscard]] virtual const Block& output_block() const = 0;
  /// The output of the whole batch, and where `output_block` is there: what is drawn goes by it.
  struct Place {
    Shape shape;
    Block block;
  };
  [[nodiscard]] virtual Place output_in_batch() const {
    return {global_output_shape(), output_block()};
  }
  [[nodiscard]] Shape local_shape(int input) const { return shape_of(block(input)); }
  [[nodiscard]] Shape local_output_shape() const { return shape_of(output_block()); }

  /// If this step works on a piece of sequences (sequences.h), whose positions have `letter`: how
  /// many a whole sequence has; else 0. The output's block then counts from StepScalars::position,
  /// and inputs along windows are whole.
  [[nodiscard]] virtual std::int64_t positions(char letter) const {
    (void)letter;
    return 0;
  }

  // ---- operands ---------------------------------------------------------------------------------

  /// The value of an input, lying as the rule wants it; in backward too. Bringing it can be a
  /// collective: all ranks ask for the same inputs in the same order, whatever their blocks.
  [[nodiscard]] virtual Operand input(int input) = 0;
  /// Where the output goes, or, in backward, where it is.
  [[nodiscard]] virtual Operand output() = 0;
  /// In backward: the gradient of the output, complete, lying as the output does by the rule.
  [[nodiscard]] virtual Operand output_gradient() = 0;
  /// In backward: whether that is already the gradient of what stands before the activation in
  /// which the operation ends (Fusible::ends_in).
  [[nodiscard]] virtual bool output_gradient_is_before_activation() const { return false; }
  /// In backward: what the raw gradient of an input has to be multiplied by before it is given;
  /// nothing, unless the operation said that it does so (Fusible::takes_derivative). The value
  /// lies as the input does, and so does the mask, whose rows are those of the last dimension.
  [[nodiscard]] virtual std::optional<Derivative> derivative(int input) {
    (void)input;
    return std::nullopt;
  }
  /// In backward: where the raw gradient of an input goes, over all of `block`. Written, not added
  /// to; what it says outside this rank's own block is added to the owner's afterwards. A sum,
  /// which waits for no gradient of its own, can ask in forward, write it there, and not ask again.
  [[nodiscard]] virtual Operand input_gradient(int input) = 0;
  /// In backward: what follows no longer writes the gradient of this input, which is in its place.
  /// Where it has to be reduced, that goes on beside what follows: the gradients of weights. Not
  /// said, it is so when backward is over.
  virtual void input_gradient_is_complete(int input) { (void)input; }
  /// In forward, of an operation that ends in relu: where the relu mask of the output goes, whose
  /// rows are those of its last dimension, if somebody will read one. Who asks writes it.
  [[nodiscard]] virtual std::optional<Operand> relu_mask() { return std::nullopt; }
  /// Instead of writing the output: it is the input, seen with another shape.
  virtual void output_is_input(int input) = 0;
  /// Instead of writing an input's gradient: it is the output's gradient.
  virtual void input_gradient_is_output_gradient(int input) = 0;
  /// Scratch memory of this operation, for `count` elements of `type`. Booked in forward and asked
  /// for again by the same name in backward, it is the same memory, with its content.
  [[nodiscard]] virtual Operand scratch(const std::string& name, std::int64_t count,
                                        ElementType type = ElementType::float32) = 0;
  /// In forward: where the new value of the variable that is input `input` goes, lying as the rule
  /// takes it; it may be the place of the old one. For variables that are not trained,
  /// such as moving statistics. Equal on ranks that hold the same block.
  [[nodiscard]] virtual Operand updated(int input) = 0;
  /// The step's StepScalars.
  [[nodiscard]] virtual Operand step_scalars() = 0;

  // ---- booking ----------------------------------------------------------------------------------

  /// Books a kernel. What a product reads stays as it is as long as the operation has products that
  /// read it, in forward and backward: it may be converted once for all of them.
  virtual void emit(const KernelSpec& spec, std::vector<Operand> operands) = 0;
  /// Books that `count` float32 elements become 0.
  void zero(std::int64_t count, Operand operand);
  /// Reduces `count` elements in place over all ranks along the axes that split one of `letters`,
  /// which are the rule's own; books nothing if none does. `global_count` is how many there are in
  /// all groups of ranks together, which is `count` without any split; `what` names it in the plan:
  /// "row maxima".
  virtual void all_reduce(std::string_view letters, ElementType type, Reduction reduction,
                          Operand buffer, std::int64_t count, std::int64_t global_count,
                          const std::string& what) = 0;
};

}  // namespace meshwork
