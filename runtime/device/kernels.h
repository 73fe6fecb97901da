// The kernels that every device has, as specifications: plain values that say what to compute on
// which local shapes. `Device::compile` turns one into something that runs.
//
// Tensors are float32 and row-major unless said otherwise. "rows" are all leading dimensions taken
// together, "columns" the last one. Operand order stands with each specification: inputs, then
// outputs. Any count may be 0. Outputs do not overlap inputs unless "may be in place" is said. Sums
// that stand for the whole batch are float64 scalars and are *written*, not added to. Every kernel
// gives the same bits for the same inputs.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "collectives/element_type.h"
#include "runtime/mesh/layout.h"

namespace meshwork {

/// Formulas: reference/keras.md; gelu is the exact one, x * Phi(x).
enum class Activation : std::uint8_t { linear, relu, gelu, sigmoid, tanh, softmax };

/// Values that change from step to step, in device memory at a fixed address. Kernels that need
/// them take a pointer to one as an operand.
struct StepScalars {
  std::int64_t step = 0;    // optimizer iterations done before this step
  float learning_rate = 0;  // of this step
};

// ---- products ---------------------------------------------------------------------------------

/// c (m, n) = activation(op(a) (m, k) * op(b) (k, n) + bias (n)); with `accumulate`, c += instead
/// (then without bias and activation). op transposes: a is stored (k, m) if transpose_a, b (n, k)
/// if transpose_b. Activation: linear, relu. Operands: a, b, [bias], c. k = 0 gives the bias alone.
struct MatmulSpec {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
  bool bias = false;
  Activation activation = Activation::linear;
};

/// y (rows, columns) = activation(x + bias (columns)); activation elementwise (not softmax). May be
/// in place. Operands: x, bias, y.
struct BiasAddSpec {
  std::int64_t rows = 0, columns = 0;
  Activation activation = Activation::linear;
};

/// s (columns) = sum over rows of x (rows, columns). Operands: x, s.
struct ColumnSumSpec {
  std::int64_t rows = 0, columns = 0;
};

// ---- elementwise ------------------------------------------------------------------------------

/// y = activation(x), elementwise (not softmax). May be in place. Operands: x, y.
struct ActivationSpec {
  Activation activation = Activation::linear;
  std::int64_t count = 0;
};

/// dx = dy * activation'(at), where `value` is y for relu, sigmoid and tanh, and x for gelu. May be
/// in place on dy. Operands: value, dy, dx.
struct ActivationGradientSpec {
  Activation activation = Activation::linear;
  std::int64_t count = 0;
};

/// y = x * scale + offset. May be in place. Operands: x, y.
struct AffineSpec {
  std::int64_t count = 0;
  float scale = 1, offset = 0;
};

/// y (float32) = x converted from `from`. Operands: x, y.
struct ConvertSpec {
  std::int64_t count = 0;
  ElementType from = ElementType::uint8;
};

/// y = sum of `inputs` tensors; the first may be y itself. Operands: x_0 ... x_{inputs-1}, y.
struct SumSpec {
  std::int64_t count = 0;
  int inputs = 2;
};

/// Dropout as Keras: element i of the *global* tensor of shape `global` is kept if its Philox word
/// (key, i, step) is >= rate * 2^32, and then divided by 1 - rate; rate 1 gives zeros. x and y are
/// the `block` of it. The gradient is the same kernel on dy. May be in place. Operands: x,
/// StepScalars, y.
struct DropoutSpec {
  float rate = 0;
  std::uint64_t key = 0;
  Shape global;
  Block block;
};

/// x = 0 in `bytes` bytes. Operands: x.
struct ZeroSpec {
  std::int64_t bytes = 0;
};

// ---- moving ------------------------------------------------------------------------------------

/// One box of elements to copy: `extents` elements by dimension, from and to offsets and strides
/// (all in elements; the innermost strides need not be 1). With `add` they are added to what stands
/// at the destination (float32 and float64).
struct CopyRegion {
  std::vector<std::int64_t> extents;
  std::int64_t source_offset = 0, destination_offset = 0;
  std::vector<std::int64_t> source_strides, destination_strides;
  bool add = false;
};

/// Copies, or adds, each region in turn. Operands: source, destination.
struct CopySpec {
  ElementType type = ElementType::float32;
  std::vector<CopyRegion> regions;
};

// ---- rows: softmax, cross-entropy, ranking ---------------------------------------------------
// Split columns are no special case: a kernel does its part of the columns and the operation
// completes the row's value by a collective between two kernels.

/// m (rows) = maximum over columns of x, -infinity for no columns. NaN counts as the maximum.
/// Operands: x, m.
struct RowMaximumSpec {
  std::int64_t rows = 0, columns = 0;
};

/// e = exp(x - m), s (rows) = sum over columns of e. Operands: x, m, e, s.
struct RowExponentialSpec {
  std::int64_t rows = 0, columns = 0;
};

/// y = e / s. May be in place. Operands: e, s, y.
struct RowDivideSpec {
  std::int64_t rows = 0, columns = 0;
};

/// s (rows) = sum over columns of x. Operands: x, s.
struct RowSumSpec {
  std::int64_t rows = 0, columns = 0;
};

/// r (rows) = sum over columns of a * b. Operands: a, b, r.
struct RowDotSpec {
  std::int64_t rows = 0, columns = 0;
};

/// dx = y * (dy - r), the gradient of softmax with r = RowDot(y, dy). Operands: y, dy, r, dx.
struct SoftmaxGradientSpec {
  std::int64_t rows = 0, columns = 0;
};

/// How a row's target is given: class numbers, or a weight for every class.
enum class TargetKind : std::uint8_t { sparse, dense };

/// Where this rank's columns lie among all classes, and how targets are read. Sparse targets are
/// (rows) float32 class numbers, dense ones (rows, columns) float32 weights. With `smoothing` s the
/// weight t of a class becomes t (1 - s) + s / classes.
struct ClassColumns {
  std::int64_t rows = 0, columns = 0;
  std::int64_t first_class = 0, classes = 0;
  TargetKind target = TargetKind::sparse;
  float smoothing = 0;
};

/// Of logits x with row maxima m (over all classes): z (rows, 3) = this rank's part of
/// { sum exp(x - m), sum t (x - m), sum t }. Operands: x, target, m, z.
struct LogitStatisticsSpec {
  ClassColumns at;
};
/// loss (float64 scalar) = sum over rows of log(z0) * z2 - z1. Operands: z, loss.
struct LogitLossSpec {
  std::int64_t rows = 0;
};
/// dx = scale * (exp(x - m) / z0 * z2 - t). Operands: x, target, m, z, dx.
struct LogitGradientSpec {
  ClassColumns at;
  float scale = 1;
};

/// Of probabilities p with row sums s (over all classes), q = p / s, clipped to [epsilon, 1 -
/// epsilon] with epsilon 1e-7: loss (float64 scalar) = this rank's part of sum over rows and
/// columns of -t log(clip(q)); u (rows) = its part of sum t [q not clipped]. Operands: p, target,
/// s, loss, u.
struct ProbabilityLossSpec {
  ClassColumns at;
};
/// dp = scale * (u / s - t [q not clipped] / p), u completed over all classes.
/// Operands: p, target, s, u, dp.
struct ProbabilityGradientSpec {
  ClassColumns at;
  float scale = 1;
};

/// v (rows) = this rank's part of the value of the target class: x at the target class if it is
/// among its columns, else 0. Sparse targets. Operands: x, target, v.
struct TargetValueSpec {
  ClassColumns at;
};
/// c (rows) = how many of this rank's classes stand before the target class in descending order of
/// x, a tie going to the lower class: x_j > v or (x_j = v and j < target); NaN stands before
/// everything, and everything before a NaN target. The target itself never counts. Sparse targets.
/// Operands: x, target, v, c.
struct CountAheadSpec {
  ClassColumns at;
};
/// n (float64 scalar) = how many of c (rows) are < k. Operands: c, n.
struct CountBelowSpec {
  std::int64_t rows = 0;
  std::int64_t k = 1;
};
/// i (rows, float32) = the lowest class among this rank's columns whose x equals m, else `classes`.
/// NaN equals NaN. Operands: x, m, i.
struct FirstMaximumSpec {
  ClassColumns at;
};

// ---- windows: convolution and pooling ----------------------------------------------------------
// Images are (batch, rows, columns, channels). One row makes them sequences: Conv1D is Conv2D with
// windows of one row. Shapes are local: where images are split by rows or columns, the operation
// has brought the rank all input that the windows of its output look at, and `padding` says how the
// input that it holds lies against them.

/// One spatial dimension over which windows slide. Place k of the window of output o lies at input
///   o * stride - padding + k * dilation,   0 <= k < window;
/// what is outside [0, input) is padding. What pads behind the input follows from the lengths. A
/// negative `padding` means that the first -padding inputs are not looked at, and the last ones may
/// be none's too. A window may lie in padding altogether.
struct WindowDimension {
  std::int64_t input = 1, output = 1;
  std::int64_t window = 1, stride = 1, dilation = 1;
  std::int64_t padding = 0;
};

/// What the kernels of one convolution share. `channels` are those of the input, `filters` those of
/// the output; filter f of group g = f / (filters / groups) sees the channels of group g alone, so
/// both must divide by `groups`. Depthwise: groups = channels, filters = channels * multiplier, in
/// the order of Keras's depthwise kernel.
struct ConvolutionShape {
  std::int64_t batch = 0;
  WindowDimension rows, columns;
  std::int64_t channels = 0, filters = 0;
  std::int64_t groups = 1;
};

/// y (batch, output rows, output columns, filters) = activation(bias (filters) + sum over window
/// places and channels of x (batch, input rows, input columns, channels) * kernel (window rows,
/// window columns, channels / groups, filters)), a cross-correlation with zeros as padding.
/// Activation: linear, relu. Operands: x, kernel, [bias], y. No channels give the bias alone.
struct ConvolutionSpec {
  ConvolutionShape at;
  bool bias = false;
  Activation activation = Activation::linear;
};

/// dx (as x) = the gradient of the convolution by its input: each dy (as y) times the kernel, added
/// where its window lies; 0 where no window does. It is also a transposed convolution's result (as
/// x) from its input (as y), with Keras's Conv2DTranspose kernel (window rows, window columns,
/// filters of the result, channels of the input). Operands: dy, kernel, dx.
struct ConvolutionInputGradientSpec {
  ConvolutionShape at;
};

/// dkernel (as kernel) = the gradient of the convolution by its kernel: written, over this rank's
/// batch and output. The bias's is ColumnSumSpec. Operands: x, dy, dkernel.
struct ConvolutionKernelGradientSpec {
  ConvolutionShape at;
};

/// What the kernels of one pooling share: x is (batch, input rows, input columns, channels), y
/// (batch, output rows, output columns, channels).
struct PoolingShape {
  std::int64_t batch = 0;
  WindowDimension rows, columns;
  std::int64_t channels = 0;
};

/// The element type in which maximum pooling writes its winners: uint8 for windows of up to 256
/// places, int32 beyond.
[[nodiscard]] constexpr ElementType winner_type(const PoolingShape& at) {
  return at.rows.window * at.columns.window <= 256 ? ElementType::uint8 : ElementType::int32;
}

/// y = maximum over the window without its padding, -infinity if it is all padding. NaN counts as
/// the maximum. With `winners`, w (as y, of winner_type) = the window place, row-major, of the
/// first element that is the maximum. Operands: x, y, [w].
struct MaximumPoolingSpec {
  PoolingShape at;
  bool winners = false;
};
/// dx (as x) = sum of dy over the windows whose winner it is. Operands: w, dy, dx.
struct MaximumPoolingGradientSpec {
  PoolingShape at;
};

/// y = mean over the window without its padding, 0 if it is all padding. Operands: x, y.
struct AveragePoolingSpec {
  PoolingShape at;
};
/// dx (as x) = sum over its windows of dy / (elements of the window that are no padding).
/// Operands: dy, dx.
struct AveragePoolingGradientSpec {
  PoolingShape at;
};

// ---- reductions over a middle dimension --------------------------------------------------------
// Global pooling: outer is the batch, middle rows * columns, inner the channels.

/// y (outer, inner) = scale * sum over middle of x (outer, middle, inner); 0 for no middle.
/// Operands: x, y.
struct MiddleSumSpec {
  std::int64_t outer = 0, middle = 0, inner = 0;
  float scale = 1;
};
/// y (outer, middle, inner) = scale * x (outer, inner), the gradient of the sum. Operands: x, y.
struct MiddleBroadcastSpec {
  std::int64_t outer = 0, middle = 0, inner = 0;
  float scale = 1;
};
/// m (outer, inner) = maximum over middle of x, -infinity for no middle. NaN counts as the maximum.
/// Operands: x, m.
struct MiddleMaximumSpec {
  std::int64_t outer = 0, middle = 0, inner = 0;
};
/// t (outer, inner, float32) = how many elements of middle equal m. NaN equals NaN. Operands: x, m,
/// t.
struct MiddleTiesSpec {
  std::int64_t outer = 0, middle = 0, inner = 0;
};
/// dx (outer, middle, inner) = dy / t where x equals m, else 0: the elements that are the maximum
/// share its gradient, as in Keras. NaN equals NaN. Operands: x, m, t, dy, dx.
struct MiddleMaximumGradientSpec {
  std::int64_t outer = 0, middle = 0, inner = 0;
};

// ---- batch normalization -----------------------------------------------------------------------
// Of x (rows, channels), whose rows are this rank's part of all that are normalized together. The
// kernels leave out what the ranks have to add up: training is
//   ChannelMoments, all-reduce of z, ChannelStatistics, Normalize; backward
//   NormalizeGradientSums, all-reduce of z, NormalizeGradient;
// with frozen statistics it is InverseDeviation, Normalize; backward the same with `frozen`, which
// needs the sums for gamma and beta alone. The gradient of beta (channels) is z0, that of gamma z1:
// ConvertSpec makes them float32, before or after the all-reduce.

/// z (2, channels; float64) = { sum of x, sum of x^2 } over the rows. Squares of float32 are exact
/// in float64, so that the variance from sums over all ranks is better than the data even where the
/// mean is a million deviations away. Operands: x, z.
struct ChannelMomentsSpec {
  std::int64_t rows = 0, channels = 0;
};

/// From z, summed over all ranks, of `count` rows in all: mean = z0 / count, variance = z1 / count -
/// mean^2 (population; never below 0), inverse = 1 / sqrt(variance + epsilon), new moving value =
/// momentum * moving value + (1 - momentum) * value of the batch. All (channels); a new moving value
/// may lie where the old one does. No rows give mean 0, variance 0 and leave the moving values.
/// Operands: z, moving mean, moving variance, mean, inverse, new moving mean, new moving variance.
struct ChannelStatisticsSpec {
  std::int64_t channels = 0;
  std::int64_t count = 0;
  double epsilon = 1e-3, momentum = 0.99;
};

/// inverse (channels) = 1 / sqrt(variance (channels) + epsilon). Operands: variance, inverse.
struct InverseDeviationSpec {
  std::int64_t channels = 0;
  double epsilon = 1e-3;
};

/// What normalizing and its gradients share: whether there is a gamma (`scale`) and a beta
/// (`center`), each (channels), and the activation behind: linear or relu.
struct NormalizationShape {
  std::int64_t rows = 0, channels = 0;
  bool scale = true, center = true;
  Activation activation = Activation::linear;
};

/// y = activation((x - mean) * inverse * gamma + beta). May be in place. Operands: x, mean, inverse,
/// [gamma], [beta], y.
struct NormalizeSpec {
  NormalizationShape at;
};

/// z (2, channels; float64) = this rank's { sum of g, sum of g * (x - mean) * inverse }, where g is
/// dy, with relu 0 where y (computed again from x) is not above 0. Operands: x, dy, mean, inverse,
/// [gamma], [beta], z.
struct NormalizeGradientSumsSpec {
  NormalizationShape at;
};

/// dx = gamma * inverse * (g - (z0 + (x - mean) * inverse * z1) / count), g as above and z summed
/// over all ranks' `count` rows; `frozen`: dx = gamma * inverse * g, since mean and inverse do not
/// depend on x. May be in place on dy. Operands: x, dy, mean, inverse, [gamma], [beta], [z unless
/// frozen], dx.
struct NormalizeGradientSpec {
  NormalizationShape at;
  std::int64_t count = 0;
  bool frozen = false;
};

// ---- upsampling --------------------------------------------------------------------------------

enum class Interpolation : std::uint8_t { nearest, bilinear };

/// One spatial dimension of an image of `length` that is enlarged `factor` times. This rank holds
/// the image from `first_input` on (`input` of it) and makes the result from `first_output` on
/// (`output` of it); it must hold what its part of the result looks at. Global output o looks at
///   nearest: o / factor, rounded down;
///   bilinear: s = (o + 1/2) / factor - 1/2, cut to [0, length - 1]: input floor(s) with weight
///   1 - (s - floor(s)), the next one with the rest.
struct UpsamplingDimension {
  std::int64_t length = 1, factor = 1;
  std::int64_t first_input = 0, input = 1;
  std::int64_t first_output = 0, output = 1;
};

struct UpsamplingShape {
  std::int64_t batch = 0;
  UpsamplingDimension rows, columns;
  std::int64_t channels = 0;
  Interpolation interpolation = Interpolation::nearest;
};

/// y (batch, output rows, output columns, channels) from x (batch, input rows, input columns,
/// channels): Keras's UpSampling2D. Operands: x, y.
struct UpsamplingSpec {
  UpsamplingShape at;
};
/// dx (as x) = the gradient by what the rank holds of its part of the result; 0 where that does not
/// look. Operands: dy, dx.
struct UpsamplingGradientSpec {
  UpsamplingShape at;
};

// ---- elementwise losses, summed ----------------------------------------------------------------

/// loss (float64 scalar) = scale * sum of (p - t)^2. Operands: p, t, loss.
struct SquaredErrorSpec {
  std::int64_t count = 0;
  double scale = 1;
};
/// dp = scale * 2 (p - t). Operands: p, t, dp.
struct SquaredErrorGradientSpec {
  std::int64_t count = 0;
  float scale = 1;
};
/// loss (float64 scalar) = scale * sum of |p - t|. Operands: p, t, loss.
struct AbsoluteErrorSpec {
  std::int64_t count = 0;
  double scale = 1;
};
/// Binary cross-entropy, t' = t (1 - smoothing) + smoothing / 2. Probabilities are clipped to
/// [1e-7, 1 - 1e-7]; logits use max(x, 0) - x t' + log(1 + exp(-|x|)).
/// loss (float64 scalar) = scale * sum. Operands: p, t, loss.
struct BinaryCrossentropySpec {
  std::int64_t count = 0;
  double scale = 1;
  bool from_logits = false;
  float smoothing = 0;
};
/// dp = scale * derivative; 0 where p is clipped. Operands: p, t, dp.
struct BinaryCrossentropyGradientSpec {
  std::int64_t count = 0;
  float scale = 1;
  bool from_logits = false;
  float smoothing = 0;
};
/// n (float64 scalar) = scale * how often (p > threshold) equals t. Operands: p, t, n.
struct BinaryMatchSpec {
  std::int64_t count = 0;
  double scale = 1;
  float threshold = 0.5f;
};

// ---- gradients and updates --------------------------------------------------------------------

/// s (float64 scalar) = sum of |x|^power (power 1 or 2), in a fixed order. Operands: x, s.
struct PowerSumSpec {
  std::int64_t count = 0;
  int power = 2;
};
/// s (float64 scalar) = sum of factors[i] * x[i], over the `factors.size()` float64 scalars x.
/// Operands: x, s.
struct WeightedSumSpec {
  std::vector<double> factors;
};
/// dw += l1 * sign(w) + 2 * l2 * w. Operands: w, dw.
struct PenaltyGradientSpec {
  std::int64_t count = 0;
  float l1 = 0, l2 = 0;
};
/// f (float32 scalar) from s (float64 scalar, the squared norm n^2): by norm, c / max(n, c);
/// globally, c * min(1 / n, 1 / c). Operands: s, f.
struct ClipFactorSpec {
  float clip = 1;
  bool global = false;
};
/// x *= f (float32 scalar in memory). Operands: f, x.
struct ScaleBySpec {
  std::int64_t count = 0;
};
/// x = min(max(x, -limit), limit). Operands: x.
struct ClampSpec {
  std::int64_t count = 0;
  float limit = 1;
};

// One fused pass over a flat block of parameters w and their gradients g. All: first w -= w * decay
// * lr where decay is not 0; then the formula of reference/keras.md with t = step + 1, g read as g
// * factor if `scaled` (factor: float32 scalar in memory). Rates are doubles, because 1 - beta is
// rounded to float32 once: 1 - 0.999f would be off by one part in 80 000.

/// Operands: StepScalars, [factor], g, w, [m if momentum is not 0].
struct SgdSpec {
  std::int64_t count = 0;
  float momentum = 0;
  bool nesterov = false;
  float decay = 0;
  bool scaled = false;
};
/// Operands: StepScalars, [factor], g, w, m, v, [running maximum of v if amsgrad].
struct AdamSpec {
  std::int64_t count = 0;
  double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7;
  bool amsgrad = false;
  float decay = 0;
  bool scaled = false;
};
/// Operands: StepScalars, [factor], g, w, v, [m if momentum is not 0], [mean of g if centered].
/// Keras: v = rho v + (1 - rho) g^2; d = v, less mean^2 if centered; u = lr g / sqrt(d + epsilon);
/// with momentum m = momentum m + u, w -= m; else w -= u.
struct RmspropSpec {
  std::int64_t count = 0;
  double rho = 0.9, momentum = 0, epsilon = 1e-7;
  bool centered = false;
  float decay = 0;
  bool scaled = false;
};

using KernelSpec = std::variant<
    MatmulSpec, BiasAddSpec, ColumnSumSpec, ActivationSpec, ActivationGradientSpec, AffineSpec,
    ConvertSpec, SumSpec, DropoutSpec, ZeroSpec, CopySpec, RowMaximumSpec, RowExponentialSpec,
    RowDivideSpec, RowSumSpec, RowDotSpec, SoftmaxGradientSpec, LogitStatisticsSpec, LogitLossSpec,
    LogitGradientSpec, ProbabilityLossSpec, ProbabilityGradientSpec, TargetValueSpec,
    CountAheadSpec, CountBelowSpec, FirstMaximumSpec, ConvolutionSpec, ConvolutionInputGradientSpec,
    ConvolutionKernelGradientSpec, MaximumPoolingSpec, MaximumPoolingGradientSpec,
    AveragePoolingSpec, AveragePoolingGradientSpec, MiddleSumSpec, MiddleBroadcastSpec,
    MiddleMaximumSpec, MiddleTiesSpec, MiddleMaximumGradientSpec, ChannelMomentsSpec,
    ChannelStatisticsSpec, InverseDeviationSpec, NormalizeSpec, NormalizeGradientSumsSpec,
    NormalizeGradientSpec, UpsamplingSpec, UpsamplingGradientSpec, SquaredErrorSpec,
    SquaredErrorGradientSpec, AbsoluteErrorSpec, BinaryCrossentropySpec,
    BinaryCrossentropyGradientSpec, BinaryMatchSpec, PowerSumSpec, WeightedSumSpec,
    PenaltyGradientSpec, ClipFactorSpec, ScaleBySpec, ClampSpec, SgdSpec, AdamSpec, RmspropSpec>;

/// "matmul 64x256x784" and so on, for tables and messages.
[[nodiscard]] std::string describe(const KernelSpec& spec);

}  // namespace meshwork
