#include "runtime/data/views.h"

#include "collectives/error.h"
#include "collectives/huge_pages.h"
#include "collectives/with_type.h"
#include "collectives/wrong_input.h"
#include "runtime/shape/block_parts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <list>
#include <mutex>
#include <new>

namespace meshwork {

namespace {

Shape without_ones(const Shape& shape) {
  Shape result;
  std::ranges::copy_if(shape, std::back_inserter(result), [](std::int64_t n) { return n != 1; });
  return result;
}

std::vector<Field> with_field_shape(std::vector<Field> fields, int field, const Shape& shape) {
  fields[field].shape = shape;
  return fields;
}

class ShapedSource final : public View {
 public:
  ShapedSource(const std::shared_ptr<const Source>& source, int field, const Shape& shape)
      : View(source, source->rows(), with_field_shape(source->fields(), field, shape)),
        shaped_(field) {
    const Shape& inner = source->field(field).shape;
    std::size_t outer_dimension = 0;
    for (const std::int64_t length : inner) {
      if (length == 1) {
        outer_dimensions_.push_back(-1);
        continue;
      }
      while (shape[outer_dimension] == 1) ++outer_dimension;
      outer_dimensions_.push_back(static_cast<int>(outer_dimension++));
    }
  }

 private:
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override {
    source().read(field, rows, field == shaped_ ? inner_block(block) : block, destination);
  }

  /// `block` in the dimensions of the inner source. Remembered, so that reading the same block
  /// again allocates nothing.
  const Block& inner_block(const Block& block) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [outer, inner] : blocks_) {
      if (outer == block) return inner;
    }
    Block inner;
    for (const int dimension : outer_dimensions_) {
      // The block is not empty, so its intervals in dimensions of length 1 are [0, 1).
      inner.push_back(dimension < 0 ? Range{0, 1} : block[dimension]);
    }
    return blocks_.emplace_back(block, std::move(inner)).second;
  }

  int shaped_ = 0;
  std::vector<int> outer_dimensions_;  // by inner dimension: the outer one, or -1 for a length of 1
  mutable std::mutex mutex_;           // of the list
  mutable std::list<std::pair<Block, Block>> blocks_;  // outer, inner; a list: places do not move
};

class CachedSource final : public View {
 public:
  explicit CachedSource(const std::shared_ptr<const Source>& source)
      : View(source, source->rows(), source->fields()) {}

 private:
  /// The rows of one field in one block.
  struct Store {
    Store(int of_field, const Block& of_block, std::int64_t rows, std::int64_t bytes_per_row)
        : field(of_field),
          block(of_block),
          row_bytes(bytes_per_row),
          data(new std::byte[static_cast<std::size_t>(rows * row_bytes)]),
          present(static_cast<std::size_t>(rows), false) {}
    int field;
    Block block;
    std::int64_t row_bytes;
    std::unique_ptr<std::byte[]> data;
    std::vector<bool> present;
    std::mutex mutex;
    std::vector<std::int64_t> missing;    // scratch of `read_rows`
    std::vector<std::byte> missing_data;  // likewise
  };

  Store& store_for(int field, const Block& block) const {
    const std::lock_guard lock(mutex_);
    for (Store& store : stores_) {
      if (store.field == field && store.block == block) return store;
    }
    const std::int64_t row_bytes = size_of(block) * element_bytes(this->field(field).type);
    Store& store = with_memory_for(
        fmt::format("caching {} samples of {} bytes of field \"{}\", which `cache: false` avoids",
                    rows(), row_bytes, this->field(field).name),
        [&]() -> Store& {
          std::int64_t bytes = 0;
          if (__builtin_mul_overflow(rows(), row_bytes, &bytes)) throw std::bad_alloc();
          return stores_.emplace_back(field, block, rows(), row_bytes);
        });
    ask_for_huge_pages(store.data.get(), rows() * row_bytes);
    return store;
  }

  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override {
    Store& store = store_for(field, block);
    const std::lock_guard lock(store.mutex);
    store.missing.clear();
    for (const std::int64_t row : rows) {
      if (!store.present[row]) store.missing.push_back(row);
    }
    if (!store.missing.empty()) {
      with_memory_for(source().locate(field, 0), [&] {
        store.missing_data.resize(store.missing.size() * static_cast<std::size_t>(store.row_bytes));
      });
      source().read(field, store.missing, block, store.missing_data.data());
      const std::byte* from = store.missing_data.data();
      for (const std::int64_t row : store.missing) {
        std::memcpy(store.data.get() + row * store.row_bytes, from,
                    static_cast<std::size_t>(store.row_bytes));
        store.present[row] = true;
        from += store.row_bytes;
      }
    }
    for (const std::int64_t row : rows) {
      std::memcpy(destination, store.data.get() + row * store.row_bytes,
                  static_cast<std::size_t>(store.row_bytes));
      destination += store.row_bytes;
    }
  }

  mutable std::mutex mutex_;         // of the list
  mutable std::list<Store> stores_;  // a list: places do not move when one is added
};

std::vector<Field> with_weights(std::vector<Field> fields, const Shape& shape) {
  fields.push_back({std::string(weights_name), shape, ElementType::float32, FieldRole::weight});
  return fields;
}

class EquallyWeighted final : public View {
 public:
  EquallyWeighted(const std::shared_ptr<const Source>& source, const Shape& shape)
      : View(source, source->rows(), with_weights(source->fields(), shape)) {}

  [[nodiscard]] std::string locate(int field, std::int64_t row) const override {
    return field == *weights_field() ? Source::locate(field, row) : View::locate(field, row);
  }
  [[nodiscard]] std::int64_t classes_by_construction(int field) const override {
    return field == *weights_field() ? 0 : View::classes_by_construction(field);
  }
  [[nodiscard]] std::span<const std::string> texts_of(int field) const override {
    return field == *weights_field() ? std::span<const std::string>() : View::texts_of(field);
  }

 private:
  void make_ready(int field) const override {
    if (field != *weights_field()) View::make_ready(field);
  }

  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override {
    if (field != *weights_field()) {
      source().read(field, rows, block, destination);
      return;
    }
    std::fill_n(reinterpret_cast<float*>(destination), std::ssize(rows) * size_of(block), 1.0f);
  }
};

/// A source of which one field has other values, each made of one of the source's. These are read
/// into memory that is kept, so that reading again allocates nothing.
class ChangedField : public View {
 protected:
  ChangedField(const std::shared_ptr<const Source>& source, int field, Field changed)
      : View(source, source->rows(), with_field(source->fields(), field, std::move(changed))),
        changed_(field) {}

  [[nodiscard]] int changed() const { return changed_; }
  /// Writes what it makes of `count` values of `type`.
  virtual void change(const std::byte* values, ElementType type, std::int64_t count,
                      std::span<const std::int64_t> rows, const Block& block,
                      std::byte* destination) const = 0;

 private:
  static std::vector<Field> with_field(std::vector<Field> fields, int field, Field changed) {
    fields[static_cast<std::size_t>(field)] = std::move(changed);
    return fields;
  }

  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override {
    if (field != changed_) {
      source().read(field, rows, block, destination);
      return;
    }
    const std::lock_guard lock(mutex_);
    // A new dimension is the last one.
    inner_.assign(block.begin(), block.begin() + std::ssize(source().field(field).shape));
    const ElementType type = source().field(field).type;
    const std::int64_t count = std::ssize(rows) * size_of(inner_);
    values_.resize(static_cast<std::size_t>(count * element_bytes(type)));
    source().read(field, rows, inner_, values_.data());
    change(values_.data(), type, count, rows, block, destination);
  }

  int changed_ = 0;
  mutable std::mutex mutex_;  // of what is kept
  mutable Block inner_;
  mutable std::vector<std::byte> values_;
};

class Float32Source final : public ChangedField {
 public:
  Float32Source(const std::shared_ptr<const Source>& source, int field)
      : ChangedField(source, field, as_float(source->field(field))) {}

 private:
  static Field as_float(Field field) {
    field.type = ElementType::float32;
    return field;
  }

  void change(const std::byte* values, ElementType type, std::int64_t count,
              std::span<const std::int64_t>, const Block&, std::byte* destination) const override {
    with_type(type, [&](auto number) {
      const auto* from = reinterpret_cast<const decltype(number)*>(values);
      std::transform(from, from + count, reinterpret_cast<float*>(destination),
                     [](auto value) { return static_cast<float>(value); });
    });
  }
};

class OneHotSource final : public ChangedField {
 public:
  OneHotSource(const std::shared_ptr<const Source>& source, int field, std::int64_t classes)
      : ChangedField(source, field, one_hot(source->field(field), classes)), classes_(classes) {}

  [[nodiscard]] std::int64_t classes_by_construction(int field) const override {
    return field == changed() ? 0 : View::classes_by_construction(field);
  }

 private:
  static Field one_hot(Field field, std::int64_t classes) {
    field.shape.push_back(classes);
    field.type = ElementType::uint8;
    return field;
  }

  void change(const std::byte* values, ElementType type, std::int64_t count,
              std::span<const std::int64_t> rows, const Block& block,
              std::byte* destination) const override {
    const Range kept = block.back();
    std::fill_n(destination, count * kept.length(), std::byte{0});
    with_type(type, [&](auto number) {
      const auto* numbers = reinterpret_cast<const decltype(number)*>(values);
      for (std::int64_t i = 0; i < count; ++i) {
        const auto one = static_cast<double>(numbers[i]);
        if (!(one >= 0 && one < static_cast<double>(classes_) && one == std::floor(one))) {
          throw WrongInput(fmt::format(
              "{}: label {} is out of range; with {} classes labels are whole numbers from 0 to {}",
              locate(changed(), rows[static_cast<std::size_t>(i / (count / std::ssize(rows)))]),
              numbers[i], classes_, classes_ - 1));
        }
        const auto place = static_cast<std::int64_t>(one) - kept.begin;
        if (place >= 0 && place < kept.length()) {
          destination[i * kept.length() + place] = std::byte{1};
        }
      }
    });
  }

  std::int64_t classes_;
};

}  // namespace

std::shared_ptr<const Source> with_one_hot(std::shared_ptr<const Source> source, int field,
                                           std::int64_t classes) {
  if (classes < 1)
    fail("field \"{}\" with {} classes; at least 1 is expected", source->field(field).name,
         classes);
  Shape shape = source->field(field).shape;
  if (!shape.empty() && shape.back() == 1) {
    shape.pop_back();
    source = with_shape(std::move(source), field, shape);
  }
  return std::make_shared<OneHotSource>(source, field, classes);
}

std::shared_ptr<const Source> as_float32(std::shared_ptr<const Source> source, int field) {
  if (source->field(field).type == ElementType::float32) return source;
  return std::make_shared<Float32Source>(source, field);
}

std::shared_ptr<const Source> with_equal_weights(const std::shared_ptr<const Source>& source,
                                                 const Shape& shape) {
  return std::make_shared<EquallyWeighted>(source, shape);
}

std::shared_ptr<const Source> with_shape(std::shared_ptr<const Source> source, int field,
                                         const Shape& shape) {
  const Field& description = source->field(field);
  if (description.shape == shape) return source;
  if (without_ones(description.shape) != without_ones(shape)) {
    fail(
        "field \"{}\" has samples of shape {}, {} is expected; only dimensions of length 1 can be "
        "added or removed here (a Reshape layer does the rest)",
        description.name, to_string(description.shape), to_string(shape));
  }
  return std::make_shared<ShapedSource>(source, field, shape);
}

std::shared_ptr<const Source> cached(const std::shared_ptr<const Source>& source) {
  return std::make_shared<CachedSource>(source);
}

}  // namespace meshwork
