#include "runtime/device/kernels/adam.h"
#include "runtime/device/kernels/convolution.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/kernels/sgd.h"

#include "tests/support/catch.h"

namespace meshwork::kernels_page_test {

TEST_CASE("a product does two operations a pair, and reads and writes each matrix once") {
  const KernelWork work = MatmulSpec{.m = 3, .n = 5, .k = 7, .bias = true}.work();
  CHECK(work.flops == 2 * 3 * 5 * 7);
  CHECK(work.bytes == 4 * (3 * 7 + 7 * 5 + 3 * 5 + 5));
  CHECK(MatmulSpec{.m = 3, .n = 5, .k = 7, .accumulate = true}.work().bytes ==
        4 * (3 * 7 + 7 * 5 + 2 * 3 * 5));
}

TEST_CASE("what a product takes along of gradients counts by the bytes that it adds") {
  const double alone = MatmulSpec{.m = 3, .n = 5, .k = 7}.work().bytes;
  CHECK(MatmulSpec{.m = 3, .n = 5, .k = 7, .column_sums = true}.work().bytes == alone + 4 * 5);
  MatmulSpec gradient{.m = 3, .n = 5, .k = 7, .derivative = Activation::relu};
  CHECK(gradient.work().bytes == alone + 4 * 3 * 5);
  gradient.mask = true;
  CHECK(gradient.work().bytes == alone + 3 * 16);
  CHECK(gradient.work().flops == 2 * 3 * 5 * 7);
}

TEST_CASE("the three kernels of a convolution do the same") {
  ConvolutionShape at;
  at.batch = 2;
  at.rows = {.input = 8, .output = 4, .window = 3, .stride = 2, .padding = 1};
  at.columns = {.input = 9, .output = 5, .window = 2, .stride = 2, .padding = 1};
  at.channels = 6;
  at.filters = 4;
  at.groups = 2;
  const KernelWork forward = ConvolutionSpec{.at = at}.work();
  CHECK(forward.flops == 2.0 * (2 * 4 * 5 * 4) * (3 * 2 * 3));
  CHECK(forward.bytes == 4.0 * (2 * 8 * 9 * 6 + 2 * 4 * 5 * 4 + 3 * 2 * 3 * 4));
  CHECK(ConvolutionInputGradientSpec{at}.work().flops == forward.flops);
  CHECK(ConvolutionKernelGradientSpec{at}.work().bytes == forward.bytes);
}

TEST_CASE("what is done element by element counts by its bytes") {
  // The figures of a parameter in speed references: SGD 12, with momentum 20, Adam 28.
  CHECK(SgdSpec{.count = 10}.work().bytes == 120);
  CHECK(SgdSpec{.count = 10, .momentum = 0.9f}.work().bytes == 200);
  CHECK(AdamSpec{.count = 10}.work().bytes == 280);
  CHECK(AdamSpec{.count = 10}.work().flops == 0);
  CHECK(AdamSpec{.count = 10, .narrows = true}.work().bytes == 300);
  CHECK(ConvertSpec{.count = 10, .from = ElementType::uint8}.work().bytes == 50);
  CHECK(SumSpec{.count = 10, .inputs = 3}.work().bytes == 160);
  const CopySpec copy{ElementType::float64, {{.extents = {3, 4}}, {.extents = {5}, .add = true}}};
  CHECK(copy.work().bytes == 8 * (2 * 12 + 3 * 5));
}

}  // namespace meshwork::kernels_page_test
