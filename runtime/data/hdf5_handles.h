// Owners of HDF5 identifiers, and the check of every HDF5 return code.
//
// The HDF5 library is not safe for threads: one call at a time, in the whole process. A prefetch
// thread reads samples while a checkpoint is being written, so that every call stands inside the
// life of an `Hdf5Guard`, which holds the one lock for it and keeps the library from printing its
// error stack. `check_hdf5` turns that stack into the message of an `Error`.
//
//     const Hdf5Guard guard;
//     Hdf5File file(check_hdf5(H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT), "cannot open", name));
//
// The lock is the one piece of state that belongs to the process, because the library does. It is
// recursive: functions that take it call each other. A collective call may be made under it: it is
// never held by a thread that waits for another rank and another thread at once, since readers of
// samples open their files on their own and without MPI.
#pragma once

#include <hdf5.h>

#include <concepts>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "collectives/error.h"
#include "runtime/data/plain_file.h"

namespace meshwork {

/// Holds the lock of the HDF5 library and silences its printing of errors for the life of the
/// object.
class Hdf5Guard {
 public:
  Hdf5Guard();
  ~Hdf5Guard();
  Hdf5Guard(const Hdf5Guard&) = delete;
  Hdf5Guard& operator=(const Hdf5Guard&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  H5E_auto2_t printer_ = nullptr;
  void* printer_data_ = nullptr;
};

/// For programs that tell all errors themselves and close all files: the library prints nothing of
/// its own for the life of the process, and does nothing as it ends. Of damaged files, and of those
/// that a full disk kept it from closing, it holds pieces, over which it would stumble there. To be
/// called before the library is used.
void leave_hdf5_silent();

/// The library does not survive every damaged file, nor come back from reading it. After this call,
/// which is for programs, the process ends with `status` and one line on standard error, which names
/// the file, if inside the life of a guard that reads
///
///   - the library crashes; other crashes go where they went before;
///   - its thread computes for longer than the file can be the reason of: 1 second to look into it
///     and 60 to read values of it, and 1 more for each 256 KiB that it has on the disk;
///   - to look into it, on the main thread, takes 64 MiB and more than twice the bytes that it has.
///
/// Uses SIGALRM.
void end_crashes_of_hdf5_with(int status);
/// Names the file that the library is about to look into, for the life of the outermost Hdf5Guard.
void reading_hdf5(std::string_view file) noexcept;
/// The same before each call that reads values of it, to where the caller has room for them.
void reading_hdf5_values(std::string_view file) noexcept;

/// What the library's error stack says about the call that failed last, outermost first, on one
/// line.
[[nodiscard]] std::string hdf5_error_text();

/// Throws an `Error` "SUBJECT: WHAT: the library's own words" or, where the system is behind it, a
/// `SystemFailure` with the system's. Where it is not, `suspicion` follows WHAT: "; it is damaged".
[[noreturn]] void fail_hdf5(std::string_view what, std::string_view subject,
                            std::string_view suspicion = "");

/// Returns `code`, an identifier, a size or a status, unless it is negative: then throws "SUBJECT:
/// WHAT: the library's own words". `subject` is a file or "FILE:/DATASET", `what` like "cannot be
/// opened".
template <std::signed_integral Code>
Code check_hdf5(Code code, std::string_view what, std::string_view subject) {
  if (code < 0) fail_hdf5(what, subject);
  return code;
}

/// Owns one identifier; `close_identifier` gives it back.
template <herr_t (*close_identifier)(hid_t)>
class Hdf5Handle {
 public:
  Hdf5Handle() = default;
  explicit Hdf5Handle(hid_t identifier) : identifier_(identifier) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept
      : identifier_(std::exchange(other.identifier_, H5I_INVALID_HID)) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    if (this != &other) {
      release();
      identifier_ = std::exchange(other.identifier_, H5I_INVALID_HID);
    }
    return *this;
  }
  ~Hdf5Handle() { release(); }

  [[nodiscard]] hid_t native() const { return identifier_; }
  [[nodiscard]] bool exists() const { return identifier_ >= 0; }

  /// Closes now and throws `Error` if that fails, which matters for what was written: closing a
  /// file flushes it. The destructor closes without a word.
  void close(std::string_view subject) {
    if (!exists()) return;
    const Hdf5Guard guard;
    check_hdf5(close_identifier(std::exchange(identifier_, H5I_INVALID_HID)), "cannot be closed",
               subject);
  }

 private:
  void release() noexcept {
    if (!exists()) return;
    const Hdf5Guard guard;
    // MPI_Finalize ends the library and with it every identifier, so this one may be gone already.
    if (H5Iis_valid(identifier_) > 0) close_identifier(identifier_);
    identifier_ = H5I_INVALID_HID;
  }

  hid_t identifier_ = H5I_INVALID_HID;
};

using Hdf5File = Hdf5Handle<H5Fclose>;
using Hdf5Group = Hdf5Handle<H5Gclose>;
using Hdf5Object = Hdf5Handle<H5Oclose>;
using Hdf5Dataset = Hdf5Handle<H5Dclose>;
using Hdf5Dataspace = Hdf5Handle<H5Sclose>;
using Hdf5Datatype = Hdf5Handle<H5Tclose>;
using Hdf5Attribute = Hdf5Handle<H5Aclose>;
using Hdf5Properties = Hdf5Handle<H5Pclose>;

}  // namespace meshwork
