#include "runtime/data/array.h"

#include "collectives/error.h"
#include "runtime/data/sample_copy.h"

#include <cstring>

namespace meshwork {

namespace {

std::vector<Field> fields_of(const std::vector<Array>& arrays) {
  if (arrays.empty()) fail("array data: no arrays were given");
  std::vector<Field> fields;
  for (const Array& array : arrays) {
    const Shape& shape = array.shape();
    if (shape[0] != arrays[0].shape()[0]) {
      fail("array \"{}\" holds {} samples and array \"{}\" holds {}; expected equal numbers",
           arrays[0].name(), arrays[0].shape()[0], array.name(), shape[0]);
    }
    fields.push_back({.name = array.name(),
                      .shape = Shape(shape.begin() + 1, shape.end()),
                      .type = array.type(),
                      .role = array.role()});
  }
  return fields;
}

/// A hash of `bytes` bytes, eight at a time: a multiplication and a rotation each.
std::uint64_t hash_of(const std::byte* data, std::int64_t bytes) {
  std::uint64_t hash = 0x9E3779B97F4A7C15u ^ static_cast<std::uint64_t>(bytes);
  for (std::int64_t i = 0; i < bytes; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + i, static_cast<std::size_t>(std::min<std::int64_t>(8, bytes - i)));
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDu;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

Array::Array(std::string name, ElementType type, std::int64_t count, Shape shape, FieldRole role)
    : name_(std::move(name)), type_(type), shape_(std::move(shape)), role_(role) {
  if (shape_.empty()) {
    fail("array \"{}\": its shape has no dimension; dimension 0 counts the samples", name_);
  }
  check_values(type, count);
}

void Array::check_values(ElementType type, std::int64_t count) const {
  if (type != type_) {
    fail("array \"{}\" has elements of type {}, {} were given", name_, meshwork::name_of(type_),
         meshwork::name_of(type));
  }
  if (element_count(shape_) != count) {
    fail("array \"{}\": shape {} has {} elements, {} were given", name_, to_string(shape_),
         element_count(shape_), count);
  }
}

ArraySource::ArraySource(std::vector<Array> arrays)
    : Source(arrays.empty() ? 0 : arrays[0].shape()[0], fields_of(arrays), "array data"),
      arrays_(std::move(arrays)) {}

std::string ArraySource::locate(int field, std::int64_t row) const {
  return fmt::format("array \"{}\": sample {}", arrays_[field].name(), row);
}

std::string ArraySource::fingerprint() const {
  std::string text = "arrays";
  for (int i = 0; i < field_count(); ++i) {
    const Array& array = arrays_[i];
    text += fmt::format(
        "; {} ({} samples, hash {:016x})", to_string(field(i)), rows(),
        hash_of(array.data(), element_count(array.shape()) * element_bytes(array.type())));
  }
  return text;
}

void ArraySource::read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                            std::byte* destination) const {
  copy_samples(arrays_[field].data(), this->field(field).shape,
               element_bytes(this->field(field).type), rows, block, destination);
}

}  // namespace meshwork
