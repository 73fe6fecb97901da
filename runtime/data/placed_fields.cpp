#include "runtime/data/placed_fields.h"

#include "collectives/error.h"

namespace meshwork {
namespace {

Field sample_field(const PlacedField& field) {
  return {.name = field.name,
          .shape = Shape(field.shape.begin() + 1, field.shape.end()),
          .type = field.type,
          .role = field.role};
}

}  // namespace

std::vector<Field> sample_fields(const std::vector<PlacedField>& fields) {
  if (fields.empty()) fail("data without fields: no files were given");
  std::vector<Field> result;
  for (const PlacedField& field : fields) {
    if (field.shape.empty()) {
      fail("{}: has no dimension; dimension 0 is expected to count the samples", field.place);
    }
    if (field.shape[0] != fields[0].shape[0]) {
      fail("{} holds {} samples and {} holds {}; expected equal numbers", fields[0].place,
           fields[0].shape[0], field.place, field.shape[0]);
    }
    result.push_back(sample_field(field));
  }
  return result;
}

std::string fingerprint_of(std::string_view kind, const std::vector<PlacedField>& fields) {
  std::string text(kind);
  for (const PlacedField& field : fields) {
    text += fmt::format("; {} from {} ({} bytes, {} samples)", to_string(sample_field(field)),
                        field.place, field.file_bytes, field.shape[0]);
  }
  return text;
}

}  // namespace meshwork
