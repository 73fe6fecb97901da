// IDX files: the format of MNIST and its relatives, plain or gzipped.
//
//   bytes 0, 1   zero
//   byte  2      element type: 08 uint8, 09 int8, 0B int16, 0C int32, 0D float32, 0E float64
//   byte  3      number of dimensions d
//   4d bytes     the lengths, 32-bit big-endian, without sign
//   then         the elements, row-major, big-endian
//
// Dimension 0 counts the samples. int8 and int16, which tensors do not have, become int32. A file
// is gzipped if it begins as gzip does, whatever its name.
//
// Opening reads the header alone (and of a plain file checks the size), which is all that a plan
// needs. The elements are unpacked whole, once a process, when they are first wanted, and stay in
// memory: a gzip stream can only be walked from its beginning. All errors name the file, and the
// byte or the sizes expected and found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/placed_fields.h"
#include "runtime/data/source.h"

namespace meshwork {

/// One file of an IDX source: a field of every sample.
struct IdxFile {
  std::string field;  // "images"
  std::filesystem::path path;
  FieldRole role = FieldRole::feature;
};

class IdxSource final : public Source {
 public:
  /// Opens `files`, features first. Throws `Error` for a file that is missing or cannot be read,
  /// for a header that is not IDX's, for a plain file of the wrong size, and for files that differ
  /// in their number of samples (naming both).
  explicit IdxSource(const std::vector<IdxFile>& files);
  ~IdxSource() override;

  [[nodiscard]] std::string locate(int field, std::int64_t row) const override;
  [[nodiscard]] std::string fingerprint() const override;
  [[nodiscard]] std::vector<std::filesystem::path> files() const override;

 private:
  /// Unpacks the file. Throws `Error` for a damaged or truncated one.
  void make_ready(int field) const override;
  struct File;
  explicit IdxSource(std::vector<std::unique_ptr<File>> files);
  static std::vector<std::unique_ptr<File>> opened(const std::vector<IdxFile>& files);
  static std::vector<PlacedField> placed(const std::vector<std::unique_ptr<File>>& files);
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override;

  std::vector<std::unique_ptr<File>> files_;
};

}  // namespace meshwork
