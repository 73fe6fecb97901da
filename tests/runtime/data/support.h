// What the tests of data sources share: reading a block as numbers, and the plain way to the same.
#pragma once

#include "collectives/error.h"
#include "runtime/data/array.h"
#include "runtime/data/source.h"

#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace meshwork::test {

/// A folder in the working folder that is removed with what is in it.
class Folder {
 public:
  explicit Folder(std::string name) : path_(std::move(name)) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Writes a file that is gzipped.
inline void write_gzip(const std::string& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  if (file == nullptr || gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) !=
                             static_cast<int>(bytes.size())) {
    fail("{}: cannot be written", path);
  }
  if (gzclose(file) != Z_OK) fail("{}: cannot be closed", path);
}

inline std::string file_bytes(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// `block` of `rows`, read into memory that is dirty before and guarded behind.
template <class T>
std::vector<T> read_block(const Source& source, int field, const std::vector<std::int64_t>& rows,
                          const Block& block) {
  std::size_t count = rows.size();
  for (const Range& range : block) count *= static_cast<std::size_t>(range.length());
  std::vector<T> values(count + 3, static_cast<T>(77));
  source.read(field, rows, block, values.data());
  for (std::size_t i = count; i < values.size(); ++i) {
    if (values[i] != static_cast<T>(77)) fail("written beyond the end of the block");
  }
  values.resize(count);
  return values;
}

/// All of all rows.
template <class T>
std::vector<T> read_all(const Source& source, int field) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(source.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  return read_block<T>(source, field, rows, whole(source.field(field).shape));
}

/// The elements of `block` of `rows`, picked one by one from `values`, which holds all samples.
template <class T>
std::vector<T> picked(const std::vector<T>& values, const Shape& shape,
                      const std::vector<std::int64_t>& rows, const Block& block) {
  std::vector<T> result;
  const std::int64_t per_sample = element_count(shape);
  for (const std::int64_t row : rows) {
    for (std::int64_t i = 0; i < per_sample; ++i) {
      std::int64_t rest = i;
      bool inside = true;
      for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
        const std::int64_t index = rest % shape[d];
        inside = inside && block[d].begin <= index && index < block[d].end;
      }
      if (inside) result.push_back(values[row * per_sample + i]);
    }
  }
  return result;
}

/// 0, 1, 2, ... as elements.
template <class T>
std::vector<T> counted(std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i % 251);
  return values;
}

}  // namespace meshwork::test
