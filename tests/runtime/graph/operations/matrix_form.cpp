// Which product of matrices an equation is; that the numbers are right is contraction.cpp's affair.
#include "runtime/graph/operations/matrix_form.h"

#include "tests/support/catch.h"

namespace meshwork::matrix_form_test {

namespace {

const LetterLengths lengths{{'b', 2}, {'t', 3}, {'s', 5}, {'h', 7},
                            {'k', 4}, {'d', 6}, {'i', 5}, {'o', 3}};

bool copies(const MatrixForm& form) {
  return form.a || form.b || form.y;
}

}  // namespace

TEST_CASE("a dense layer is one packed product, and so are its gradients") {
  const MatrixForm forward = matrix_form("bti", "io", "bto", lengths);
  CHECK(forward.product == MatmulSpec{.m = 6, .n = 3, .k = 5});
  const MatrixForm of_input = matrix_form("bto", "io", "bti", lengths);
  CHECK(of_input.product == MatmulSpec{.m = 6, .n = 5, .k = 3, .transpose_b = true});
  const MatrixForm of_kernel = matrix_form("bti", "bto", "io", lengths);
  CHECK(of_kernel.product == MatmulSpec{.m = 5, .n = 3, .k = 6, .transpose_a = true});
  CHECK_FALSE((copies(forward) || copies(of_input) || copies(of_kernel)));
}

TEST_CASE("heads are made and joined by one packed product") {
  const MatrixForm made = matrix_form("btd", "dhk", "bthk", lengths);
  CHECK(made.product == MatmulSpec{.m = 6, .n = 28, .k = 6});
  const MatrixForm joined = matrix_form("bthk", "hkd", "btd", lengths);
  CHECK(joined.product == MatmulSpec{.m = 6, .n = 6, .k = 28});
  CHECK_FALSE((copies(made) || copies(joined)));
}

TEST_CASE("queries and keys are multiplied for each head where they lie") {
  const MatrixForm scores = matrix_form("bthk", "bshk", "bhts", lengths);
  MatmulSpec expected{.m = 3, .n = 5, .k = 4, .transpose_b = true};
  expected.a_row = expected.b_row = 28;  // all heads
  expected.repeats = {{2, 3 * 28, 5 * 28, 7 * 15}, {7, 4, 4, 15}};
  CHECK(scores.product == expected);
  CHECK_FALSE(copies(scores));
  const MatrixForm values = matrix_form("bhts", "bshk", "bthk", lengths);
  CHECK(values.product.b_row == 28);
  CHECK(values.product.c_row == 28);
  CHECK(values.product.repeats.size() == 2);
  CHECK_FALSE(copies(values));
}

TEST_CASE("a result that ends with rows is a product in the other order") {
  const MatrixForm form = matrix_form("bi", "io", "ob", lengths);
  CHECK(form.exchanged);
  CHECK(form.product ==
        MatmulSpec{.m = 3, .n = 2, .k = 5, .transpose_a = true, .transpose_b = true});
  CHECK_FALSE(copies(form));
}

TEST_CASE("what is summed is copied together where it stands apart or in another order") {
  const MatrixForm apart = matrix_form("hbk", "hkd", "bd", lengths);
  CHECK(apart.a);
  CHECK_FALSE((apart.b || apart.y));
  CHECK(apart.product == MatmulSpec{.m = 2, .n = 6, .k = 28});
  const MatrixForm otherwise = matrix_form("bhk", "khd", "bd", lengths);
  CHECK(otherwise.b);
  CHECK_FALSE((otherwise.a || otherwise.y));
}

TEST_CASE("dimensions of length 1 repeat nothing") {
  LetterLengths one = lengths;
  one['h'] = 1;
  const MatrixForm scores = matrix_form("bthk", "bshk", "bhts", one);
  CHECK(scores.product.repeats == std::vector<MatmulRepeat>{{2, 12, 20, 15}});
  CHECK(scores.product.a_row == 0);
}

}  // namespace meshwork::matrix_form_test
