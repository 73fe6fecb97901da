#include "runtime/graph/operations/matrix_form.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "runtime/mesh/block_copy.h"

namespace meshwork {

bool has(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

std::int64_t element_count(const std::string& letters, const LetterLengths& lengths) {
  std::int64_t count = 1;
  for (const char letter : letters) {
    count *= lengths.at(letter);
  }
  return count;
}

namespace {

// The letters of `from` that are in `others`, in order; and those that are not.
std::string within(const std::string& from, const std::string& others) {
  std::string found;
  std::copy_if(from.begin(), from.end(), std::back_inserter(found),
               [&](char letter) { return has(others, letter); });
  return found;
}
std::string without(const std::string& from, const std::string& others) {
  std::string found;
  std::copy_if(from.begin(), from.end(), std::back_inserter(found),
               [&](char letter) { return !has(others, letter); });
  return found;
}

bool stand_together(const std::string& run, const std::string& letters) {
  return letters.find(run) != std::string::npos;
}

// The longest run of letters of `kind` that `of` ends with and that stand together in `other`.
std::string last_run(const std::string& of, const std::string& kind, const std::string& other) {
  std::string run;
  while (run.size() < of.size()) {
    const char next = of[of.size() - 1 - run.size()];
    if (!has(kind, next) || !stand_together(next + run, other)) {
      break;
    }
    run.insert(run.begin(), next);
  }
  return run;
}

class Form {
 public:
  Form(const std::string& a, const std::string& b, const std::string& y,
       const LetterLengths& lengths)
      : lengths_(lengths), first_(a), second_(b), result_(y) {}

  MatrixForm made() {
    MatrixForm form;
    const std::string a = first_, b = second_, y = result_;
    repeated_ = within(within(y, a), b);
    rows_ = without(within(y, a), repeated_);
    columns_ = without(within(y, b), repeated_);
    if (!y.empty() && has(repeated_, y.back())) {
      result_ = repeated_ + rows_ + columns_;
    }
    if (!result_.empty() && has(rows_, result_.back())) {
      form.exchanged = true;
      std::swap(first_, second_);
      std::swap(rows_, columns_);
    }
    join_what_is_summed();
    choose_columns();
    choose_rows();
    form.product = product();
    form.a = copied(a, form.exchanged ? second_ : first_);
    form.b = copied(b, form.exchanged ? first_ : second_);
    form.y = copied(result_, y);
    return form;
  }

 private:
  // What is summed stands together in both factors, in one order.
  void join_what_is_summed() {
    summed_ = without(within(first_, second_), repeated_);
    const std::string theirs = within(second_, summed_);
    const bool first_fits = stand_together(summed_, first_);
    if (!first_fits && stand_together(theirs, second_)) {
      summed_ = theirs;
    }
    if (!stand_together(summed_, first_)) {
      first_ = repeated_ + rows_ + summed_;
    }
    if (!stand_together(summed_, second_)) {
      second_ = repeated_ + summed_ + columns_;
    }
  }

  // The columns are those that the result ends with. The second factor ends with them too, or with
  // what is summed.
  void choose_columns() {
    n_ = last_run(result_, columns_, second_);
    if (!n_.empty() && !summed_.empty() && second_.back() != n_.back() &&
        second_.back() != summed_.back()) {
      second_ = without(second_, summed_ + n_) + summed_ + n_;
    }
  }

  // The rows are those that the first factor ends with or, where it ends with what is summed, the
  // most that stand together.
  void choose_rows() {
    m_ = last_run(first_, rows_, result_);
    if (!m_.empty()) {
      return;
    }
    for (std::size_t from = 0; from < result_.size(); ++from) {
      for (std::size_t count = 1; from + count <= result_.size(); ++count) {
        const std::string run = result_.substr(from, count);
        if (within(run, rows_) == run && stand_together(run, first_) &&
            (m_.empty() || length(run) >= length(m_))) {
          m_ = run;
        }
      }
    }
    if (!m_.empty() && !summed_.empty() && first_.back() != summed_.back()) {
      first_ = without(first_, m_ + summed_) + m_ + summed_;
    }
  }

  // A factor that lacks one of its matrix's dimensions is a row or a column of any stride.
  MatmulSpec product() const {
    MatmulSpec product{.m = length(m_), .n = length(n_), .k = length(summed_)};
    product.transpose_a = !summed_.empty() && first_.back() != summed_.back();
    product.transpose_b = !n_.empty() && second_.back() != n_.back();
    product.a_row =
        product.transpose_a ? row(first_, summed_, product.m) : row(first_, m_, product.k);
    product.b_row =
        product.transpose_b ? row(second_, n_, product.k) : row(second_, summed_, product.n);
    product.c_row = row(result_, m_, product.n);
    for (const char letter : without(result_, m_ + n_)) {
      repeat(product.repeats, {lengths_.at(letter), stride(first_, letter), stride(second_, letter),
                               stride(result_, letter)});
    }
    return product;
  }

  // Elements from one row to the next, rows being those of `run`; 0 if they lie side by side.
  std::int64_t row(const std::string& of, const std::string& run, std::int64_t columns) const {
    const std::int64_t elements = run.empty() ? columns : stride(of, run.back());
    return elements == columns ? 0 : elements;
  }

  // Neighbours that are one walk are one.
  static void repeat(std::vector<MatmulRepeat>& repeats, const MatmulRepeat& inner) {
    if (inner.count == 1) {
      return;
    }
    if (!repeats.empty() && repeats.back().a == inner.a * inner.count &&
        repeats.back().b == inner.b * inner.count && repeats.back().c == inner.c * inner.count) {
      repeats.back() = {repeats.back().count * inner.count, inner.a, inner.b, inner.c};
    } else {
      repeats.push_back(inner);
    }
  }

  Shape shape(const std::string& letters) const {
    Shape shape;
    for (const char letter : letters) {
      shape.push_back(lengths_.at(letter));
    }
    return shape;
  }
  std::int64_t length(const std::string& run) const { return element_count(run, lengths_); }
  std::int64_t stride(const std::string& of, char letter) const {
    const std::size_t at = of.find(letter);
    return at == std::string::npos ? 0 : strides_of(shape(of))[at];
  }

  // From an array of letters in one order to one in another.
  std::optional<CopySpec> copied(const std::string& from, const std::string& to) const {
    if (from == to) {
      return std::nullopt;
    }
    CopyRegion region{.extents = shape(to), .destination_strides = strides_of(shape(to))};
    for (const char letter : to) {
      region.source_strides.push_back(stride(from, letter));
    }
    return CopySpec{ElementType::float32, {std::move(region)}};
  }

  const LetterLengths& lengths_;
  std::string first_, second_, result_;  // letters as the product finds them
  std::string repeated_, rows_, columns_, summed_;
  std::string m_, n_;  // of rows and columns: those of the matrices; the others repeat them
};

}  // namespace

MatrixForm matrix_form(const std::string& a, const std::string& b, const std::string& y,
                       const LetterLengths& lengths) {
  return Form(a, b, y, lengths).made();
}

}  // namespace meshwork
