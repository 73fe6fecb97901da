// Operation: one differentiable step of a graph, as the planner and the lowering see it.
//
// An operation *states* its dimensions and *emits* its kernels; it never decides about parallelism.
// What it states is a `Rule`: one letter for each dimension of each operand, as an einsum does. A
// dense product is "bi,io->bo". The planner picks, for each mesh axis, which letter it splits, and
// everything else follows mechanically:
//
// - an operand lies split by the axes of its letters, and is replicated over axes
//   that split letters it lacks;
// - the output is partial over each axis that splits a letter which the output
//   lacks;
// - the raw gradient of an operand lies as the operand, and is partial over each
//   axis that splits a letter which that operand lacks.
//
// A letter of the output alone counts what the operation makes: a rank makes its own part.
//
// A letter may stand for dimensions of different lengths where the operation slides a *window*: a
// convolution is "nhwc,rscf->nhwf", and its h is the rows of the input and those of the output. A
// split of h gives every rank its block of both, each divided by its own length, and `window` says
// which rows of the input a block of output rows needs. What a rank needs beyond its own block (a
// halo, in the usual case) is brought before forward, and what its gradient says about rows of
// others is added to theirs after backward; the operation only sees an input that is larger.
//
// Layers are made of operations: a Dense layer is a product, then a bias, then an activation. Each
// is planned by the same rule, so that "the bias comes after the reduction" needs no rule of its
// own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/element_type.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/graph/epilogue.h"
#include "runtime/shape/partition.h"
#include "runtime/shape/shape.h"

namespace meshwork {

class Lowering;

struct Rule {
  std::vector<std::string> inputs;  // by input: one letter a dimension
  std::string output;               // one letter a dimension; "" for a sum over everything
  // Letters that no axis may split: the kernel needs the dimension whole.
  std::string whole;
  // Letters whose split the operation completes by collectives that it emits itself (softmax over
  // split classes). They make neither the output nor a gradient partial.
  std::string own;
  // Letters for which `Operation::window` says what an input must hold. Any other letter has the
  // same length wherever it stands.
  std::string windows;
};

/// A reduction that an operation emits itself, as the planner counts it: over the axes that split
/// `over`, of as many elements as a rank holds of the letters `of`.
struct OwnReduction {
  std::string over;
  std::string of;
  std::int64_t bytes_per_element = 4;
  bool backward = false;
};

class Operation;

/// What rewrites (rewrites/rewrites.h) can ask of an operation: all that it is beyond a rule and
/// its numbers. An operation that takes no part in them has none of it.
struct Fusible {
  /// What it does behind its own work. If that is dropout, it draws random numbers, for which it
  /// has a key of its own; two that draw are never joined.
  Epilogue epilogue = {};
  /// Whether it does nothing else, so that others can do it.
  bool is_epilogue = false;
  /// Makes the same operation with another epilogue, or null if that cannot be had. Called while
  /// the operation is there.
  std::function<std::unique_ptr<Operation>(const Epilogue&)> with = {};
  /// The activation that makes the output, if its gradient can be somebody else's affair: backward
  /// then takes the output's gradient for that of what stands before the activation, where
  /// `Lowering::output_gradient_is_before_activation` says so.
  Activation ends_in = Activation::linear;
  /// Whether backward multiplies the gradient of input 0, where it makes it, by the derivative of
  /// the activation that made that input (`Lowering::derivative`), at less cost than a kernel of
  /// its own.
  bool takes_derivative = false;
  /// Whether inputs 0 and 1 are the factors of the products of matrices (MatmulSpec) that it emits.
  bool multiplies = false;
};

/// What the values of an output are, as a loss may ask.
enum class ValueKind : std::uint8_t {
  numbers,        // of any size
  probabilities,  // between 0 and 1: of a softmax or a sigmoid
  mask,           // by comparison, such as 0 or 1: no gradient goes back through them
  as_input,       // those of input 0, under another name, shape or order
};

/// l1 * sum |x| + l2 * sum x^2 of each sample, as the mean over the batch.
struct ActivityPenalty {
  float l1 = 0, l2 = 0;
  [[nodiscard]] bool active() const { return l1 != 0 || l2 != 0; }
};

class Operation {
 public:
  virtual ~Operation() = default;

  /// What it is, for tables: "product", "bias", "relu".
  [[nodiscard]] virtual std::string kind() const = 0;

  /// The output's global shape. A batch that is still open is the length -1 in dimension 0 and
  /// stays so. Throws `Error` that says what was expected if the inputs do not fit. Unless an
  /// operation says otherwise, it takes one input and gives the same shape.
  [[nodiscard]] virtual Shape output_shape(std::span<const Shape> inputs) const;

  /// The output's element type. Throws `Error` for inputs of types that it does not take: unless an
  /// operation says otherwise, it makes float32 of float32.
  [[nodiscard]] virtual ElementType output_type(std::span<const ElementType> inputs) const;

  /// The letters, for inputs of these global shapes. Where dimension 0 is the batch, all operands
  /// that have it give it the same letter. Unless an operation says otherwise, the same letters for
  /// all inputs and the output: it works element by element.
  [[nodiscard]] virtual Rule rule(std::span<const Shape> inputs) const;

  /// What of dimension `dimension` of input `input` is needed for the range `output` of the
  /// output's dimension with the same letter: a range in the input's own numbers, within its
  /// length. Asked only for letters in the rule's `windows`, and never for an empty range (which
  /// needs nothing). The same range, unless an operation says otherwise. Neither end goes back as
  /// `output` goes on.
  [[nodiscard]] virtual Range window(int input, int dimension, Range output,
                                     std::span<const Shape> inputs) const;

  /// Whether forward works on pieces of sequences (sequences.h), whose positions have `letter` of
  /// its rule. So it does, unless an operation says otherwise, where that is an ordinary letter,
  /// which the output has. Of one of windows, `Operation::window` must look at no position behind
  /// the output's. What tells positions apart by the output's block asks `Lowering::positions`, or
  /// says no.
  [[nodiscard]] virtual bool takes_pieces(char letter, const Rule& rule) const;

  /// The reductions that forward and backward emit over letters in the rule's `own`, for costs.
  [[nodiscard]] virtual std::vector<OwnReduction> own_reductions(const Rule& rule) const;

  /// Of a sum over everything: how many float64 numbers it is, which stand and travel side by side.
  [[nodiscard]] virtual std::int64_t sum_count() const { return 1; }

  /// Floating-point operations of the whole forward pass, of all ranks: the planner's arithmetic.
  [[nodiscard]] virtual double flops(std::span<const Shape> inputs, const Shape& output) const;
  /// The share of them that the last of `parts` equal blocks of `letter` takes, if no block takes
  /// more. Blocks take equal shares, unless an operation says otherwise.
  [[nodiscard]] virtual double largest_share(char letter, std::int64_t parts,
                                             std::span<const Shape> inputs) const;

  /// Emits the forward pass on this rank's blocks.
  virtual void forward(Lowering& lowering) const = 0;
  /// Emits the backward pass: from the gradient of the output, the raw gradient of each input that
  /// needs one (Lowering::needs_gradient). Gradients of activations before those of variables.
  virtual void backward(Lowering& lowering) const = 0;

  /// Whether backward reads the value of input `input`: variables that are gathered for use are
  /// gathered again for it, which the planner counts.
  [[nodiscard]] virtual bool backward_reads(int input) const;

  /// If the values of input `input` are numbers of classes, from 0: of how many. Any numbers, 0,
  /// unless an operation says otherwise.
  [[nodiscard]] virtual std::int64_t classes(int input) const {
    (void)input;
    return 0;
  }

  /// What the output's values are. Any numbers, unless an operation says otherwise.
  [[nodiscard]] virtual ValueKind output_values() const { return ValueKind::numbers; }

  /// Whether it works element by element, and a larger number never becomes a smaller one, whatever
  /// is rounded. Not so, unless an operation says otherwise.
  [[nodiscard]] virtual bool keeps_order() const { return false; }

  /// What the loss is charged for the output, a sample. Nothing, unless an operation says
  /// otherwise.
  [[nodiscard]] virtual ActivityPenalty penalty() const { return {}; }

  /// What it can be joined with; nothing, unless an operation says otherwise.
  [[nodiscard]] virtual Fusible fusible() const;
};

}  // namespace meshwork
