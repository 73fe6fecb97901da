// PlacedField: a field that stands somewhere, with its samples along dimension 0; what sources of
// files have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/source.h"

namespace meshwork {

struct PlacedField {
  std::string name;
  FieldRole role = FieldRole::feature;
  std::string place;            // for messages: "train.h5:/images"
  std::int64_t file_bytes = 0;  // of the file that it is in
  Shape shape;                  // with the samples as dimension 0
  ElementType type = ElementType::float32;
};

/// What a sample has of each. Throws `Error` for no fields, one without dimensions, and fields that
/// differ in their number of samples (naming both places).
[[nodiscard]] std::vector<Field> sample_fields(const std::vector<PlacedField>& fields);

/// What `Source::fingerprint` says of a source of `kind`.
[[nodiscard]] std::string fingerprint_of(std::string_view kind,
                                         const std::vector<PlacedField>& fields);

}  // namespace meshwork
