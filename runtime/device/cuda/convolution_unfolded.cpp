// Convolutions without groups as matrix products with unfolded images, where cuDNN has no form.
//
// The windows of some images become the rows of a matrix (positions, window places * channels),
// which cuBLASLt multiplies with the kernel, a matrix (window places * channels, filters) as it
// lies in memory. The gradient by the kernel is the product of the transposed matrix with dy; that
// by the input is a product, whose elements each pixel gathers (convolution_direct.cu). As many
// images at a time as make a matrix of `most_matrix` bytes. Bound by FLOP for many channels, else
// by writing and reading the matrix: 8 bytes for a window's place and channel.
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/convolution_forms.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/workspace.h"
#include "runtime/device/kernels/convolution.h"
#include "runtime/device/kernels/products.h"

namespace meshwork::cuda {

namespace {

constexpr std::int64_t most_matrix = std::int64_t{256} << 20;
constexpr auto element = static_cast<std::int64_t>(sizeof(float));

/// Some images, with the product that their number needs. The workspace of a kernel: the matrix,
/// then the largest workspace of its products.
struct Piece {
  std::int64_t first, images;
  Kernel* product;
};

/// The images in pieces of equal size, but for the last one; `spec(positions, first)` is the
/// product of a piece.
class Pieces {
 public:
  template <class Spec>
  Pieces(const ConvolutionShape& at, const Context& context, const Spec& spec)
      : at_(at), positions_(output_size(at).count()), width_(kernel_count(at) / at.filters) {
    const std::int64_t most =
        std::clamp<std::int64_t>(most_matrix / (element * positions_ * width_), 1, at.batch);
    for (std::int64_t first = 0; first < at.batch; first += most) {
      const std::int64_t images = std::min(most, at.batch - first);
      products_.push_back(compile(spec(images * positions_, width_, first == 0), context));
      pieces_.push_back({first, images, products_.back().get()});
      inner_ = std::max(inner_, products_.back()->workspace_bytes());
    }
    matrix_ = rounded_up(most * positions_ * width_ * element);
  }

  [[nodiscard]] const std::vector<Piece>& list() const { return pieces_; }
  [[nodiscard]] std::int64_t bytes() const { return with_alignment(matrix_ + inner_); }
  [[nodiscard]] void* inner(std::byte* matrix) const { return matrix + matrix_; }
  /// The shape of one piece alone.
  [[nodiscard]] ConvolutionShape shape(const Piece& piece) const {
    ConvolutionShape shape = at_;
    shape.batch = piece.images;
    return shape;
  }
  [[nodiscard]] std::int64_t input(const Piece& piece) const {
    return piece.first * input_size(at_).count() * at_.channels;
  }
  [[nodiscard]] std::int64_t output(const Piece& piece) const {
    return piece.first * positions_ * at_.filters;
  }

 private:
  ConvolutionShape at_;
  std::int64_t positions_, width_;
  std::vector<KernelPointer> products_;
  std::vector<Piece> pieces_;
  std::int64_t matrix_ = 0, inner_ = 0;
};

}  // namespace

KernelPointer compile_unfolded(const ConvolutionSpec& spec, const Context& context) {
  const std::int64_t filters = spec.at.filters;
  const Precision precision = spec.precision;
  Pieces pieces(spec.at, context, [=](std::int64_t positions, std::int64_t width, bool) {
    return MatmulSpec{.m = positions, .n = filters, .k = width, .precision = precision};
  });
  const std::int64_t bytes = pieces.bytes();
  return make_kernel(
      [pieces = std::move(pieces), launcher = context.launcher](void* const* operands) {
        std::byte* const matrix = aligned_workspace(operands[3]);
        for (const Piece& piece : pieces.list()) {
          unfold(launcher, pieces.shape(piece), at(operands, 0) + pieces.input(piece),
                 reinterpret_cast<float*>(matrix));
          const std::array<void*, 4> product{
              matrix, operands[1], at(operands, 2) + pieces.output(piece), pieces.inner(matrix)};
          piece.product->run(product.data());
        }
      },
      bytes);
}

KernelPointer compile_unfolded(const ConvolutionInputGradientSpec& spec, const Context& context) {
  const std::int64_t filters = spec.at.filters;
  const Precision precision = spec.precision;
  Pieces pieces(spec.at, context, [=](std::int64_t positions, std::int64_t width, bool) {
    return MatmulSpec{
        .m = positions, .n = width, .k = filters, .transpose_b = true, .precision = precision};
  });
  const std::int64_t bytes = pieces.bytes();
  return make_kernel(
      [pieces = std::move(pieces), launcher = context.launcher](void* const* operands) {
        std::byte* const matrix = aligned_workspace(operands[3]);
        for (const Piece& piece : pieces.list()) {
          const std::array<void*, 4> product{at(operands, 0) + pieces.output(piece), operands[1],
                                             matrix, pieces.inner(matrix)};
          piece.product->run(product.data());
          fold(launcher, pieces.shape(piece), reinterpret_cast<const float*>(matrix),
               at(operands, 2) + pieces.input(piece));
        }
      },
      bytes);
}

KernelPointer compile_unfolded(const ConvolutionKernelGradientSpec& spec, const Context& context) {
  const std::int64_t filters = spec.at.filters;
  const Precision precision = spec.precision;
  Pieces pieces(spec.at, context, [=](std::int64_t positions, std::int64_t width, bool first) {
    return MatmulSpec{.m = width,
                      .n = filters,
                      .k = positions,
                      .transpose_a = true,
                      .accumulate = !first,
                      .precision = precision};
  });
  const std::int64_t bytes = pieces.bytes();
  return make_kernel(
      [pieces = std::move(pieces), launcher = context.launcher](void* const* operands) {
        std::byte* const matrix = aligned_workspace(operands[3]);
        for (const Piece& piece : pieces.list()) {
          unfold(launcher, pieces.shape(piece), at(operands, 0) + pieces.input(piece),
                 reinterpret_cast<float*>(matrix));
          const std::array<void*, 4> product{matrix, at(operands, 1) + pieces.output(piece),
                                             operands[2], pieces.inner(matrix)};
          piece.product->run(product.data());
        }
      },
      bytes);
}

}  // namespace meshwork::cuda
