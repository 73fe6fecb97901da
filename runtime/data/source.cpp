#include "runtime/data/source.h"

#include "collectives/wrong_input.h"
#include "runtime/config/nearest.h"
#include "runtime/data/plain_file.h"
#include "runtime/data/sample_copy.h"
#include "runtime/shape/block_parts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace meshwork {

namespace {

std::vector<std::string> names_of(const std::vector<Field>& fields) {
  std::vector<std::string> names;
  for (const Field& field : fields) names.push_back(field.name);
  return names;
}

std::string_view word_of(FieldRole role) {
  constexpr std::string_view words[] = {"feature", "target", "weights"};
  return words[static_cast<std::size_t>(role)];
}

// Of an element in row-major order.
Shape place_of(std::int64_t element, Shape shape) {
  for (std::size_t d = shape.size(); d-- > 0;) {
    const std::int64_t length = shape[d];
    shape[d] = element % length;
    element /= length;
  }
  return shape;
}

}  // namespace

std::string to_string(const Field& field) {
  return fmt::format("{} {} {}", field.name, name_of(field.type), to_string(field.shape));
}

Source::Source(std::int64_t rows, std::vector<Field> fields, std::string_view what)
    : rows_(rows), fields_(std::move(fields)) {
  if (rows_ < 0) fail("{}: {} samples; the number cannot be negative", what, rows_);
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const Field& field = fields_[i];
    if (i > 0 && field.role < fields_[i - 1].role) {
      fail("{}: {} \"{}\" stands behind {} \"{}\"; features come first, then targets, then weights",
           what, word_of(field.role), field.name, word_of(fields_[i - 1].role),
           fields_[i - 1].name);
    }
    if (i > 0 && field.role == FieldRole::weight && fields_[i - 1].role == FieldRole::weight) {
      fail("{}: \"{}\" and \"{}\" are both weights; a sample has one", what, fields_[i - 1].name,
           field.name);
    }
    if (field.role == FieldRole::feature) ++feature_count_;
    for (std::size_t j = 0; j < i; ++j) {
      if (fields_[j].name == field.name) fail("{}: two fields are called \"{}\"", what, field.name);
    }
    for (const std::int64_t length : field.shape) {
      if (length < 0) {
        fail("{}: field \"{}\" has shape {}; a length cannot be negative", what, field.name,
             to_string(field.shape));
      }
    }
  }
  if (feature_count_ == 0) fail("{}: has no features", what);
}

int Source::index_of(std::string_view name) const {
  for (int i = 0; i < field_count(); ++i) {
    if (fields_[i].name == name) return i;
  }
  const std::vector<std::string> names = names_of(fields_);
  fail("the data has no field \"{}\"; it has {}{}", name, quoted_list(names),
       did_you_mean(name, names));
}

namespace {

// What `action` finds wrong with the data stays so; what the system does not give may come.
template <class Action>
void reading(const Action& action) {
  try {
    action();
  } catch (const WrongInput&) {  // of the source behind a view
    throw;
  } catch (const SystemFailure&) {
    throw;
  } catch (const Error& error) {
    throw WrongInput(error.what());
  }
}

}  // namespace

void Source::read(int field, std::span<const std::int64_t> rows, const Block& block,
                  void* destination) const {
  if (field < 0 || field >= field_count()) {
    fail("field {} of data with {} fields: {}", field, field_count(),
         quoted_list(names_of(fields_)));
  }
  const Shape& shape = fields_[field].shape;
  bool empty = rows.empty();
  bool fits = block.size() == shape.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i) {
    fits = 0 <= block[i].begin && block[i].begin <= block[i].end && block[i].end <= shape[i];
    empty = empty || block[i].length() == 0;
  }
  if (!fits) {
    std::string text;
    for (const Range& range : block) {
      text += fmt::format("{}[{}, {})", text.empty() ? "" : " x ", range.begin, range.end);
    }
    fail("the block {} is not inside a sample of field \"{}\", which has shape {}", text,
         fields_[field].name, to_string(shape));
  }
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= rows_) {
      fail("field \"{}\": sample {} is wanted, there are {}", fields_[field].name, row, rows_);
    }
  }
  if (empty) return;
  reading([&] {
    try {
      read_rows(field, rows, block, static_cast<std::byte*>(destination));
    } catch (const UnfitElement& unfit) {
      fail("{}: element {} is {}, which float32 cannot hold", locate(field, unfit.row),
           to_string(place_of(unfit.element, shape)), unfit.value);
    }
  });
}

void Source::prepare(int field) const {
  reading([&] { make_ready(field); });
}

std::string Source::locate(int field, std::int64_t row) const {
  return fmt::format("{}: sample {}", fields_[field].name, row);
}

std::int64_t Source::classes_by_construction(int) const {
  return 0;
}

std::span<const std::string> Source::texts_of(int) const {
  return {};
}

namespace {

/// Checks the interval before the base class is made of it.
std::int64_t checked_length(const Source& source, std::int64_t begin, std::int64_t end) {
  if (begin < 0 || begin > end || end > source.rows()) {
    fail("samples [{}, {}) are wanted of data with {} samples", begin, end, source.rows());
  }
  return end - begin;
}

}  // namespace

Subset::Subset(const std::shared_ptr<const Source>& source, std::int64_t begin, std::int64_t end)
    : View(source, checked_length(*source, begin, end), source->fields()), begin_(begin) {}

std::string Subset::locate(int field, std::int64_t row) const {
  return source().locate(field, begin_ + row);
}

std::string Subset::fingerprint() const {
  return fmt::format("{}; samples [{}, {})", source().fingerprint(), begin_, begin_ + rows());
}

void Subset::read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                       std::byte* destination) const {
  if (begin_ == 0) {
    source().read(field, rows, block, destination);
    return;
  }
  // Shifted indices go through a fixed buffer, a piece at a time, so that nothing is allocated.
  constexpr std::size_t piece_rows = 256;
  std::int64_t shifted[piece_rows];
  const std::int64_t row_bytes = size_of(block) * element_bytes(this->field(field).type);
  for (std::size_t first = 0; first < rows.size(); first += piece_rows) {
    const std::span<const std::int64_t> piece =
        rows.subspan(first, std::min(piece_rows, rows.size() - first));
    for (std::size_t i = 0; i < piece.size(); ++i) shifted[i] = begin_ + piece[i];
    source().read(field, {shifted, piece.size()}, block,
                  destination + static_cast<std::int64_t>(first) * row_bytes);
  }
}

ValidationSplit split_for_validation(std::shared_ptr<const Source> source, double split) {
  if (!(split > 0.0 && split < 1.0)) {
    fail("validation_split is {}; it must lie between 0 and 1, both excluded", split);
  }
  const std::int64_t rows = source->rows();
  const std::int64_t cut =
      static_cast<std::int64_t>(std::floor(static_cast<double>(rows) * (1.0 - split)));
  if (cut == 0 || cut == rows) {
    fail("validation_split {} of {} samples leaves none for {}", split, rows,
         cut == 0 ? "training" : "validation");
  }
  return {std::make_shared<Subset>(source, 0, cut), std::make_shared<Subset>(source, cut, rows)};
}

}  // namespace meshwork
