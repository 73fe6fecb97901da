// GzipStream: a file read from its beginning to its end, unpacked on the way if it is gzipped.
//
// A file is gzipped if it begins as gzip does, whatever its name; every other is passed on as it is.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace meshwork {

/// Deflate, the method of gzip and zip, packs no more than this many bytes into one.
inline constexpr std::int64_t largest_packing = 1032;

/// How many bytes are read at once of a file of `file_bytes`: of one that is small not more memory is
/// taken than it needs.
[[nodiscard]] constexpr std::int64_t read_at_once(std::int64_t file_bytes) {
  return std::clamp<std::int64_t>(file_bytes, 4096, std::int64_t{1} << 18);
}

class GzipStream {
 public:
  /// Opens `path`. Throws what PlainFile does; `expected` names what should be there.
  GzipStream(const std::filesystem::path& path, const std::string& expected);
  ~GzipStream();
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  /// Reads `bytes` bytes, or fewer where the data ends. Throws `Error` for a damaged or truncated
  /// gzip stream.
  std::int64_t read(std::byte* destination, std::int64_t bytes);

  /// Whether the file is plain. Looks at how it begins, if nothing was read yet.
  [[nodiscard]] bool plain();
  /// Of the file, packed or not.
  [[nodiscard]] std::int64_t file_bytes() const { return file_bytes_; }

 private:
  std::string name_;
  gzFile file_ = nullptr;
  std::int64_t file_bytes_ = 0;
};

}  // namespace meshwork
