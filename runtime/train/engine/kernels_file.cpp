#include "runtime/train/engine/kernels_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <fstream>
#include <system_error>

#include "collectives/error.h"
#include "collectives/file_size_limit.h"
#include "runtime/checkpoint/output_place.h"
#include "runtime/config/load.h"
#include "runtime/config/text_table.h"

namespace meshwork {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to(const char* what, const fs::path& file, int reason) {
  fail("the kernels' file {} cannot be {}: {}", file.string(), what,
       std::generic_category().message(reason));
}

// Whether `file` is there. Throws for what nobody should wait for.
bool is_there(const fs::path& file) {
  std::error_code code;
  const fs::file_status status = fs::status(file, code);
  if (status.type() == fs::file_type::not_found) return false;
  if (status.type() == fs::file_type::none) fail_to("read", file, code.value());
  if (status.type() != fs::file_type::regular) {
    fail("the kernels file {} is {}; expected a regular file or a new name", file.string(),
         status.type() == fs::file_type::directory ? "a directory" : "a pipe or a device");
  }
  return true;
}

// Beside `target`, where it can be renamed to it. Of this process alone: other hosts and containers
// may have one of the same number.
fs::path aside_of(const fs::path& target) {
  std::array<char, HOST_NAME_MAX + 1> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {};
  return fmt::format("{}.{}.{}", target.string(), host.data(), ::getpid());
}

std::string checked_name(const ConfigNode& node) {
  const auto name = node.as<std::string>();
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return std::iscntrl(c) != 0; })) {
    node.fail("expected a name on one line, without tabs and other control characters, found {}",
              node.found());
  }
  return name;
}

// A file of this process's own: no link is followed that somebody has put there.
std::ofstream made_anew(const fs::path& file) {
  static_cast<void>(::unlink(file.c_str()));
  const int made = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (made >= 0) ::close(made);
  std::ofstream stream;
  if (made >= 0) {
    stream.open(file);
  } else {
    stream.setstate(std::ios::failbit);
  }
  return stream;
}

}  // namespace

KernelRecords read_kernel_records(const fs::path& file) {
  KernelRecords records;
  if (!is_there(file)) return records;
  const std::string name = file.string();
  for (const ConfigEntry& platform : parse_document(read_config_file(name), name).entries()) {
    KernelRecord& record = records[checked_name(platform.key)];
    record.platform = platform.name;
    for (const ConfigEntry& entry : platform.value.entries()) {
      record.chosen[checked_name(entry.key)] = checked_name(entry.value);
    }
  }
  return records;
}

void require_writable(const fs::path& file) {
  const fs::path target = target_of(file), aside = aside_of(target);
  errno = 0;
  if (is_there(target) && ::access(target.c_str(), W_OK) != 0) fail_to("written", file, errno);
  std::ofstream out = made_anew(aside);
  out.close();
  if (!out || ::unlink(aside.c_str()) != 0) fail_to("written", file, errno);
}

void write_kernel_records(const fs::path& file, const KernelRecords& records) {
  const FileSizeSignalBlocked blocked;
  const fs::path target = target_of(file), aside = aside_of(target);
  errno = 0;
  std::ofstream out = made_anew(aside);
  out << "# Kernels chosen by timing, by processor or GPU and library. Kernels that are missing "
         "here are timed and added.\n";
  for (const auto& [platform, record] : records) {  // YAML reads what JSON quotes
    out << json_text(platform) << ":\n";
    for (const auto& [key, name] : record.chosen) {
      out << "  " << json_text(key) << ": " << json_text(name) << "\n";
    }
  }
  out.close();
  int reason = out ? 0 : (errno != 0 ? errno : EIO);
  // It stays as readable, and as writable for a group, as it was.
  std::error_code code;
  const fs::file_status before = fs::status(target, code);
  if (reason == 0 && fs::exists(before)) {
    fs::permissions(aside, before.permissions(), code);
    reason = code.value();
  }
  if (reason == 0 && std::rename(aside.c_str(), target.c_str()) != 0) reason = errno;
  if (reason != 0) {
    static_cast<void>(::unlink(aside.c_str()));  // it may not have come to be
    fail_to("written", file, reason);
  }
}

}  // namespace meshwork
