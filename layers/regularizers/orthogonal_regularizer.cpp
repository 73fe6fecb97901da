#include "layers/regularizers/orthogonal_regularizer.h"

#include <vector>

#include "collectives/error.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/middle.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/kernels/pairs.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/narrowing.h"
#include "runtime/graph/layer_config.h"

namespace meshwork {
namespace {

// A matrix as so many vectors.
struct Vectors {
  bool are_rows;
  std::int64_t rows, columns;

  Vectors(bool of_rows, const Shape& shape)
      : are_rows(of_rows), rows(shape[0]), columns(shape[1]) {}
  [[nodiscard]] std::int64_t count() const { return are_rows ? rows : columns; }
  [[nodiscard]] std::int64_t length() const { return are_rows ? columns : rows; }
  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
  [[nodiscard]] MiddleExtents extents() const {
    return are_rows ? MiddleExtents{.outer = rows, .middle = columns, .inner = 1}
                    : MiddleExtents{.outer = 1, .middle = rows, .inner = columns};
  }
};

// The terms are u_i u_j, 0 for i = j. Kept for the derivative are 1 / |w| of each vector, and u.
WholePenalty book_products(const OrthogonalRegularizerOptions& options, WholeBooking& booking,
                           const Shape& shape, const Operand& w) {
  const Vectors of(options.of_rows, shape);
  const std::int64_t n = of.count();
  const double pairs = static_cast<double>(n) * static_cast<double>(n - 1) / 2;
  const Operand squares = booking.scratch(n, ElementType::float64);
  const Operand inverse = booking.scratch(n), units = booking.scratch(of.elements()),
                products = booking.scratch(n * n);
  booking.emit(MiddleSquaresSpec{of.extents()}, {w, squares});
  booking.emit(NormLimitsSpec{.count = n, .minimum = 1, .maximum = 1}, {squares, inverse});
  booking.emit(MiddleScaleSpec{of.extents()}, {w, inverse, units});
  booking.emit(MatmulSpec{.m = n,
                          .n = n,
                          .k = of.length(),
                          .transpose_a = !of.are_rows,
                          .transpose_b = of.are_rows},
               {units, units, products});
  booking.emit(ZeroDiagonalSpec{n}, {products});
  return {.factor = pairs > 0 ? 0.5 * static_cast<double>(options.factor) / pairs : 0,
          .sum = PowerSumSpec{n * n, 1},
          .terms = products,
          .kept = {inverse, units}};
}

// du_i = 2 factor * the sum of sign(u_i u_j) u_j over j; dw_i = (du_i - u_i (u_i du_i)) / |w_i|.
Operand book_derivative(const OrthogonalRegularizerOptions& options, WholeBooking& booking,
                        const Shape& shape, const WholePenalty& of) {
  const Vectors vectors(options.of_rows, shape);
  const std::int64_t n = vectors.count(), elements = vectors.elements();
  const Operand &inverse = of.kept[0], &units = of.kept[1];
  const Operand signs = booking.scratch(n * n), du = booking.scratch(elements),
                along = booking.scratch(elements), shares = booking.scratch(n);
  booking.emit(ZeroSpec{n * n * float32_bytes}, {signs});
  booking.emit(PenaltyGradientSpec{n * n, static_cast<float>(2 * of.factor), 0}, {of.terms, signs});
  booking.emit(MatmulSpec{.m = vectors.rows, .n = vectors.columns, .k = n},
               vectors.are_rows ? std::vector{signs, units, du} : std::vector{units, signs, du});
  booking.emit(PairSpec{PairFunction::product, elements}, {units, du, along});
  booking.emit(MiddleSumSpec{vectors.extents()}, {along, shares});
  booking.emit(MiddleScaleSpec{vectors.extents()}, {units, shares, along});
  booking.emit(PairSpec{PairFunction::difference, elements}, {du, along, du});
  booking.emit(MiddleScaleSpec{vectors.extents()}, {du, inverse, du});
  return du;
}

}  // namespace

template <class Visitor>
void describe(OrthogonalRegularizerOptions& options, Visitor& option) {
  option.about("a penalty on rows or columns of a matrix that are not at right angles");
  option("factor", options.factor, finite_not_negative,
         "factor of the mean size of the cosines between pairs");
  option.choice("mode", options.of_rows, {{"rows", true}, {"columns", false}},
                "pairs of rows or of columns");
}

Regularizer OrthogonalRegularizer(const OrthogonalRegularizerOptions& options) {
  check_options("OrthogonalRegularizer", options);
  Regularizer made{.name = "OrthogonalRegularizer", .settings = settings_of(options)};
  if (options.factor == 0) return made;
  made.whole =
      WholeRule{[options](WholeBooking& booking, const Shape& shape, const Operand& w) {
                  return book_products(options, booking, shape, w);
                },
                [options](WholeBooking& booking, const Shape& shape, const WholePenalty& of) {
                  return book_derivative(options, booking, shape, of);
                }};
  made.check = [](const Shape& shape) {
    if (shape.size() != 2) {
      fail(
          "the rows or columns of a matrix can be orthogonal: expected two dimensions, found shape "
          "{}",
          to_string(shape));
    }
  };
  return made;
}

void add_orthogonal_regularizer(Catalog& catalog) {
  catalog.add<Regularizer, OrthogonalRegularizerOptions>(
      "OrthogonalRegularizer", {"orthogonal_regularizer"}, OrthogonalRegularizer);
}

}  // namespace meshwork
