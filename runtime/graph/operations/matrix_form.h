// An einsum of two operands as a product of matrices.
//
// y = the sum over all letters that y lacks of a * b, for packed row-major arrays whose dimensions
// have letters. A letter is one of four kinds:
//
//   repeated   in a, b and y     a product for each of its indices
//   of rows    in a and y        the rows of a and of y
//   of columns in b and y        the columns of b and of y
//   summed     in a and b
//
// Letters of one kind that stand side by side in the same order wherever they stand are one
// dimension of a matrix. "bti,io->bto" is one product, b and t being its rows. Others repeat it at a
// distance: "bthk,bshk->bhts" is a product (t, k) * transpose (s, k) for each b and h, whose rows
// are as far apart as the heads together are long. So operands are read where they lie, but for
// two cases. Summed letters that do not stand together in both operands have to; and one of a
// matrix's two dimensions has to be the innermost of its array, y's columns where it is y. What
// does not fit is copied in an order that does. Where y's innermost letter is one of rows, a and b
// exchange their places.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/products.h"

namespace meshwork {

/// The lengths of letters.
using LetterLengths = std::map<char, std::int64_t>;

/// Elements of an array of these letters.
[[nodiscard]] std::int64_t element_count(const std::string& letters, const LetterLengths& lengths);

/// Whether `letter` is one of `letters`.
[[nodiscard]] bool has(const std::string& letters, char letter);

struct MatrixForm {
  MatmulSpec product;      // without anything that it takes along
  bool exchanged = false;  // its first factor is b
  // Copies of a and b before it, and of what it gives to y behind it, where these are needed.
  std::optional<CopySpec> a, b, y;
};

/// The letters of each operand differ. None is in one operand alone.
[[nodiscard]] MatrixForm matrix_form(const std::string& a, const std::string& b,
                                     const std::string& y, const LetterLengths& lengths);

}  // namespace meshwork
