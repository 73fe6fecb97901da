#include "runtime/data/foreign_hdf5.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "collectives/error.h"
#include "collectives/printable.h"
#include "runtime/config/nearest.h"
#include "runtime/data/gzip_stream.h"
#include "runtime/data/plain_file.h"
#include "runtime/shape/shape.h"

namespace meshwork {
namespace {

// A chunk is in memory whole.
constexpr std::uint64_t largest_unstored_chunk = std::uint64_t{64} << 20;
constexpr std::size_t widest_number = 16;  // a long double's
constexpr std::size_t most_names = 1'000;
constexpr int most_looked_at = 20'000;
constexpr int deepest_names = 16;
constexpr std::uint64_t most_remembered = std::uint64_t{1} << 26;  // chunks, a bit each
constexpr std::uint64_t most_gone_through = 4096;

// Where an external link leads, if one was met: "FILE:/OBJECT".
using ExternalTarget = std::string;

herr_t refuse_external_link(const char*, const char*, const char* file, const char* object,
                            unsigned*, hid_t, void* target) {
  try {
    *static_cast<ExternalTarget*>(target) = in_one_line(fmt::format("{}:{}", file, object));
  } catch (...) {  // exceptions do not cross the library
  }
  return -1;
}

// Properties of the class `kind`, or those of `access`, under which no external link is followed.
Hdf5Properties inside_the_file(hid_t kind, hid_t access, ExternalTarget& target,
                               const std::string& subject) {
  Hdf5Properties properties(check_hdf5(access == H5P_DEFAULT ? H5Pcreate(kind) : H5Pcopy(access),
                                       "no property list", subject));
  check_hdf5(H5Pset_elink_cb(properties.native(), refuse_external_link, &target),
             "no refusal of links", subject);
  return properties;
}

[[noreturn]] void fail_behind_link(const std::string& name, const ExternalTarget& target,
                                   const std::string& subject) {
  fail("{}: {} lies behind an external link, to {}; external files are not read", subject, name,
       target);
}

// ---- what a dataset says of itself --------------------------------------------------------------

// Nbit and scaleoffset take the number of elements and their size from their settings (H5Znbit.c,
// H5Zscaleoffset.c), where the library has put those of a chunk.
bool are_of_chunk(H5Z_filter_t filter, std::span<const unsigned> settings, std::uint64_t elements,
                  std::uint64_t width) {
  if (filter != H5Z_FILTER_NBIT && filter != H5Z_FILTER_SCALEOFFSET) return true;
  constexpr unsigned numbers = 1;  // nbit's word for what is no compound
  return settings.size() >= 5 && settings[2] == elements && settings[4] == width &&
         (filter == H5Z_FILTER_SCALEOFFSET || settings[3] == numbers);
}

// In the order in which they pack.
std::vector<ChunkFilter> filters_of(hid_t creation, const std::string& subject) {
  std::vector<ChunkFilter> filters(
      static_cast<std::size_t>(check_hdf5(H5Pget_nfilters(creation), "no filters", subject)));
  for (std::size_t i = 0; i < filters.size(); ++i) {
    unsigned flags = 0;
    std::array<unsigned, most_filter_settings> settings{};
    std::size_t values = settings.size();
    filters[i].filter = check_hdf5(H5Pget_filter2(creation, static_cast<unsigned>(i), &flags,
                                                  &values, settings.data(), 0, nullptr, nullptr),
                                   "a filter cannot be looked at", subject);
    filters[i].settings.assign(settings.begin(),
                               settings.begin() + std::min(values, settings.size()));
  }
  return filters;
}

// Throws for filters that are not read, and for those that would take more memory than `chunk` bytes
// of elements of `width` are, whatever of a chunk is stored.
void check_filters(hid_t creation, std::uint64_t chunk, std::uint64_t width,
                   const std::string& name, const std::string& subject) {
  const int count = check_hdf5(H5Pget_nfilters(creation), "no filters", subject);
  std::vector<H5Z_filter_t> before;
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    unsigned settings = 0;
    std::array<unsigned, most_filter_settings> of_filter{};
    std::size_t values = of_filter.size();
    std::array<char, 64> title{};
    const H5Z_filter_t filter =
        H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, of_filter.data(),
                       title.size(), title.data(), &settings);
    check_hdf5(filter, "a filter cannot be looked at", subject);
    const auto refuse = [&](std::string_view why) {
      const std::string_view known = filter == lzf_filter ? "lzf" : title.data();
      fail("{}: {} is stored with the filter {}{}, {}; store it with gzip, or without a filter",
           subject, name, filter, known.empty() ? "" : fmt::format(" (\"{}\")", in_one_line(known)),
           why);
    };
    constexpr std::array known{H5Z_FILTER_DEFLATE, H5Z_FILTER_SHUFFLE, H5Z_FILTER_FLETCHER32,
                               H5Z_FILTER_SZIP,    H5Z_FILTER_NBIT,    H5Z_FILTER_SCALEOFFSET,
                               lzf_filter};
    if (std::ranges::find(known, filter) == known.end()) {
      refuse("which is not among those that are read");
    }
    if (H5Zfilter_avail(filter) <= 0) refuse("which this HDF5 library does not have");
    if (std::ranges::find(before, filter) != before.end()) refuse("twice");
    if (const std::string_view problem = order_problem(before, filter); !problem.empty()) {
      refuse(problem);
    }
    before.push_back(filter);
    if (filter == H5Z_FILTER_SZIP && !follows_szip()) {
      refuse("which this program was built without (libaec)");
    }
    if (!are_of_chunk(filter, std::span(of_filter).first(std::min(values, of_filter.size())),
                      width > 0 ? chunk / width : 0, width)) {
      refuse("whose settings are not those of its chunks; it is damaged");
    }
  }
}

std::uint64_t declared_bytes(const Hdf5Dataset& dataset, const std::string& name,
                             const std::string& subject) {
  const Hdf5Datatype type(check_hdf5(H5Dget_type(dataset.native()), "no type", subject));
  const Hdf5Dataspace space(check_hdf5(H5Dget_space(dataset.native()), "no dataspace", subject));
  const int dimensions =
      check_hdf5(H5Sget_simple_extent_ndims(space.native()), "no shape", subject);
  std::array<hsize_t, H5S_MAX_RANK> lengths{};
  check_hdf5(H5Sget_simple_extent_dims(space.native(), lengths.data(), nullptr), "no shape",
             subject);
  std::uint64_t bytes = H5Tget_size(type.native());
  const H5T_class_t kind = H5Tget_class(type.native());
  if ((kind == H5T_INTEGER || kind == H5T_FLOAT) && bytes > widest_number) {
    fail("{}: {} declares numbers of {} bytes each; {} are the most", subject, name, bytes,
         widest_number);
  }
  bool overflow = bytes == 0;
  for (int i = 0; i < dimensions; ++i) {
    overflow |= __builtin_mul_overflow(bytes, lengths[static_cast<std::size_t>(i)], &bytes);
    if (lengths[static_cast<std::size_t>(i)] == 0) return 0;
  }
  if (overflow || bytes > std::uint64_t{1} << 62) {
    fail("{}: {} declares more elements than any memory has", subject, name);
  }
  return bytes;
}

// Of the chunk that the library holds in memory to read any element of it; 0 without chunks.
std::uint64_t chunk_bytes(const Hdf5Dataset& dataset, hid_t creation, const std::string& subject) {
  if (H5Pget_layout(creation) != H5D_CHUNKED) return 0;
  std::array<hsize_t, H5S_MAX_RANK> lengths{};
  const int dimensions = check_hdf5(H5Pget_chunk(creation, H5S_MAX_RANK, lengths.data()),
                                    "no lengths of chunks", subject);
  const Hdf5Datatype type(check_hdf5(H5Dget_type(dataset.native()), "no type", subject));
  std::uint64_t bytes = H5Tget_size(type.native());
  for (int i = 0; i < dimensions; ++i) {
    if (__builtin_mul_overflow(bytes, lengths[static_cast<std::size_t>(i)], &bytes)) {
      return std::numeric_limits<std::uint64_t>::max();
    }
  }
  return bytes;
}

std::uint64_t bytes_of_element(const Hdf5Dataset& dataset, const std::string& subject) {
  const Hdf5Datatype type(check_hdf5(H5Dget_type(dataset.native()), "no type", subject));
  return H5Tget_size(type.native());
}

// The bytes that all chunks of a dataset take in the file at most.
std::uint64_t most_bytes_stored(const Hdf5Dataset& dataset, hid_t creation, std::uint64_t chunk,
                                const std::string& subject) {
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  if (chunk == 0 || chunk > most / 2) return most;
  const Hdf5Dataspace space(check_hdf5(H5Dget_space(dataset.native()), "no dataspace", subject));
  std::array<hsize_t, H5S_MAX_RANK> lengths{}, of_chunk{};
  const int dimensions = check_hdf5(
      H5Sget_simple_extent_dims(space.native(), lengths.data(), nullptr), "no shape", subject);
  check_hdf5(H5Pget_chunk(creation, H5S_MAX_RANK, of_chunk.data()), "no lengths of chunks",
             subject);
  std::uint64_t bytes = meshwork::most_bytes_stored(chunk);
  for (int i = 0; i < dimensions; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::uint64_t chunks = lengths[at] / of_chunk[at] + (lengths[at] % of_chunk[at] != 0);
    if (__builtin_mul_overflow(bytes, chunks, &bytes)) return most;
  }
  return bytes;
}

std::uint64_t stored_bytes(const Hdf5Dataset& dataset, const std::string& subject) {
  const Hdf5File file(check_hdf5(H5Iget_file_id(dataset.native()), "no file", subject));
  hsize_t of_file = 0;
  check_hdf5(H5Fget_filesize(file.native(), &of_file), "no size", subject);
  return std::min<std::uint64_t>(H5Dget_storage_size(dataset.native()), of_file);
}

// What is more than a hole of the file `subject` and of the sources of its virtual data.
std::uint64_t bytes_outside_holes(const std::string& subject,
                                  const std::vector<std::filesystem::path>& sources) {
  const auto bytes = [](const std::filesystem::path& file) {
    return static_cast<std::uint64_t>(PlainFile(file, "an HDF5 file").bytes_outside_holes());
  };
  std::uint64_t sum = bytes(subject);
  for (const std::filesystem::path& source : sources) sum += bytes(source);
  return sum;
}

// One of the files or data sets that a virtual data set names.
template <class Get>
std::string name_of_source(Get get, hid_t creation, std::size_t index, const std::string& subject) {
  const ssize_t length = check_hdf5(get(creation, index, nullptr, 0), "no name", subject);
  std::string name(static_cast<std::size_t>(length) + 1, '\0');
  check_hdf5(get(creation, index, name.data(), name.size()), "no name", subject);
  name.resize(static_cast<std::size_t>(length));
  return name;
}

std::filesystem::path folder_of(const std::string& file) {
  std::error_code problem;
  return std::filesystem::weakly_canonical(std::filesystem::absolute(file, problem), problem)
      .parent_path();
}

// A data set that a virtual one takes values from; an empty `file` is that of the virtual one.
struct VirtualPiece {
  std::string file_name;  // as the virtual data set has it
  std::filesystem::path file;
  std::string dataset;
};

// Throws for a piece that may not be read, for its name. In the order of their names.
std::vector<VirtualPiece> pieces_of(hid_t creation, const std::string& name,
                                    const std::string& subject) {
  std::size_t count = 0;
  check_hdf5(H5Pget_virtual_count(creation, &count), "no sources", subject);
  std::set<std::pair<std::string, std::string>> sources;
  for (std::size_t i = 0; i < count; ++i) {
    sources.emplace(name_of_source(H5Pget_virtual_filename, creation, i, subject),
                    name_of_source(H5Pget_virtual_dsetname, creation, i, subject));
  }
  const std::filesystem::path folder = folder_of(subject);
  std::vector<VirtualPiece> pieces;
  for (const auto& [file_name, dataset_name] : sources) {
    const auto refuse = [&, &file_name = file_name](std::string_view why) {
      fail("{}: {} takes values from {}, {}", subject, name, in_one_line(file_name), why);
    };
    if ((file_name + dataset_name).find('%') != std::string::npos) {
      refuse("by a pattern of names; the names of its sources are expected");
    }
    if (file_name == ".") {
      pieces.push_back({file_name, {}, dataset_name});
      continue;
    }
    std::error_code problem;
    const std::filesystem::path place =
        std::filesystem::weakly_canonical(folder / file_name, problem);
    if (std::mismatch(folder.begin(), folder.end(), place.begin(), place.end()).first !=
        folder.end()) {
      refuse("which is not in the file's folder or below");
    }
    if (!std::filesystem::exists(place, problem)) refuse("which is not there");
    pieces.push_back({file_name, place, dataset_name});
  }
  return pieces;
}

// Calls `look` with each source of a virtual data set in the file `subject`: what it is called, its
// file and its data set, opened, and the file's path. Opening them shows that they may be read.
template <class Look>
void with_sources(const Hdf5Dataset& dataset, hid_t creation, const std::string& name,
                  const std::string& subject, const Look& look) {
  const ForeignRules of_source{.unstored_bytes = ~std::uint64_t{0}};  // the whole is looked at
  for (const VirtualPiece& piece : pieces_of(creation, name, subject)) {
    const std::string place = piece.file.empty() ? subject : piece.file.string();
    Hdf5File source =
        piece.file.empty()
            ? Hdf5File(check_hdf5(H5Iget_file_id(dataset.native()), "no file", subject))
            : open_for_reading(piece.file, H5P_DEFAULT, "the source of virtual data");
    Hdf5Dataset opened = open_dataset(source.native(), piece.dataset, place, of_source);
    look(piece, std::move(source), std::move(opened), place);
  }
}

// Whether the bits that hold a number are bits of the element.
bool holds_its_bits(const Hdf5Datatype& type) {
  const H5T_class_t kind = H5Tget_class(type.native());
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) return true;
  const std::size_t bits = 8 * H5Tget_size(type.native());
  const std::size_t precision = H5Tget_precision(type.native());
  const int offset = H5Tget_offset(type.native());
  if (precision == 0 || offset < 0 || precision > bits ||
      static_cast<std::size_t>(offset) > bits - precision) {
    return false;
  }
  if (kind == H5T_INTEGER) return true;
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  return H5Tget_fields(type.native(), &sign, &exponent, &exponent_bits, &mantissa,
                       &mantissa_bits) >= 0 &&
         exponent_bits > 0 && mantissa_bits > 0 && sign < precision && exponent_bits <= precision &&
         exponent <= precision - exponent_bits && mantissa_bits <= precision &&
         mantissa <= precision - mantissa_bits;
}

struct ChunkCounts {
  std::uint64_t needed = 1;  // for all elements; the largest number if that has more digits
  std::uint64_t written = 0;
};

ChunkCounts chunk_counts(const Hdf5Dataset& dataset, hid_t creation, const std::string& subject) {
  const Hdf5Dataspace space(check_hdf5(H5Dget_space(dataset.native()), "no dataspace", subject));
  std::array<hsize_t, H5S_MAX_RANK> lengths{}, of_chunk{};
  const int dimensions = check_hdf5(
      H5Sget_simple_extent_dims(space.native(), lengths.data(), nullptr), "no shape", subject);
  check_hdf5(H5Pget_chunk(creation, H5S_MAX_RANK, of_chunk.data()), "no lengths of chunks",
             subject);
  ChunkCounts counts;
  for (std::size_t d = 0; d < static_cast<std::size_t>(dimensions); ++d) {
    const std::uint64_t chunks = lengths[d] / of_chunk[d] + (lengths[d] % of_chunk[d] != 0);
    if (__builtin_mul_overflow(counts.needed, chunks, &counts.needed)) {
      counts.needed = std::numeric_limits<std::uint64_t>::max();
      break;
    }
  }
  // Where nothing is stored, the library tells of no chunk.
  hsize_t written = 0;
  if (H5Dget_storage_size(dataset.native()) > 0) {
    check_hdf5(H5Dget_num_chunks(dataset.native(), space.native(), &written), "no chunks", subject);
  }
  counts.written = written;
  return counts;
}

void check_dataset(const Hdf5Dataset& dataset, const std::string& name, const std::string& subject,
                   ForeignRules rules) {
  const Hdf5Datatype type(check_hdf5(H5Dget_type(dataset.native()), "no type", subject));
  if (!holds_its_bits(type)) {
    fail("{}: {} has numbers whose bits lie beyond their {} bytes; it is damaged", subject, name,
         H5Tget_size(type.native()));
  }
  const Hdf5Dataspace space(check_hdf5(H5Dget_space(dataset.native()), "no dataspace", subject));
  if (H5Sget_simple_extent_type(space.native()) == H5S_NULL) {
    fail("{}: {} has no elements and no shape (a null dataspace)", subject, name);
  }
  const Hdf5Properties creation(
      check_hdf5(H5Dget_create_plist(dataset.native()), "its properties cannot be read", subject));
  if (check_hdf5(H5Pget_external_count(creation.native()), "no storage", subject) > 0) {
    fail("{}: the values of {} lie in external storage, in other files, which are not read",
         subject, name);
  }
  const H5D_layout_t layout = H5Pget_layout(creation.native());
  if (layout < 0) fail_hdf5("its layout cannot be read", subject);
  std::uint64_t stored = 0;
  if (layout == H5D_VIRTUAL) {
    if (!rules.virtual_sources) {
      fail("{}: {} is a virtual dataset, whose values lie in others; they are not read", subject,
           name);
    }
    with_sources(dataset, creation.native(), name, subject,
                 [&](const VirtualPiece&, const Hdf5File&, const Hdf5Dataset& source,
                     const std::string& place) { stored += stored_bytes(source, place); });
  } else {
    const std::uint64_t chunk = chunk_bytes(dataset, creation.native(), subject);
    check_filters(creation.native(), chunk, bytes_of_element(dataset, subject), name, subject);
    stored = stored_bytes(dataset, subject);
    if (const std::uint64_t most = most_bytes_stored(dataset, creation.native(), chunk, subject);
        stored > most) {
      fail("{}: {} stores {} bytes in chunks of {}, which take {} at most; it is damaged", subject,
           name, stored, chunk, most);
    }
    if (chunk > largest_unstored_chunk && chunk / largest_packing > stored) {
      fail(
          "{}: {} declares chunks of {} bytes each, of which {} are stored; no filter packs so "
          "many",
          subject, name, chunk, stored);
    }
  }
  const std::uint64_t declared = declared_bytes(dataset, name, subject);
  if (declared > rules.unstored_bytes) {
    stored = std::min(stored, bytes_outside_holes(subject, source_files(dataset, name, subject)));
  }
  if (declared > rules.unstored_bytes && declared / largest_packing > stored) {
    fail("{}: {} declares {} bytes, of which {} are stored; no filter packs so many", subject, name,
         declared, stored);
  }
}

// Throws for a dataset of which something was never written.
void check_written(const Hdf5Dataset& dataset, const std::string& name,
                   const std::string& subject) {
  if (declared_bytes(dataset, name, subject) == 0) return;
  const Hdf5Properties creation(
      check_hdf5(H5Dget_create_plist(dataset.native()), "its properties cannot be read", subject));
  if (H5Pget_layout(creation.native()) == H5D_CHUNKED) {
    const auto [needed, written] = chunk_counts(dataset, creation.native(), subject);
    if (written < needed) {
      fail("{}: {} has no data in {} of its {} chunks: they were never written", subject, name,
           needed - written, needed);
    }
    return;
  }
  H5D_space_status_t status = H5D_SPACE_STATUS_ERROR;
  check_hdf5(H5Dget_space_status(dataset.native(), &status), "no storage", subject);
  if (status == H5D_SPACE_STATUS_NOT_ALLOCATED) {
    fail("{}: {} has no data: it was declared and never written", subject, name);
  }
}

// Whether the library could read its chunks to memory of the size that the file says each has,
// without anybody having looked at that.
bool has_unseen_chunks(const Hdf5Dataset& dataset, const std::string& subject) {
  const Hdf5Properties creation(
      check_hdf5(H5Dget_create_plist(dataset.native()), "its properties cannot be read", subject));
  return H5Pget_layout(creation.native()) == H5D_CHUNKED &&
         H5Pget_nfilters(creation.native()) == 0 &&
         chunk_counts(dataset, creation.native(), subject).written > most_gone_through;
}

// ---- listing ------------------------------------------------------------------------------------

struct Listing {
  std::string prefix;
  int depth;
  std::vector<std::string>& names;
  int& looked_at;  // hard links can lead in circles
};

herr_t list_link(hid_t group, const char* name, const H5L_info_t* link, void* of) {
  try {
    Listing& listing = *static_cast<Listing*>(of);
    if (listing.names.size() >= most_names || ++listing.looked_at > most_looked_at) {
      return 1;  // which ends the iteration
    }
    // A slash in a name would be followed as a path; a terminal would follow control characters.
    if (link->type != H5L_TYPE_HARD || std::string_view(name).find('/') != std::string_view::npos ||
        !is_one_line_of_letters(name)) {
      return 0;
    }
    const Hdf5Object object(H5Oopen(group, name, H5P_DEFAULT));
    if (!object.exists()) return 0;
    const H5I_type_t kind = H5Iget_type(object.native());
    if (kind == H5I_DATASET) listing.names.push_back(listing.prefix + name);
    if (kind == H5I_GROUP && listing.depth < deepest_names) {
      Listing below{listing.prefix + name + "/", listing.depth + 1, listing.names,
                    listing.looked_at};
      return H5Literate(object.native(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, list_link, &below);
    }
    return 0;
  } catch (...) {
    return -1;  // exceptions do not cross the library
  }
}

// In the order of the file, to be sorted here: to sort, HDF5 1.10.8 makes a table, and frees links in
// it that it has not filled where a group is damaged.
std::vector<std::string> dataset_names(hid_t file, const std::string& subject) {
  std::vector<std::string> names;
  int looked_at = 0;
  Listing listing{"/", 0, names, looked_at};
  check_hdf5(H5Literate(file, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, list_link, &listing),
             "cannot be listed", subject);
  std::ranges::sort(names);
  return names;
}

}  // namespace

Hdf5File open_for_reading(const std::filesystem::path& path, hid_t access,
                          const std::string& expected) {
  const std::string name = path.string();
  // HDF5 would not tell what it cannot open from what it cannot understand.
  if (PlainFile(path, expected).bytes() == 0) fail("{}: is empty", name);
  const Hdf5Guard guard;
  reading_hdf5(name);
  const htri_t is_hdf5 = H5Fis_hdf5(name.c_str());
  if (is_hdf5 == 0) {
    fail("{}: is no HDF5 file", name);
  }
  check_hdf5(is_hdf5, "cannot be read", name);
  const hid_t opened = H5Fopen(name.c_str(), H5F_ACC_RDONLY, access);
  if (opened < 0) {
    fail_hdf5("cannot be opened", name, "; it is truncated or damaged");
  }
  return Hdf5File(opened);
}

void require_dataset(hid_t file, const std::string& name, const std::string& subject) {
  ExternalTarget target;
  const Hdf5Properties properties = inside_the_file(H5P_LINK_ACCESS, H5P_DEFAULT, target, subject);
  const std::string absolute = name.starts_with('/') ? name : "/" + name;
  // Every part of the path on its own: a question about one whose beginning is missing fails.
  bool there = true;
  for (std::size_t end = 0; there && end != std::string::npos;) {
    end = absolute.find('/', end + 1);
    there = H5Lexists(file, absolute.substr(0, end).c_str(), properties.native()) > 0;
  }
  if (there) {
    const Hdf5Object object(H5Oopen(file, absolute.c_str(), properties.native()));
    there = !object.exists() || H5Iget_type(object.native()) == H5I_DATASET;
  }
  if (!target.empty()) fail_behind_link(name, target, subject);
  if (there) return;
  const std::vector<std::string> names = dataset_names(file, subject);
  const std::string nearest = did_you_mean(absolute, names);
  fail("{}: there is no data set \"{}\"{}", subject, absolute,
       nearest.empty()
           ? fmt::format("; the file has {}", quoted_list(nearest_names(absolute, names, 8)))
           : nearest);
}

Hdf5Dataset open_dataset(hid_t file, const std::string& name, const std::string& subject,
                         ForeignRules rules, hid_t access) {
  reading_hdf5(subject);
  ExternalTarget target;
  const Hdf5Properties properties = inside_the_file(H5P_DATASET_ACCESS, access, target, subject);
  if (rules.virtual_sources) {
    // The library is to open the sources that are looked at below, and looks where these say first.
    if (const char* folders = std::getenv("HDF5_VDS_PREFIX"); folders != nullptr && *folders != 0) {
      fail("{}: HDF5_VDS_PREFIX is set, to \"{}\", and would lead virtual data elsewhere; unset it",
           subject, folders);
    }
    check_hdf5(H5Pset_virtual_prefix(properties.native(), folder_of(subject).c_str()),
               "no folder for its sources", subject);
  }
  Hdf5Dataset dataset(H5Dopen2(file, name.c_str(), properties.native()));
  if (!dataset.exists()) {
    if (!target.empty()) fail_behind_link(name, target, subject);
    fail_hdf5(fmt::format("dataset {} cannot be opened", name), subject);
  }
  check_dataset(dataset, name, subject, rules);
  if (!rules.unwritten) check_written(dataset, name, subject);
  if (has_unseen_chunks(dataset, subject)) {
    // Without a cache the library reads elements from where a chunk is, and no chunks.
    check_hdf5(H5Pset_chunk_cache(properties.native(), 0, 0, 0), "no chunk cache", subject);
    dataset = {};
    dataset = Hdf5Dataset(check_hdf5(H5Dopen2(file, name.c_str(), properties.native()),
                                     fmt::format("dataset {} cannot be opened", name), subject));
  }
  return dataset;
}

namespace {

// Ends a conversion at a number that is not within the other type's range. To the library an
// infinity is such a number too.
H5T_conv_ret_t refuse_beyond(H5T_conv_except_t what, hid_t from, hid_t, void* number, void*,
                             void* met) {
  if (what != H5T_CONV_EXCEPT_RANGE_HI && what != H5T_CONV_EXCEPT_RANGE_LOW) {
    return H5T_CONV_UNHANDLED;
  }
  const auto is_infinite = [&](auto value) {
    if (H5Tget_class(from) != H5T_FLOAT || H5Tget_size(from) != sizeof value) return false;
    std::memcpy(&value, number, sizeof value);
    return std::isinf(value);
  };
  if (is_infinite(double{}) || is_infinite(static_cast<long double>(0))) return H5T_CONV_UNHANDLED;
  *static_cast<bool*>(met) = true;
  return H5T_CONV_ABORT;
}

}  // namespace

// A data set that a virtual one takes values from, and which of its elements stand where.
struct ChunkedReader::Source {
  struct Mapping {
    Hdf5Dataspace in_virtual, in_source;
  };
  Hdf5File file;
  Hdf5Dataset dataset;
  std::optional<ChunkedReader> reader;
  std::vector<Mapping> mappings;
};

ChunkedReader::~ChunkedReader() = default;

ChunkedReader::ChunkedReader(const Hdf5Dataset& dataset, const std::string& file,
                             std::string subject_of_messages)
    : subject_(std::move(subject_of_messages)) {
  const std::string& subject = subject_;
  transfer_ = Hdf5Properties(check_hdf5(H5Pcreate(H5P_DATASET_XFER), "no property list", subject));
  check_hdf5(H5Pset_type_conv_cb(transfer_.native(), refuse_beyond, &beyond_),
             "no refusal of numbers", subject);
  const Hdf5Properties creation(
      check_hdf5(H5Dget_create_plist(dataset.native()), "its properties cannot be read", subject));
  if (H5Pget_layout(creation.native()) == H5D_VIRTUAL) {
    std::map<std::pair<std::string, std::string>, Source*> known;
    with_sources(dataset, creation.native(), "the dataset", file,
                 [&](const VirtualPiece& piece, Hdf5File opened, Hdf5Dataset source,
                     const std::string& place) {
                   auto one = std::make_unique<Source>();
                   one->file = std::move(opened);
                   one->dataset = std::move(source);
                   one->reader.emplace(one->dataset, place, place);
                   known[{piece.file_name, piece.dataset}] = one.get();
                   sources_.push_back(std::move(one));
                 });
    std::size_t count = 0;
    check_hdf5(H5Pget_virtual_count(creation.native(), &count), "no sources", subject);
    for (std::size_t i = 0; i < count; ++i) {
      const auto source =
          known.find({name_of_source(H5Pget_virtual_filename, creation.native(), i, subject),
                      name_of_source(H5Pget_virtual_dsetname, creation.native(), i, subject)});
      if (source == known.end()) continue;
      source->second->mappings.push_back(
          {Hdf5Dataspace(check_hdf5(H5Pget_virtual_vspace(creation.native(), i),
                                    "a source without a place", subject)),
           Hdf5Dataspace(check_hdf5(H5Pget_virtual_srcspace(creation.native(), i),
                                    "a source without elements", subject))});
    }
    return;
  }
  bytes_ = chunk_bytes(dataset, creation.native(), subject);
  // Where nothing is stored, all are fill values, and the library tells of no chunk.
  const std::uint64_t stored = H5Dget_storage_size(dataset.native());
  if (bytes_ == 0 || stored == 0) return;
  filters_ = filters_of(creation.native(), subject);
  const Hdf5Dataspace space(check_hdf5(H5Dget_space(dataset.native()), "no dataspace", subject));
  const int dimensions =
      check_hdf5(H5Sget_simple_extent_ndims(space.native()), "no shape", subject);
  chunks_.resize(static_cast<std::size_t>(dimensions));
  check_hdf5(H5Sget_simple_extent_dims(space.native(), chunks_.data(), nullptr), "no shape",
             subject);
  if (filters_.empty()) {
    // The library tells what one of them stores by going through all.
    hsize_t written = 0;
    check_hdf5(H5Dget_num_chunks(dataset.native(), space.native(), &written), "no chunks", subject);
    few_ = written <= most_gone_through;
    if (stored / bytes_ != written || stored % bytes_ != 0) {
      fail("{}: {} chunks of {} bytes store {} bytes together; it is damaged", subject, written,
           bytes_, stored);
    }
  }
  lengths_.resize(chunks_.size());
  at_.resize(chunks_.size());
  if (check_hdf5(H5Pget_chunk(creation.native(), dimensions, lengths_.data()),
                 "no lengths of chunks", subject) != dimensions) {
    fail("{}: has chunks of another number of dimensions; it is damaged", subject);
  }
  unsigned options = 0;
  check_hdf5(H5Pget_chunk_opts(creation.native(), &options), "no options of chunks", subject);
  filters_edges_ = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) == 0;
  extent_ = chunks_;
  std::uint64_t count = 1;
  bool overflow = false;
  for (std::size_t d = 0; d < chunks_.size(); ++d) {
    chunks_[d] = chunks_[d] / lengths_[d] + (chunks_[d] % lengths_[d] != 0);
    overflow |= __builtin_mul_overflow(count, chunks_[d], &count);
  }
  if (!overflow && count <= most_remembered) seen_.resize(static_cast<std::size_t>(count));
}

herr_t ChunkedReader::read(const Hdf5Dataset& dataset, hid_t type, hid_t memory, hid_t in_file,
                           std::span<const hsize_t> start, std::span<const hsize_t> count,
                           void* values) {
  check(dataset, start, count);
  check_sources(in_file);
  beyond_ = false;
  const herr_t result =
      H5Dread(dataset.native(), type, memory, in_file, transfer_.native(), values);
  if (beyond_) fail_beyond(dataset, type, memory, in_file, start, count);
  return result;
}

// Reads once more what could not be read as `type`, to tell where the first such number stands.
void ChunkedReader::fail_beyond(const Hdf5Dataset& dataset, hid_t type, hid_t memory, hid_t in_file,
                                std::span<const hsize_t> start,
                                std::span<const hsize_t> count) const {
  std::size_t elements = 1;
  for (const hsize_t length : count) elements *= static_cast<std::size_t>(length);
  const bool real = H5Tget_class(type) == H5T_FLOAT;
  const std::string held = fmt::format("{}{}", real ? "float" : "int", 8 * H5Tget_size(type));
  const auto fail_at_first = [&](auto number, auto shown, hid_t widest, const auto& is_beyond) {
    std::vector<decltype(number)> numbers;
    with_memory_for(subject_, [&] { numbers.resize(elements); });
    check_hdf5(H5Dread(dataset.native(), widest, memory, in_file, H5P_DEFAULT, numbers.data()),
               "cannot be read", subject_);
    const auto found = std::ranges::find_if(numbers, is_beyond);
    if (found == numbers.end()) return;
    auto place = static_cast<std::uint64_t>(found - numbers.begin());
    Shape index(count.size());
    for (std::size_t d = count.size(); d-- > 0; place /= count[d]) {
      index[d] = static_cast<std::int64_t>(start[d] + place % count[d]);
    }
    fail("{}: element {} is {}, which {} cannot hold", subject_, to_string(index),
         static_cast<decltype(shown)>(*found), held);
  };
  if (real) {
    const long double most = H5Tget_size(type) == sizeof(float)
                                 ? std::numeric_limits<float>::max()
                                 : std::numeric_limits<double>::max();
    fail_at_first(static_cast<long double>(0), 0.0, H5T_NATIVE_LDOUBLE, [&](long double number) {
      return std::abs(number) > most && !std::isinf(number);
    });
  } else {
    fail_at_first(std::uint64_t{0}, std::uint64_t{0}, H5T_NATIVE_UINT64, [](std::uint64_t number) {
      return number > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    });
  }
  fail("{}: has numbers that {} cannot hold", subject_, held);
}

void ChunkedReader::check(const Hdf5Dataset& dataset, std::span<const hsize_t> start,
                          std::span<const hsize_t> count) {
  if (lengths_.empty()) return;
  const auto first = [&](std::size_t d) { return start[d] / lengths_[d] * lengths_[d]; };
  for (std::size_t d = 0; d < at_.size(); ++d) {
    if (count[d] == 0) return;
    at_[d] = first(d);
  }
  for (bool more = true; more;) {
    if (seen_.empty()) {
      check_chunk(dataset);
    } else if (const std::uint64_t chunk = number(); !seen_[chunk]) {
      check_chunk(dataset);
      seen_[chunk] = true;
    }
    more = false;
    for (std::size_t d = at_.size(); !more && d-- > 0;) {
      at_[d] += lengths_[d];
      more = at_[d] < start[d] + count[d];
      if (!more) at_[d] = first(d);
    }
  }
}

// The chunks of sources that hold what is selected in the virtual data.
void ChunkedReader::check_sources(hid_t in_file) {
  for (const auto& source : sources_) {
    for (const Source::Mapping& mapping : source->mappings) {
      const Hdf5Dataspace wanted(H5Sselect_project_intersection(
          mapping.in_virtual.native(), mapping.in_source.native(), in_file));
      // Of sources without an end, which cannot be projected, the whole.
      const Hdf5Dataspace all(
          check_hdf5(H5Dget_space(source->dataset.native()), "no dataspace", subject_));
      const hid_t space = wanted.exists() ? wanted.native() : all.native();
      if (H5Sget_select_npoints(space) <= 0) continue;
      const auto dimensions = static_cast<std::size_t>(
          check_hdf5(H5Sget_simple_extent_ndims(space), "no shape", subject_));
      std::vector<hsize_t> start(dimensions), count(dimensions);
      check_hdf5(H5Sget_select_bounds(space, start.data(), count.data()), "no bounds", subject_);
      for (std::size_t d = 0; d < dimensions; ++d) count[d] -= start[d] - 1;
      source->reader->check(source->dataset, start, count);
    }
  }
}

std::uint64_t ChunkedReader::number() const {
  std::uint64_t number = 0;
  for (std::size_t d = 0; d < at_.size(); ++d) number = number * chunks_[d] + at_[d] / lengths_[d];
  return number;
}

// Of the chunk at `at_`.
void ChunkedReader::check_chunk(const Hdf5Dataset& dataset) {
  hsize_t stored = 0;
  if (filters_.empty()) {
    if (!few_) return;
    unsigned skipped = 0;
    haddr_t address = HADDR_UNDEF;
    check_hdf5(
        H5Dget_chunk_info_by_coord(dataset.native(), at_.data(), &skipped, &address, &stored),
        "a chunk cannot be looked at", subject_);
  } else if (H5Dget_chunk_storage_size(dataset.native(), at_.data(), &stored) < 0) {
    stored = 0;
  }
  if (stored == 0) return;  // it was never written; what else is wrong with it, reading tells
  const auto place = [&] {
    return fmt::format("{}, elements from {} on", subject_,
                       to_string(Shape(at_.begin(), at_.end())));
  };
  if (stored > most_bytes_stored(bytes_)) {
    fail("{}: a chunk stores {} bytes, and chunks take {} at most; it is damaged", place(), stored,
         most_bytes_stored(bytes_));
  }
  const auto too_little = [&](std::uint64_t bytes) {
    fail("{}: a chunk stores {} bytes of the {} that it has; it is damaged", place(), bytes,
         bytes_);
  };
  if (filters_.empty()) {
    if (stored != bytes_) too_little(stored);
    return;
  }
  std::uint32_t skipped = 0;
  stored_.resize(static_cast<std::size_t>(stored));
  check_hdf5(H5Dread_chunk(dataset.native(), H5P_DEFAULT, at_.data(), &skipped, stored_.data()),
             "a chunk cannot be read", subject_);
  bool is_edge = false;
  for (std::size_t d = 0; d < at_.size(); ++d) is_edge |= lengths_[d] > extent_[d] - at_[d];
  if (is_edge && !filters_edges_) skipped = ~std::uint32_t{0};
  const std::uint64_t unpacked = unpacked_bytes(filters_, skipped, stored_, bytes_, place());
  if (unpacked < bytes_) too_little(unpacked);
  if (unpacked > bytes_) {
    fail("{}: a chunk unpacks to more than the {} bytes that it has; it is damaged", place(),
         bytes_);
  }
}

std::vector<std::filesystem::path> source_files(const Hdf5Dataset& dataset, const std::string& name,
                                                const std::string& subject) {
  const Hdf5Properties creation(
      check_hdf5(H5Dget_create_plist(dataset.native()), "its properties cannot be read", subject));
  std::vector<std::filesystem::path> files;
  if (H5Pget_layout(creation.native()) != H5D_VIRTUAL) return files;
  for (VirtualPiece& piece : pieces_of(creation.native(), name, subject)) {
    if (!piece.file.empty()) files.push_back(std::move(piece.file));
  }
  return files;
}

Hdf5Group open_group(hid_t file, const std::string& name, const std::string& subject) {
  ExternalTarget target;
  const Hdf5Properties properties = inside_the_file(H5P_GROUP_ACCESS, H5P_DEFAULT, target, subject);
  Hdf5Group group(H5Gopen2(file, name.c_str(), properties.native()));
  if (!group.exists()) {
    if (!target.empty()) fail_behind_link(name, target, subject);
    fail_hdf5(fmt::format("group {} cannot be opened", name), subject);
  }
  return group;
}

}  // namespace meshwork
