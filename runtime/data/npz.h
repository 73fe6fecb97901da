// NPZ files, what `numpy.savez` and `numpy.savez_compressed` write: several arrays in one file.
//
//     numpy.savez("data.npz", x=x, y=y)          # each has the shape (samples, ...)
//
// An NPZ file is a ZIP archive (zip.h) with a member NAME.npy for each array (numpy_format.h).
// Opening reads the directory and the headers alone. The arrays that are used are read whole, by
// every rank, when they are first wanted, and stay in memory; for data that are larger, and to read
// no more than a rank needs, there are npy files.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/placed_fields.h"
#include "runtime/data/source.h"

namespace meshwork {

/// One array of an NpzSource: a field of every sample.
struct NpzArray {
  std::string field;
  std::string array;  // its name in the file, without ".npy"
  FieldRole role = FieldRole::feature;
  bool exact = false;  // float64 is not rounded to float32
};

class NpzSource final : public Source {
 public:
  /// Opens the arrays, features first. Throws `Error`: a file that is missing, no archive or a
  /// damaged one, an array that it lacks (with the nearest name that it has) or that are no numbers,
  /// arrays that differ in their number of samples.
  NpzSource(const std::filesystem::path& path, const std::vector<NpzArray>& arrays);
  ~NpzSource() override;

  [[nodiscard]] std::string locate(int field, std::int64_t row) const override;
  [[nodiscard]] std::string fingerprint() const override;
  [[nodiscard]] std::vector<std::filesystem::path> files() const override;

 private:
  /// Reads the array. Throws `Error` for a damaged one.
  void make_ready(int field) const override;
  struct Archive;
  explicit NpzSource(std::unique_ptr<Archive> archive);
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override;

  std::unique_ptr<Archive> archive_;
};

}  // namespace meshwork
