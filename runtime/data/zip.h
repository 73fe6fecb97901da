// ZIP archives, of which npz files are a kind: members, each with a name, stored as they are or
// packed by deflate.
//
//   members            each a local header and its bytes
//   central directory  what there is and where, an entry a member
//   end record         where the directory is; the last 22 bytes, and a comment
//
// An archive of over 4 GiB, or with more members than 16 bits count, has a second end record and
// longer entries (*zip64*). What the directory says is checked against the size of the file before
// anything is read or memory taken. Encrypted archives and those in several parts are refused.
// (APPNOTE.TXT of PKWARE is the definition.)
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/plain_file.h"

namespace meshwork {

struct ZipMember {
  std::string name;
  std::int64_t bytes = 0;         // unpacked, at most `largest_packing` times the packed ones
  std::int64_t packed_bytes = 0;  // as they are in the file
  std::int64_t header = 0;        // where its local header is
  std::uint32_t checksum = 0;     // CRC-32 of the unpacked bytes
  bool deflated = false;
};

class ZipArchive {
 public:
  /// Reads the directory. Throws `Error` for what is no archive or a damaged one; `expected` names
  /// what should be there.
  ZipArchive(const std::filesystem::path& path, const std::string& expected);

  [[nodiscard]] const PlainFile& file() const { return file_; }
  [[nodiscard]] const std::vector<ZipMember>& members() const { return members_; }
  /// Throws `Error` with the nearest name if there is none of this name, or several.
  [[nodiscard]] const ZipMember& member(std::string_view name) const;

 private:
  void read_directory(std::int64_t begin, std::int64_t bytes);

  PlainFile file_;
  std::vector<ZipMember> members_;
};

/// The bytes of one member from its beginning on.
class ZipStream {
 public:
  /// `archive` and `member` have to outlive it.
  ZipStream(const ZipArchive& archive, const ZipMember& member);
  ~ZipStream();
  ZipStream(const ZipStream&) = delete;
  ZipStream& operator=(const ZipStream&) = delete;

  /// Reads `bytes` bytes, or fewer where the member ends, of which it checks the checksum. Throws
  /// `Error` for damaged and truncated ones.
  std::int64_t read(std::byte* destination, std::int64_t bytes);

 private:
  struct Inflating;
  std::int64_t unpack(std::byte* destination, std::int64_t bytes);
  [[nodiscard]] std::string place() const;

  const ZipArchive& archive_;
  const ZipMember& member_;
  std::int64_t at_ = 0;         // in the file
  std::int64_t end_ = 0;        // of the packed bytes
  std::int64_t unpacked_ = 0;   // so far
  std::uint32_t checksum_ = 0;  // of these
  std::unique_ptr<Inflating> inflating_;
};

}  // namespace meshwork
