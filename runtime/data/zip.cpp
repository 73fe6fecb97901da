#include "runtime/data/zip.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>

#include "collectives/error.h"
#include "runtime/config/nearest.h"
#include "runtime/config/node.h"
#include "runtime/data/gzip_stream.h"

namespace meshwork {
namespace {

constexpr std::uint32_t end_mark = 0x06054b50, wide_end_mark = 0x06064b50,
                        wide_locator_mark = 0x07064b50, entry_mark = 0x02014b50,
                        local_mark = 0x04034b50;
constexpr std::int64_t end_bytes = 22, wide_end_bytes = 56, wide_locator_bytes = 20,
                       entry_bytes = 46, local_bytes = 30;
constexpr std::int64_t longest_comment = 65535;
constexpr std::int64_t largest_directory = std::int64_t{64} << 20;
constexpr std::uint64_t in_wide_entry = 0xFFFFFFFF;  // a number that stands there

// The little-endian number of `bytes` bytes at `at`, which lies inside of `record`.
std::uint64_t number_at(std::span<const std::byte> record, std::size_t at, std::size_t bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes; i-- > 0;) {
    number = number << 8 | std::to_integer<std::uint64_t>(record[at + i]);
  }
  return number;
}

std::string text_at(std::span<const std::byte> record, std::size_t at, std::size_t bytes) {
  return {reinterpret_cast<const char*>(record.data()) + at, bytes};
}

[[noreturn]] void fail_damaged_archive(const std::string& name, std::string_view what) {
  fail("{}: the archive is damaged: {}", name, what);
}

// A size or a place: not beyond `most`. Which of a member's it is, is written only where it is wrong:
// there may be a million members.
std::int64_t checked(std::uint64_t number, std::int64_t most, const std::string& name,
                     std::string_view what, const ZipMember* member = nullptr) {
  if (most < 0 || number > static_cast<std::uint64_t>(most)) {
    fail_damaged_archive(
        name, fmt::format("{}{} is {}, beyond {}", what,
                          member == nullptr ? "" : " of " + in_quotes(member->name), number, most));
  }
  return static_cast<std::int64_t>(number);
}

// Puts numbers of an entry's zip64 field in place of those that stand there.
void take_wide_numbers(std::span<const std::byte> extra, std::span<std::uint64_t* const> numbers) {
  constexpr std::uint64_t wide_field = 1;
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const std::uint64_t kind = number_at(extra, at, 2), length = number_at(extra, at + 2, 2);
    at += 4;
    if (length > extra.size() - at) return;
    if (kind == wide_field) {
      std::span<const std::byte> field = extra.subspan(at, length);
      for (std::uint64_t* const number : numbers) {
        if (*number != in_wide_entry || field.size() < 8) continue;
        *number = number_at(field, 0, 8);
        field = field.subspan(8);
      }
      return;
    }
    at += length;
  }
}

}  // namespace

ZipArchive::ZipArchive(const std::filesystem::path& path, const std::string& expected)
    : file_(path, expected) {
  const std::string& name = file_.name();
  std::vector<std::byte> tail(
      static_cast<std::size_t>(std::min(file_.bytes(), end_bytes + longest_comment)));
  file_.read(file_.bytes() - static_cast<std::int64_t>(tail.size()), tail.data(),
             static_cast<std::int64_t>(tail.size()));
  // The last record whose comment goes to the end of the file.
  std::size_t at = tail.size();
  bool found = false;
  for (std::size_t back = end_bytes; !found && back <= tail.size(); ++back) {
    at = tail.size() - back;
    found = number_at(tail, at, 4) == end_mark &&
            number_at(tail, at + 20, 2) == back - static_cast<std::size_t>(end_bytes);
  }
  if (!found) {
    std::array<char, 4> begin{};
    file_.read(0, begin.data(), std::min<std::int64_t>(file_.bytes(), 4));
    if (std::string_view(begin.data(), 4) == "PK\3\4") {
      fail("{}: the archive is truncated: its directory, which is at the end, is missing", name);
    }
    fail("{}: no ZIP archive; {} is expected", name, expected);
  }
  std::span<const std::byte> record(tail);
  record = record.subspan(at);
  if (number_at(record, 4, 2) != 0 || number_at(record, 6, 2) != 0) {
    fail("{}: is one of several parts of an archive, which are not read", name);
  }
  std::uint64_t bytes = number_at(record, 12, 4), begin = number_at(record, 16, 4);
  if (at >= static_cast<std::size_t>(wide_locator_bytes) &&
      number_at(tail, at - wide_locator_bytes, 4) == wide_locator_mark) {
    const std::int64_t place =
        checked(number_at(tail, at - wide_locator_bytes + 8, 8), file_.bytes() - wide_end_bytes,
                name, "the place of the second end record");
    std::array<std::byte, wide_end_bytes> wide{};
    file_.read(place, wide.data(), wide_end_bytes);
    if (number_at(wide, 0, 4) != wide_end_mark) {
      fail_damaged_archive(name, "the second end record is not where the first says");
    }
    bytes = number_at(wide, 40, 8);
    begin = number_at(wide, 48, 8);
  }
  const std::int64_t first = checked(begin, file_.bytes(), name, "the place of the directory");
  const std::int64_t size = checked(bytes, std::min(file_.bytes() - first, largest_directory), name,
                                    "the size of the directory");
  read_directory(first, size);
}

void ZipArchive::read_directory(std::int64_t begin, std::int64_t bytes) {
  const std::string& name = file_.name();
  std::vector<std::byte> directory(static_cast<std::size_t>(bytes));
  file_.read(begin, directory.data(), bytes);
  for (std::span<const std::byte> rest(directory); !rest.empty();) {
    if (rest.size() < static_cast<std::size_t>(entry_bytes) ||
        number_at(rest, 0, 4) != entry_mark) {
      fail_damaged_archive(name, "its directory ends within an entry");
    }
    const std::size_t name_bytes = number_at(rest, 28, 2), extra_bytes = number_at(rest, 30, 2);
    const std::size_t entry = entry_bytes + name_bytes + extra_bytes + number_at(rest, 32, 2);
    if (rest.size() < entry) fail_damaged_archive(name, "its directory ends within an entry");
    ZipMember member{.name = text_at(rest, entry_bytes, name_bytes)};
    std::uint64_t packed = number_at(rest, 20, 4), unpacked = number_at(rest, 24, 4);
    std::uint64_t header = number_at(rest, 42, 4);
    take_wide_numbers(rest.subspan(entry_bytes + name_bytes, extra_bytes),
                      std::array{&unpacked, &packed, &header});
    const std::uint64_t method = number_at(rest, 10, 2);
    if ((number_at(rest, 8, 2) & 1) != 0) {
      fail("{}: {} is encrypted, which is not read", name, in_quotes(member.name));
    }
    if (method != 0 && method != 8) {
      fail("{}: {} is packed by method {}; only stored and deflated members are read", name,
           in_quotes(member.name), method);
    }
    member.deflated = method == 8;
    member.header = checked(header, file_.bytes() - local_bytes, name, "the place", &member);
    member.packed_bytes = checked(packed, file_.bytes(), name, "the packed size", &member);
    const std::int64_t most =
        !member.deflated ? member.packed_bytes
        : member.packed_bytes > std::numeric_limits<std::int64_t>::max() / largest_packing
            ? std::numeric_limits<std::int64_t>::max()
            : member.packed_bytes * largest_packing;
    member.bytes = checked(unpacked, most, name, "the size", &member);
    if (!member.deflated && member.bytes != member.packed_bytes) {
      fail_damaged_archive(name, "two different sizes of " + in_quotes(member.name));
    }
    member.checksum = static_cast<std::uint32_t>(number_at(rest, 16, 4));
    members_.push_back(std::move(member));
    rest = rest.subspan(entry);
  }
}

const ZipMember& ZipArchive::member(std::string_view name) const {
  const ZipMember* found = nullptr;
  for (const ZipMember& member : members_) {
    if (member.name != name) continue;
    if (found != nullptr) fail("{}: there are two members {}", file_.name(), in_quotes(name));
    found = &member;
  }
  if (found != nullptr) return *found;
  std::vector<std::string> names;
  for (const ZipMember& member : members_) names.push_back(member.name);
  constexpr std::size_t most_names = 50;
  const bool few = names.size() <= most_names;
  fail("{}: there is no member {}{}{}", file_.name(), in_quotes(name), did_you_mean(name, names),
       few ? "; it has " + quoted_list(names) : "");
}

// ---- the bytes of a member ----------------------------------------------------------------------

struct ZipStream::Inflating {
  z_stream stream{};
  std::array<std::byte, 1 << 16> packed;
  bool ended = false;

  Inflating() {
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Inflating() { inflateEnd(&stream); }
  Inflating(const Inflating&) = delete;
  Inflating& operator=(const Inflating&) = delete;
};

ZipStream::ZipStream(const ZipArchive& archive, const ZipMember& member)
    : archive_(archive), member_(member) {
  const PlainFile& file = archive.file();
  std::array<std::byte, local_bytes> local{};
  file.read(member.header, local.data(), local_bytes);
  if (number_at(local, 0, 4) != local_mark) {
    fail_damaged_archive(file.name(),
                         fmt::format("{} is not where the directory says", in_quotes(member.name)));
  }
  at_ = member.header + local_bytes +
        static_cast<std::int64_t>(number_at(local, 26, 2) + number_at(local, 28, 2));
  if (at_ > file.bytes() || member.packed_bytes > file.bytes() - at_) {
    fail_damaged_archive(file.name(),
                         fmt::format("{} goes beyond its end", in_quotes(member.name)));
  }
  end_ = at_ + member.packed_bytes;
  if (member.deflated) inflating_ = std::make_unique<Inflating>();
}

ZipStream::~ZipStream() = default;

std::string ZipStream::place() const {
  return fmt::format("{}: {}", archive_.file().name(), in_quotes(member_.name));
}

std::int64_t ZipStream::read(std::byte* destination, std::int64_t bytes) {
  bytes = std::min(bytes, member_.bytes - unpacked_);
  std::int64_t done = 0;
  while (done < bytes) {
    const std::int64_t piece = std::min(bytes - done, std::int64_t{1} << 24);
    std::int64_t got = piece;
    if (inflating_) {
      got = unpack(destination + done, piece);
    } else {
      archive_.file().read(at_, destination + done, piece);
      at_ += piece;
    }
    checksum_ = static_cast<std::uint32_t>(crc32(
        checksum_, reinterpret_cast<const Bytef*>(destination + done), static_cast<uInt>(got)));
    done += got;
    unpacked_ += got;
  }
  if (bytes > 0 && unpacked_ == member_.bytes && checksum_ != member_.checksum) {
    fail("{} is damaged: its checksum is {:08x}, {:08x} is expected", place(), checksum_,
         member_.checksum);
  }
  return bytes;
}

// At least one byte, since there should be more.
std::int64_t ZipStream::unpack(std::byte* destination, std::int64_t bytes) {
  z_stream& stream = inflating_->stream;
  stream.next_out = reinterpret_cast<Bytef*>(destination);
  stream.avail_out = static_cast<uInt>(bytes);
  while (static_cast<std::int64_t>(stream.avail_out) == bytes) {
    if (stream.avail_in == 0 && at_ < end_) {
      const std::int64_t piece =
          std::min(end_ - at_, static_cast<std::int64_t>(inflating_->packed.size()));
      archive_.file().read(at_, inflating_->packed.data(), piece);
      at_ += piece;
      stream.next_in = reinterpret_cast<Bytef*>(inflating_->packed.data());
      stream.avail_in = static_cast<uInt>(piece);
    }
    const int code = inflating_->ended ? Z_STREAM_END : inflate(&stream, Z_NO_FLUSH);
    inflating_->ended = code == Z_STREAM_END;
    if (static_cast<std::int64_t>(stream.avail_out) < bytes) break;
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    if (code != Z_OK) {
      fail("{} is damaged behind its byte {} of {}: {}", place(), unpacked_, member_.bytes,
           code == Z_STREAM_END    ? "the packed bytes end there"
           : code == Z_BUF_ERROR   ? "the packed bytes are truncated there"
           : stream.msg != nullptr ? stream.msg
                                   : "it cannot be unpacked");
    }
  }
  return bytes - static_cast<std::int64_t>(stream.avail_out);
}

}  // namespace meshwork
