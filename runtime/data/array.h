// ArraySource: samples that are in the program's memory, from C++.
//
//     ArraySource source({Array("images", std::move(pixels), {1000, 28, 28}),
//                         Array("labels", std::move(labels), {1000}, FieldRole::target)});
//
// Dimension 0 counts the samples. A vector is moved in and owned; a span is borrowed, and its
// elements have to stay where they are, unchanged, as long as the source lives. Elements are uint8,
// int32, int64, float or double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/huge_pages.h"
#include "collectives/with_type.h"
#include "runtime/data/source.h"

namespace meshwork {

/// One field of an ArraySource: elements with their shape, samples first.
class Array {
 public:
  /// Owns `values`. Throws `Error` unless the product of `shape` is their number.
  template <class T>
  Array(std::string name, std::vector<T> values, Shape shape, FieldRole role = FieldRole::feature)
      : Array(std::move(name), element_type_of<T>(), static_cast<std::int64_t>(values.size()),
              std::move(shape), role) {
    make_huge_pages(values.data(), static_cast<std::int64_t>(values.size() * sizeof(T)));
    auto owned = std::make_shared<const std::vector<T>>(std::move(values));
    data_ =
        std::shared_ptr<const std::byte>(owned, reinterpret_cast<const std::byte*>(owned->data()));
  }
  /// Borrows `values`. Throws `Error` unless the product of `shape` is their number.
  template <class T>
  Array(std::string name, std::span<const T> values, Shape shape,
        FieldRole role = FieldRole::feature)
      : Array(std::move(name), element_type_of<T>(), static_cast<std::int64_t>(values.size()),
              std::move(shape), role) {
    borrow(values);
  }

  /// Borrows other values in place of those that it has: as many, of the same type. Throws `Error`
  /// if they are not.
  template <class T>
  void borrow(std::span<const T> values) {
    check_values(element_type_of<T>(), static_cast<std::int64_t>(values.size()));
    data_ = std::shared_ptr<const std::byte>(std::shared_ptr<void>(),
                                             reinterpret_cast<const std::byte*>(values.data()));
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  /// With the samples as dimension 0.
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] ElementType type() const { return type_; }
  [[nodiscard]] FieldRole role() const { return role_; }
  [[nodiscard]] const std::byte* data() const { return data_.get(); }

 private:
  Array(std::string name, ElementType type, std::int64_t count, Shape shape, FieldRole role);
  void check_values(ElementType type, std::int64_t count) const;

  std::string name_;
  ElementType type_;
  Shape shape_;
  FieldRole role_;
  std::shared_ptr<const std::byte> data_;
};

class ArraySource final : public Source {
 public:
  /// Throws `Error` for no arrays, and for arrays that differ in their number of samples.
  explicit ArraySource(std::vector<Array> arrays);

  /// The array of field `field`, to borrow other values; nobody may be reading.
  [[nodiscard]] Array& array(int field) { return arrays_[static_cast<std::size_t>(field)]; }

  [[nodiscard]] std::string locate(int field, std::int64_t row) const override;
  /// Has a hash of the elements, since there is no path; reads all of them.
  [[nodiscard]] std::string fingerprint() const override;

 private:
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override;

  std::vector<Array> arrays_;
};

}  // namespace meshwork
