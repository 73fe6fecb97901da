// HDF5 data sets as samples: dimension 0 of each counts them.
//
// Every rank opens the files on its own, read-only and without MPI, and reads just the rows and
// columns that its blocks need: consecutive rows become one hyperslab, so that an unshuffled batch
// is one reading. Sources are made on the thread that initialised MPI, since the library registers
// with MPI at its first call; reading may be done on any. Values are converted by HDF5 on the way:
//
//   8-bit integers without sign, and h5py's booleans      uint8
//   other integers of up to 32 bits that int32 can hold   int32
//   all larger integers                                   int64
//   floating point of any size                            float32; larger, exact: float64
//
// Chunked and compressed data sets are read as well; each rank keeps unpacked chunks of up to
// `chunk_cache_bytes` for each data set. Where samples are shuffled, `cached` (views.h) avoids
// unpacking a chunk again and again. foreign_hdf5.h says which files are refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/placed_fields.h"
#include "runtime/data/source.h"

namespace meshwork {

/// A data set in a file.
struct Hdf5Location {
  std::string file;
  std::string dataset;  // "/train/images"; "train/images" means the same
  bool operator==(const Hdf5Location&) const = default;
};

/// "FILE:/DATASET".
[[nodiscard]] std::string to_string(const Hdf5Location& location);

/// Takes "FILE:/DATASET" apart, at the last ":/" or, if there is none, at the last ":". Throws
/// `Error` if there is no colon or a side is empty.
[[nodiscard]] Hdf5Location parse_hdf5_location(std::string_view text);

struct Hdf5Field {
  std::string name;
  Hdf5Location location;
  FieldRole role = FieldRole::feature;
  bool exact = false;  // float64 is not rounded to float32
};

/// What data sets may do that is refused in most files.
struct Hdf5Permissions {
  /// Take their values from data sets of other files in the file's own folder or below.
  bool virtual_sources = false;
  /// Declare over 4 GiB of which less than deflate could pack is stored: the rest is fill values.
  bool sparse = false;
};

class Hdf5Source final : public Source {
 public:
  static constexpr std::size_t chunk_cache_bytes = std::size_t{32} << 20;

  /// Opens the data sets, features first. Throws `Error`: a file that is missing or not HDF5, a
  /// data set that the file lacks (with the nearest name that it has), one without dimensions or
  /// with elements that are not numbers, data sets that differ in their number of samples (naming
  /// both), one that foreign_hdf5.h refuses.
  explicit Hdf5Source(const std::vector<Hdf5Field>& fields, Hdf5Permissions permissions = {});
  ~Hdf5Source() override;

  [[nodiscard]] std::string locate(int field, std::int64_t row) const override;
  [[nodiscard]] std::string fingerprint() const override;
  [[nodiscard]] std::vector<std::filesystem::path> files() const override;

 private:
  struct Dataset;
  explicit Hdf5Source(std::vector<std::unique_ptr<Dataset>> datasets);
  static std::vector<PlacedField> placed(const std::vector<std::unique_ptr<Dataset>>& datasets);
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override;

  std::vector<std::unique_ptr<Dataset>> datasets_;
};

}  // namespace meshwork
