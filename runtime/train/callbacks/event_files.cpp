#include "runtime/train/callbacks/event_files.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "collectives/failed_write.h"
#include "collectives/file_size_limit.h"
#include "collectives/path_text.h"
#include "runtime/checkpoint/output_place.h"
#include "runtime/train/callbacks/event_messages.h"

namespace meshwork {
namespace {

namespace fs = std::filesystem;

const std::string file_name_begin = "events.out.tfevents.";
constexpr std::size_t length_bytes = 8, checksum_bytes = 4;

// CRC-32C (Castagnoli), of reflected bits, byte by byte.
constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0u);
    table[byte] = value;
  }
  return table;
}

std::uint32_t event_checksum(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> table = make_crc_table();
  std::uint32_t value = ~0u;
  for (const char byte : bytes) {
    value = table[(value ^ static_cast<unsigned char>(byte)) & 0xff] ^ value >> 8;
  }
  value = ~value;
  return (value >> 15 | value << 17) + 0xa282ead8u;
}

void append_number(std::string& bytes, std::uint64_t number, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(number >> 8 * i & 0xff);
}

std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint64_t number = 0;
  for (std::size_t i = count; i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return number;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The records of a file, one after the other, up to its end or to what is no record.
class RecordReader {
 public:
  RecordReader(const std::string& owner, const fs::path& file) : input_(file, std::ios::binary) {
    if (!input_) fail("{}: {} cannot be read: {}", owner, file, std::strerror(errno));
  }

  /// Where the next one begins.
  [[nodiscard]] std::uintmax_t position() const { return position_; }
  /// Its event, and a step forward.
  std::optional<std::string> next() {
    std::string head, event, checksum;
    if (!read(head, length_bytes + checksum_bytes) || !is_sum(head.substr(0, length_bytes), head)) {
      return std::nullopt;
    }
    const std::uint64_t length = number_at(head, 0, length_bytes);
    if (length > most_bytes || !read(event, length) || !read(checksum, checksum_bytes) ||
        !is_sum(event, checksum)) {
      return std::nullopt;
    }
    position_ += head.size() + event.size() + checksum.size();
    return event;
  }

 private:
  static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 31;  // as protobuf has it

  bool read(std::string& into, std::uint64_t bytes) {
    into.resize(bytes);
    input_.read(into.data(), static_cast<std::streamsize>(bytes));
    return !input_.fail();
  }
  // Whether `holder` ends with the checksum of `bytes`.
  static bool is_sum(std::string_view bytes, std::string_view holder) {
    return number_at(holder, holder.size() - checksum_bytes, checksum_bytes) ==
           event_checksum(bytes);
  }

  std::ifstream input_;
  std::uintmax_t position_ = 0;
};

// None for a file without a whole record, which nobody misses.
std::optional<bool> is_ours(const std::string& owner, const fs::path& file) {
  const std::optional<std::string> first = RecordReader(owner, file).next();
  if (!first) return std::nullopt;
  const std::optional<EventFacts> facts = facts_of(*first);
  return facts && facts->is_our_version;
}

// The time in the name of a file, or 0.
std::int64_t seconds_in_name(const fs::path& file) {
  const std::string name = file.filename().string();
  std::int64_t seconds = 0;
  std::from_chars(name.data() + file_name_begin.size(), name.data() + name.size(), seconds);
  return seconds;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != 0 ? name.data() : "unknown";
}

}  // namespace

std::string record_of(std::string_view event) {
  std::string record;
  append_number(record, event.size(), length_bytes);
  append_number(record, event_checksum(record), checksum_bytes);
  record += event;
  append_number(record, event_checksum(event), checksum_bytes);
  return record;
}

void EventFiles::check() const {
  if (const std::string obstacle = obstacle_to_folder(folder_); !obstacle.empty()) {
    fail("{}: {} cannot be written: {}", owner_, folder_, obstacle);
  }
  for (const fs::path& file : files()) {
    if (!is_ours(owner_, file).value_or(true)) {
      fail(
          "{}: {} is of another program, and TensorBoard would join its curves with those of this "
          "run; choose another directory",
          owner_, file);
    }
  }
}

void EventFiles::begin(std::optional<GoesOn> goes_on) {
  goes_on_ = goes_on;
  file_.clear();
  stream_ = {};
  if (goes_on_) {
    cut(*goes_on_);
    return;
  }
  for (const fs::path& file : files()) {
    std::error_code problem;
    if (is_ours(owner_, file).value_or(false) && !fs::remove(file, problem)) {
      fail("{}: {} cannot be removed: {}", owner_, file, problem.message());
    }
  }
}

// The last file first: a run that is killed meanwhile leaves no gap.
void EventFiles::cut(const GoesOn& goes_on) {
  std::vector<fs::path> all = files();
  std::erase_if(all, [&](const fs::path& file) { return !is_ours(owner_, file).value_or(false); });
  const auto is_kept = [&](const std::string& event) {
    const std::optional<EventFacts> facts = facts_of(event);
    if (!facts) return false;
    return !facts->has_values ||
           (facts->counts_updates ? facts->step <= goes_on.updates : facts->step < goes_on.epoch);
  };
  for (auto file = all.rbegin(); file != all.rend(); ++file) {
    RecordReader reader(owner_, *file);
    std::uintmax_t kept = 0;
    bool has_values = false;
    while (const std::optional<std::string> event = reader.next()) {
      if (!is_kept(*event)) break;
      has_values = has_values || facts_of(*event)->has_values;
      kept = reader.position();
    }
    std::error_code problem;
    if (!has_values) {
      fs::remove(*file, problem);
    } else if (kept < fs::file_size(*file, problem) && !problem) {
      fs::resize_file(*file, kept, problem);
    }
    if (problem) {
      fail("{}: {} cannot be cut to {} bytes: {}", owner_, *file, kept, problem.message());
    }
  }
}

void EventFiles::write(std::string_view event) {
  if (!stream_.is_open()) {
    open();
  }
  append(event);
}

void EventFiles::close() {
  if (stream_.is_open()) {
    errno = 0;
    stream_.close();
    check_stream("closed");
  }
}

// Sorted.
std::vector<fs::path> EventFiles::files() const {
  std::vector<fs::path> found;
  std::error_code problem;
  if (!fs::exists(folder_, problem)) return found;
  fs::directory_iterator entries(folder_, problem);
  if (problem) fail("{}: {} cannot be read: {}", owner_, folder_, problem.message());
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().filename().string().starts_with(file_name_begin) &&
        entry.is_regular_file(problem)) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Behind those that are there, however clocks go.
void EventFiles::open() {
  std::error_code problem;
  fs::create_directories(folder_, problem);
  if (problem) {
    fail_to_make(problem.value(),
                 fmt::format("{}: {} cannot be made: {}", owner_, folder_, problem.message()));
  }
  const double now = seconds_now();
  auto seconds = static_cast<std::int64_t>(now);
  for (const fs::path& file : files()) seconds = std::max(seconds, seconds_in_name(file) + 1);
  file_ = folder_ /
          fmt::format("{}{:010}.{}.{}.0.v2", file_name_begin, seconds, host_name(), ::getpid());
  errno = 0;
  stream_ = std::ofstream(file_, std::ios::binary | std::ios::app);
  check_stream("opened");
  named_ = WatchedName(file_);
  append(version_event(now));
  append(start_event(now, goes_on_ ? goes_on_->updates + 1 : 0));
}

void EventFiles::append(std::string_view event) {
  const FileSizeSignalBlocked blocked;
  errno = 0;
  stream_ << record_of(event) << std::flush;
  check_stream("written");
}

void EventFiles::check_stream(const char* what) const {
  if (!stream_) {
    fail("{}: {} cannot be {}: {}", owner_, file_, what,
         errno ? std::strerror(errno) : "unknown reason");
  }
}

}  // namespace meshwork
