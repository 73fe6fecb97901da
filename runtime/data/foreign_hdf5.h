// Opens HDF5 files that others wrote: data, weights and checkpoints.
//
// An HDF5 file can name others: a link can lead into another file (an *external link*), a data
// set's values can lie in any file (*external storage*) or be put together from data sets of others
// (a *virtual* data set, whose pieces are its *sources*). Whoever reads such a file reads what its
// author chose, with the reader's rights. A file can also name filters, which the library loads as
// plugins, and declare sizes of which nothing is stored: elements that were never written read as a
// fill value. So every object of such a file is opened here, and only if
//
//   - the path to it leads through no external link, and its values do not lie in external storage;
//   - it is not virtual, unless the rules say so; its sources then lie in the file's own folder or
//     below, are there, and are not virtual themselves;
//   - the library has its filters, and they are deflate, shuffle, fletcher32, szip, nbit,
//     scaleoffset or LZF;
//   - what it declares could be packed into what it stores, or is as little as the rules bear.
//
// These are looked at in the object's header, before anything is read; ChunkedReader looks at each
// chunk, as it is wanted. All functions are called inside the life of an Hdf5Guard, and throw
// `Error` that begins with `subject`, the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/hdf5_handles.h"
#include "runtime/data/packed_chunk.h"
#include "runtime/data/plain_file.h"

namespace meshwork {

/// What a data set may do.
struct ForeignRules {
  bool virtual_sources = false;
  /// Bytes that may be declared of which nothing is stored.
  std::uint64_t unstored_bytes = std::uint64_t{1} << 20;
  /// Have elements that were never written, which read as a fill value.
  bool unwritten = true;
};

/// The regular file `path`, opened for reading with the properties `access`. Waits for nobody: a
/// pipe is refused. Throws `Unreachable`, `SystemFailure` where the disk or the network does not
/// answer, or an `Error` that says what is there instead; `expected` names what should be: "a
/// checkpoint".
[[nodiscard]] Hdf5File open_for_reading(const std::filesystem::path& path, hid_t access,
                                        const std::string& expected);

/// Throws if the file has no dataset at the path `name`, with the nearest that it has.
void require_dataset(hid_t file, const std::string& name, const std::string& subject);

/// The dataset at the path `name` of `file`. `access` are properties that it is opened with.
[[nodiscard]] Hdf5Dataset open_dataset(hid_t file, const std::string& name,
                                       const std::string& subject, ForeignRules rules = {},
                                       hid_t access = H5P_DEFAULT);

/// Reads an opened dataset whose values may lie in chunks, and looks at each chunk once before it
/// does. What a chunk stores beyond its own size a filter could unpack to a thousand times as much;
/// of what it stores too little, the library would go on in the memory behind its buffer, and call that
/// values.
class ChunkedReader {
 public:
  /// Of the file `file`; messages begin with `subject`.
  ChunkedReader(const Hdf5Dataset& dataset, const std::string& file, std::string subject);
  ~ChunkedReader();
  ChunkedReader(const ChunkedReader&) = delete;  // HDF5 knows where it is
  ChunkedReader& operator=(const ChunkedReader&) = delete;
  /// H5Dread of the `count` elements from `start` on, of each dimension, which `in_file` selects.
  /// Throws if a chunk that holds any of them stores what a chunk cannot, and for a number that is
  /// not within the range of `type`; infinities stay what they are.
  [[nodiscard]] herr_t read(const Hdf5Dataset& dataset, hid_t type, hid_t memory, hid_t in_file,
                            std::span<const hsize_t> start, std::span<const hsize_t> count,
                            void* values);

 private:
  void check(const Hdf5Dataset& dataset, std::span<const hsize_t> start,
             std::span<const hsize_t> count);
  void check_chunk(const Hdf5Dataset& dataset);
  [[nodiscard]] std::uint64_t number() const;

  struct Source;  // of virtual data
  void check_sources(hid_t in_file);

  [[noreturn]] void fail_beyond(const Hdf5Dataset& dataset, hid_t type, hid_t memory, hid_t in_file,
                                std::span<const hsize_t> start,
                                std::span<const hsize_t> count) const;

  std::string subject_;
  Hdf5Properties transfer_;
  bool beyond_ = false;  // a number was, of those that are being read
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<hsize_t> lengths_;  // of a chunk; empty without chunks
  std::vector<hsize_t> extent_;   // of the dataset
  std::vector<hsize_t> chunks_;   // of each dimension
  std::vector<hsize_t> at_;       // the first element of a chunk
  std::vector<bool> seen_;        // by number; empty for more than are worth to be remembered
  std::vector<std::byte> stored_;
  std::vector<ChunkFilter> filters_;
  std::uint64_t bytes_ = 0;    // of a chunk
  bool few_ = false;           // chunks
  bool filters_edges_ = true;  // chunks that reach beyond the extent
};

/// The other files that an opened dataset's values lie in, if it is virtual.
[[nodiscard]] std::vector<std::filesystem::path> source_files(const Hdf5Dataset& dataset,
                                                              const std::string& name,
                                                              const std::string& subject);
[[nodiscard]] Hdf5Group open_group(hid_t file, const std::string& name, const std::string& subject);

}  // namespace meshwork
