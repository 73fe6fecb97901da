// NPY files, what `numpy.save` writes: one array a file, samples along its first dimension.
//
//     numpy.save("x.npy", x)          # x has the shape (samples, ...)
//
// Opening reads the header (numpy_format.h) and compares it with the size of the file. The elements
// are mapped into memory (MappedFile): reading by position instead would take three times as long
// for samples of a few hundred bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/placed_fields.h"
#include "runtime/data/source.h"

namespace meshwork {

/// One file of an NpySource: a field of every sample.
struct NpyFile {
  std::string field;
  std::filesystem::path path;
  FieldRole role = FieldRole::feature;
  bool exact = false;  // float64 is not rounded to float32
};

class NpySource final : public Source {
 public:
  /// Opens `files`, features first. Throws `Error`: a file that is missing or no array of numbers,
  /// one whose size is not what its header says, files that differ in their number of samples.
  explicit NpySource(const std::vector<NpyFile>& files);
  ~NpySource() override;

  [[nodiscard]] std::string locate(int field, std::int64_t row) const override;
  [[nodiscard]] std::string fingerprint() const override;
  [[nodiscard]] std::vector<std::filesystem::path> files() const override;

 private:
  struct Array;
  explicit NpySource(std::vector<std::unique_ptr<Array>> arrays);
  static std::vector<std::unique_ptr<Array>> opened(const std::vector<NpyFile>& files);
  static std::vector<PlacedField> placed(const std::vector<std::unique_ptr<Array>>& arrays);
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override;

  std::vector<std::unique_ptr<Array>> arrays_;
};

}  // namespace meshwork
