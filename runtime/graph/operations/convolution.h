// Convolution: y (batch, rows, columns, filters) = the sum over the places of a window and over the
// channels of x (batch, rows, columns, channels) times kernel (window rows, window columns,
// channels / groups, filters). A cross-correlation, as in Keras; no flip.
//
// Rule "nhwc,rscf->nhwf" with windows over h and w, r and s whole. A split of c leaves the output
// partial, one of f the gradient of x, one of n, h or w the gradient of the kernel. With one
// spatial dimension the letters h and r are left out, and the kernels see images of one row.
//
// With groups, filter f of group f / (filters / groups) looks at the channels of that group alone.
// Rule "nhwg,rsig->nhwg": the windows slide over g too, since a block of filters needs the channels
// of the groups that it touches, and no others. Depthwise is groups = channels. A block that begins
// or ends inside a group runs whole groups with a kernel that is zero where filters are not its
// own, and cuts its filters out; blocks of whole groups run as they are.
//
// A bias and an activation that follow can be joined to it (epilogue.h).
#pragma once

#include <vector>

#include "runtime/device/kernels/convolution.h"
#include "runtime/device/program.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

class ConvolutionOperation final : public Operation {
 public:
  /// `windows` by spatial dimension, one or two.
  explicit ConvolutionOperation(std::vector<SlidingWindow> windows, std::int64_t groups = 1,
                                Epilogue epilogue = {});

  std::string kind() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  Range window(int input, int dimension, Range output,
               std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;
  Activation ends_in() const override { return epilogue_.ends_in(); }
  bool draws() const override { return epilogue_.dropout > 0; }
  std::unique_ptr<Operation> fused_with(const Operation& next, int position) const override;

 private:
  // What this rank computes: the convolution of its blocks, or of the whole groups around them.
  struct Part {
    ConvolutionShape at;
    bool whole_groups = true;      // else filters are cut out of what `at` computes
    std::int64_t filters = 0;      // of this rank
    std::int64_t first = 0;        // its first, among those of `at`
    std::int64_t places = 0;       // of outputs, over batch and spatial dimensions
    std::int64_t kernel_rows = 0;  // of a kernel: window places times channels of a group
  };
  Part part(const Lowering& lowering) const;
  static Operand wide_kernel(Lowering& lowering, const Part& part);

  std::vector<SlidingWindow> windows_;
  std::int64_t groups_;
  Epilogue epilogue_;
};

}  // namespace meshwork
