#include "runtime/data/foreign_hdf5.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
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

namespace meshwork {
namespace {

constexpr H5Z_filter_t lzf = 32000;  // h5py's, by its number in The HDF Group's registry

// A chunk is in memory whole.
constexpr std::uint64_t largest_unstored_chunk = std::uint64_t{64} << 20;
constexpr std::size_t widest_number = 16;  // a long double's
constexpr std::size_t most_names = 1'000;
constexpr int most_looked_at = 20'000;
constexpr int deepest_names = 16;

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
  fail("{}: {} lies behind an external link, to {}; what is outside of the file is not read",
       subject, name, target);
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

// Throws for filters that are not read, and for those that would take more memory than `chunk` bytes
// of elements of `width` are, whatever of a chunk is stored.
void check_filters(hid_t creation, std::uint64_t chunk, std::uint64_t width,
                   const std::string& name, const std::string& subject) {
  const int count = check_hdf5(H5Pget_nfilters(creation), "no filters", subject);
  std::set<H5Z_filter_t> before;
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    unsigned settings = 0;
    std::array<unsigned, 32> of_filter{};
    std::size_t values = of_filter.size();
    std::array<char, 64> title{};
    const H5Z_filter_t filter =
        H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, of_filter.data(),
                       title.size(), title.data(), &settings);
    check_hdf5(filter, "a filter cannot be looked at", subject);
    const auto refuse = [&](std::string_view why) {
      const std::string_view known = filter == lzf ? "lzf" : title.data();
      fail("{}: {} is stored with the filter {}{}, {}; store it with gzip, or without a filter",
           subject, name, filter, known.empty() ? "" : fmt::format(" (\"{}\")", in_one_line(known)),
           why);
    };
    constexpr std::array known{H5Z_FILTER_DEFLATE,
                               H5Z_FILTER_SHUFFLE,
                               H5Z_FILTER_FLETCHER32,
                               H5Z_FILTER_SZIP,
                               H5Z_FILTER_NBIT,
                               H5Z_FILTER_SCALEOFFSET,
                               lzf};
    if (std::ranges::find(known, filter) == known.end()) {
      refuse("which is not among those that are read");
    }
    if (H5Zfilter_avail(filter) <= 0) refuse("which this HDF5 library does not have");
    if (!before.insert(filter).second) refuse("twice");
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

// The bytes that a chunk of `chunk` bytes takes in the file at most: filters that pack nothing add
// little.
std::uint64_t most_stored(std::uint64_t chunk) {
  return chunk + chunk / 8 + 1024;
}

// The same of all chunks.
std::uint64_t most_stored(const Hdf5Dataset& dataset, hid_t creation, std::uint64_t chunk,
                          const std::string& subject) {
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  if (chunk == 0 || chunk > most / 2) return most;
  const Hdf5Dataspace space(check_hdf5(H5Dget_space(dataset.native()), "no dataspace", subject));
  std::array<hsize_t, H5S_MAX_RANK> lengths{}, of_chunk{};
  const int dimensions = check_hdf5(
      H5Sget_simple_extent_dims(space.native(), lengths.data(), nullptr), "no shape", subject);
  check_hdf5(H5Pget_chunk(creation, H5S_MAX_RANK, of_chunk.data()), "no lengths of chunks",
             subject);
  std::uint64_t bytes = most_stored(chunk);
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

// The bytes that the sources of a virtual data set in the file `subject` store. Opening them shows
// that they may be read.
std::uint64_t stored_in_sources(const Hdf5Dataset& dataset, hid_t creation, const std::string& name,
                                const std::string& subject) {
  const ForeignRules of_source{.unstored_bytes = ~std::uint64_t{0}};  // the whole is looked at
  std::uint64_t stored = 0;
  for (const VirtualPiece& piece : pieces_of(creation, name, subject)) {
    const std::string place = piece.file.empty() ? subject : piece.file.string();
    const Hdf5File source =
        piece.file.empty()
            ? Hdf5File(check_hdf5(H5Iget_file_id(dataset.native()), "no file", subject))
            : open_for_reading(piece.file, H5P_DEFAULT, "the source of virtual data");
    stored += stored_bytes(open_dataset(source.native(), piece.dataset, place, of_source), place);
  }
  return stored;
}

void check_dataset(const Hdf5Dataset& dataset, const std::string& name, const std::string& subject,
                   ForeignRules rules) {
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
    stored = stored_in_sources(dataset, creation.native(), name, subject);
  } else {
    const std::uint64_t chunk = chunk_bytes(dataset, creation.native(), subject);
    check_filters(creation.native(), chunk, bytes_of_element(dataset, subject), name, subject);
    stored = stored_bytes(dataset, subject);
    if (const std::uint64_t most = most_stored(dataset, creation.native(), chunk, subject);
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
  if (declared > rules.unstored_bytes && declared / largest_packing > stored) {
    fail("{}: {} declares {} bytes, of which {} are stored; no filter packs so many", subject, name,
         declared, stored);
  }
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
  return dataset;
}

PackedChunks::PackedChunks(const Hdf5Dataset& dataset, const std::string& subject) {
  const Hdf5Properties creation(
      check_hdf5(H5Dget_create_plist(dataset.native()), "its properties cannot be read", subject));
  const std::uint64_t chunk = chunk_bytes(dataset, creation.native(), subject);
  if (chunk == 0 || check_hdf5(H5Pget_nfilters(creation.native()), "no filters", subject) == 0) {
    return;
  }
  const Hdf5Dataspace space(check_hdf5(H5Dget_space(dataset.native()), "no dataspace", subject));
  at_.resize(static_cast<std::size_t>(
      check_hdf5(H5Sget_simple_extent_ndims(space.native()), "no shape", subject)));
  lengths_.resize(at_.size());
  if (check_hdf5(
          H5Pget_chunk(creation.native(), static_cast<int>(lengths_.size()), lengths_.data()),
          "no lengths of chunks", subject) != static_cast<int>(at_.size())) {
    fail("{}: has chunks of another number of dimensions; it is damaged", subject);
  }
  most_ = most_stored(chunk);
}

void PackedChunks::check(const Hdf5Dataset& dataset, std::span<const hsize_t> start,
                         std::span<const hsize_t> count, const std::string& subject) {
  if (lengths_.empty()) return;
  const auto first = [&](std::size_t d) { return start[d] / lengths_[d] * lengths_[d]; };
  for (std::size_t d = 0; d < at_.size(); ++d) {
    if (count[d] == 0) return;
    at_[d] = first(d);
  }
  for (bool more = true; more;) {
    hsize_t stored = 0;  // and where it lies: nowhere, where it was never written
    unsigned skipped_filters = 0;
    haddr_t address = HADDR_UNDEF;
    check_hdf5(H5Dget_chunk_info_by_coord(dataset.native(), at_.data(), &skipped_filters, &address,
                                          &stored),
               "a chunk cannot be looked at", subject);
    if (stored > most_) {
      fail("{}: a chunk stores {} bytes, and chunks take {} at most; it is damaged", subject,
           stored, most_);
    }
    more = false;
    for (std::size_t d = at_.size(); !more && d-- > 0;) {
      at_[d] += lengths_[d];
      more = at_[d] < start[d] + count[d];
      if (!more) at_[d] = first(d);
    }
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
