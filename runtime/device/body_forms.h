// The forms of loop that bodies are for, and bodies that map and sum.
//
// A *body* is an object of plain values and of pointers into the device's memory. A device has a
// class `Loops` with its Math (element_functions.h) and with functions that make kernels, each for
// bodies of one form. make(operands) gives the body of a run; `bytes` is what an element costs in
// traffic; i counts the elements of a matrix (rows, columns), row by row.
//   elements(context, count, bytes, make)      body(i) for each i of `count`
//   grid(context, rows, columns, bytes, make)  of_row(column, i) for each element, where
//       of_row = body.row(row) has what all of a row need
//   sum(context, count, bytes, operands, scale, make)
//       the last of so many operands, a double, = scale * the sum of body(i), in double, in an
//       order that the count alone decides
//   rows(context, rows, columns, bytes, make)  body.finish(row, v) for each row, where v has
//       body.term(row, column, i) of all columns, by the fold Body::Fold (folds.h). What
//       body.row(row) gives, if it has that, is called as in a grid before terms are asked for
//   rows_then(context, rows, columns, bytes, make)  first v of each row, by Body::Fold, of which
//       of_row = body.row(row, v) is made; then of_row(column, i) for each of its elements. One
//       thread a row calls body.finish(row, v)
//   columns(context, rows, columns, bytes, operands, make)
//       body.finish(column, s) for each column of a kernel with so many operands, where s adds up
//       of_row(column, i), a PairOfSums, of all rows, in an order that the shape decides; of_row =
//       body.row(row)
//   tiles(context, rows, columns, bytes, make)  body(begin, end, left, right) for tiles of rows and
//       columns that cover all
//   middle(context, extents, make)             body.finish(result, v) for each result (outer, inner),
//       where v has body.term(result, i) of all elements i (outer, middle, inner), by Body::Fold
//   table(context, values)                     a copy of the vector `values`, which lives as long as
//       what it gives; that has data()
//   spread(context, extents, bytes, make)      body(i, result, body.share(result)) for each element
#pragma once

#include <cstdint>

#include "runtime/device/body_kernel.h"
#include "runtime/device/host_device.h"

namespace meshwork::bodies {

template <class From, class To, class Function>
struct MapOne {
  const From* x;
  To* y;
  Function f;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = f(x[i]); }
};
template <class Function>
struct MapTwo {
  const float *a, *b;
  float* y;
  Function f;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = f(a[i], b[i]); }
};
template <class Term>
struct TermOfTwo {
  const float *a, *b;
  Term term;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t i) const { return term(a[i], b[i]); }
};

/// y[i] = f(x[i]). Operands: x, of `From`, y, of what f gives.
template <class Loops, class From = float, class Function>
auto map_one(const auto& context, std::int64_t count, Function f) {
  using To = decltype(f(From()));
  return Loops::elements(context, count, sizeof(From) + sizeof(To), [=](void* const* operands) {
    return MapOne<From, To, Function>{at<const From>(operands, 0), at<To>(operands, 1), f};
  });
}
/// y[i] = f(a[i], b[i]). Operands: a, b, y.
template <class Loops, class Function>
auto map_two(const auto& context, std::int64_t count, Function f) {
  return Loops::elements(context, count, 12, [=](void* const* operands) {
    return MapTwo<Function>{at(operands, 0), at(operands, 1), at(operands, 2), f};
  });
}
/// *s = scale * the sum of term(a[i], b[i]). Operands: a, b, s.
template <class Loops, class Term>
auto sum_of_two(const auto& context, std::int64_t count, double scale, Term term) {
  return Loops::sum(context, count, 8, 3, scale, [=](void* const* operands) {
    return TermOfTwo<Term>{at(operands, 0), at(operands, 1), term};
  });
}

}  // namespace meshwork::bodies
