#include "runtime/checkpoint/hdf5_values.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <set>
#include <system_error>

#include "collectives/error.h"
#include "collectives/file_size_limit.h"
#include "collectives/printable.h"
#include "runtime/checkpoint/regions.h"

namespace meshwork {
namespace {

Hdf5Properties properties(hid_t kind, const std::string& subject) {
  return Hdf5Properties(check_hdf5(H5Pcreate(kind), "no property list", subject));
}

Hdf5Dataspace scalar(const std::string& subject) {
  return Hdf5Dataspace(check_hdf5(H5Screate(H5S_SCALAR), "no dataspace", subject));
}

Hdf5Properties making_groups(const std::string& subject) {
  Hdf5Properties links = properties(H5P_LINK_CREATE, subject);
  check_hdf5(H5Pset_create_intermediate_group(links.native(), 1), "no groups can be made", subject);
  check_hdf5(H5Pset_char_encoding(links.native(), H5T_CSET_UTF8), "no UTF-8", subject);
  return links;
}

void write_attribute_of(hid_t object, const std::string& name, hid_t type, const void* value,
                        const std::string& subject) {
  const Hdf5Dataspace space = scalar(subject);
  Hdf5Attribute attribute(
      check_hdf5(H5Acreate2(object, name.c_str(), type, space.native(), H5P_DEFAULT, H5P_DEFAULT),
                 fmt::format("attribute \"{}\" cannot be made", name), subject));
  check_hdf5(H5Awrite(attribute.native(), type, value),
             fmt::format("attribute \"{}\" cannot be written", name), subject);
}

Hdf5Attribute open_attribute(hid_t object, const std::string& name, const std::string& subject) {
  return Hdf5Attribute(check_hdf5(H5Aopen(object, name.c_str(), H5P_DEFAULT),
                                  fmt::format("there is no attribute \"{}\"", name), subject));
}

// Whether `file` may have another dataset of `bytes`, and what describes it.
void check_room(hid_t file, std::int64_t bytes, const std::string& subject) {
  constexpr std::int64_t for_describing = std::int64_t{64} << 10;
  hsize_t end = 0;
  check_hdf5(H5Fget_filesize(file, &end), "its size cannot be read", subject);
  const Hdf5Properties access(check_hdf5(H5Fget_access_plist(file), "no property list", subject));
  hsize_t threshold = 0;
  hsize_t alignment = 1;
  check_hdf5(H5Pget_alignment(access.native(), &threshold, &alignment), "no alignment", subject);
  if (alignment > 1 && static_cast<hsize_t>(bytes) >= threshold) {
    end = (end + alignment - 1) / alignment * alignment;
  }
  check_file_size(subject, static_cast<std::int64_t>(end) + bytes + for_describing);
}

}  // namespace

Hdf5Datatype text_type(std::size_t length, const std::string& subject) {
  Hdf5Datatype type(check_hdf5(H5Tcopy(H5T_C_S1), "no text type", subject));
  check_hdf5(H5Tset_size(type.native(), std::max<std::size_t>(1, length)), "no text type", subject);
  check_hdf5(H5Tset_cset(type.native(), H5T_CSET_UTF8), "no UTF-8", subject);
  check_hdf5(H5Tset_strpad(type.native(), H5T_STR_NULLPAD), "no text type", subject);
  return type;
}

template <class Number>
void write_attribute(hid_t object, const std::string& name, Number value,
                     const std::string& subject) {
  write_attribute_of(object, name, hdf5_type<Number>(), &value, subject);
}
template void write_attribute(hid_t, const std::string&, std::int64_t, const std::string&);
template void write_attribute(hid_t, const std::string&, std::uint64_t, const std::string&);
template void write_attribute(hid_t, const std::string&, double, const std::string&);

void write_attribute(hid_t object, const std::string& name, const std::string& text,
                     const std::string& subject) {
  const Hdf5Datatype type = text_type(text.size(), subject);
  write_attribute_of(object, name, type.native(), text.c_str(), subject);
}

template <class Number>
Number read_number(hid_t object, const std::string& name, const std::string& subject) {
  const Hdf5Attribute attribute = open_attribute(object, name, subject);
  const Hdf5Dataspace space(check_hdf5(H5Aget_space(attribute.native()), "no dataspace", subject));
  if (H5Sget_simple_extent_npoints(space.native()) != 1) {
    fail("{}: attribute \"{}\" is not one number", subject, name);
  }
  Number value{};
  check_hdf5(H5Aread(attribute.native(), hdf5_type<Number>(), &value),
             fmt::format("attribute \"{}\" cannot be read as a number", name), subject);
  return value;
}
template std::int64_t read_number(hid_t, const std::string&, const std::string&);
template std::uint64_t read_number(hid_t, const std::string&, const std::string&);
template double read_number(hid_t, const std::string&, const std::string&);

std::string read_text(hid_t object, const std::string& name, const std::string& subject) {
  const Hdf5Attribute attribute = open_attribute(object, name, subject);
  const Hdf5Datatype type(check_hdf5(H5Aget_type(attribute.native()), "no type", subject));
  const Hdf5Dataspace space(check_hdf5(H5Aget_space(attribute.native()), "no dataspace", subject));
  if (H5Tget_class(type.native()) != H5T_STRING || H5Tis_variable_str(type.native()) != 0 ||
      H5Sget_simple_extent_npoints(space.native()) != 1) {
    fail("{}: attribute \"{}\" is not a text of fixed length", subject, name);
  }
  std::string text(H5Tget_size(type.native()), '\0');
  check_hdf5(H5Aread(attribute.native(), type.native(), text.data()),
             fmt::format("attribute \"{}\" cannot be read", name), subject);
  text.resize(text.find_last_not_of('\0') + 1);
  if (!is_one_line_of_letters(text)) {
    fail("{}: attribute \"{}\" holds control characters: \"{}\"", subject, name, in_one_line(text));
  }
  return text;
}

bool has_attribute(hid_t object, const std::string& name, const std::string& subject) {
  return check_hdf5(H5Aexists(object, name.c_str()), "attributes cannot be listed", subject) > 0;
}

Hdf5Dataset reopen_dataset(hid_t file, const std::string& name, const std::string& subject) {
  return Hdf5Dataset(check_hdf5(H5Dopen2(file, name.c_str(), H5P_DEFAULT),
                                fmt::format("dataset {} cannot be opened", name), subject));
}

Hdf5Dataset create_dataset(hid_t file, const std::string& name, hid_t type, const Shape& shape,
                           const std::string& subject) {
  check_room(file,
             element_count(shape) *
                 static_cast<std::int64_t>(check_hdf5(static_cast<hssize_t>(H5Tget_size(type)),
                                                      "no size of numbers", subject)),
             subject);
  const std::vector<hsize_t> lengths(shape.begin(), shape.end());
  const Hdf5Dataspace space(check_hdf5(
      shape.empty() ? H5Screate(H5S_SCALAR)
                    : H5Screate_simple(static_cast<int>(lengths.size()), lengths.data(), nullptr),
      "no dataspace", subject));
  const Hdf5Properties links = making_groups(subject);
  const Hdf5Properties creation = properties(H5P_DATASET_CREATE, subject);
  check_hdf5(H5Pset_layout(creation.native(), H5D_CONTIGUOUS), "no layout", subject);
  check_hdf5(H5Pset_alloc_time(creation.native(), H5D_ALLOC_TIME_EARLY), "no layout", subject);
  check_hdf5(H5Pset_fill_time(creation.native(), H5D_FILL_TIME_NEVER), "no fill time", subject);
  check_hdf5(H5Pset_obj_track_times(creation.native(), false), "no times", subject);
  return Hdf5Dataset(check_hdf5(H5Dcreate2(file, name.c_str(), type, space.native(), links.native(),
                                           creation.native(), H5P_DEFAULT),
                                fmt::format("dataset {} cannot be made", name), subject));
}

Shape shape_of(const Hdf5Dataset& dataset, const std::string& subject) {
  const Hdf5Dataspace space(check_hdf5(H5Dget_space(dataset.native()), "no dataspace", subject));
  const int dimensions =
      check_hdf5(H5Sget_simple_extent_ndims(space.native()), "no shape", subject);
  std::vector<hsize_t> lengths(static_cast<std::size_t>(dimensions));
  check_hdf5(H5Sget_simple_extent_dims(space.native(), lengths.data(), nullptr), "no shape",
             subject);
  return {lengths.begin(), lengths.end()};
}

Hdf5Group create_group(hid_t file, const std::string& name, const std::string& subject) {
  const Hdf5Properties links = making_groups(subject);
  // Every part of the name on its own: a question about a path whose beginning is missing fails.
  bool there = true;
  for (std::size_t end = 0; there && end != std::string::npos;) {
    end = name.find('/', end + 1);
    there = check_hdf5(H5Lexists(file, name.substr(0, end).c_str(), H5P_DEFAULT),
                       "links cannot be listed", subject) > 0;
  }
  if (there) {
    return open_group(file, name, subject);
  }
  return Hdf5Group(
      check_hdf5(H5Gcreate2(file, name.c_str(), links.native(), H5P_DEFAULT, H5P_DEFAULT),
                 fmt::format("group {} cannot be made", name), subject));
}

namespace {

// The names that an iteration over links or attributes meets.
class Names {
 public:
  // Ends the iteration at a name that came before: a damaged index can lead through the same ones
  // for hours.
  herr_t add(const char* name) noexcept {
    try {
      const bool is_new = names_.insert(name).second;
      if (!is_new) twice_ = name;
      return is_new ? 0 : 1;
    } catch (...) {
      return -1;  // exceptions do not cross the library
    }
  }
  std::vector<std::string> sorted(std::string_view what, const std::string& subject) const {
    for (const std::string& name : names_) {
      if (!is_one_line_of_letters(name)) {
        fail("{}: has {} whose name, \"{}\", holds control characters", subject, what,
             in_one_line(name));
      }
    }
    if (twice_) fail("{}: has {} \"{}\" twice; it is damaged", subject, what, *twice_);
    return {names_.begin(), names_.end()};
  }

 private:
  std::set<std::string> names_;
  std::optional<std::string> twice_;
};

// Adds the name of a link or an attribute: what the library calls for each.
template <class Info>
herr_t add_name(hid_t, const char* name, const Info*, void* met) {
  return static_cast<Names*>(met)->add(name);
}

}  // namespace

std::vector<std::string> link_names(const Hdf5Group& group, const std::string& subject) {
  Names met;
  hsize_t index = 0;
  // In the order of the file: to sort, HDF5 1.10.8 makes a table, and frees links in it that it has
  // not filled where the group is damaged.
  check_hdf5(
      H5Literate(group.native(), H5_INDEX_NAME, H5_ITER_NATIVE, &index, add_name<H5L_info_t>, &met),
      "a group cannot be listed", subject);
  std::vector<std::string> names = met.sorted("a link", subject);
  for (const std::string& name : names) {
    // It would be followed as a path, through whatever stands there.
    if (name.find('/') != std::string::npos) {
      fail("{}: has a link whose name, \"{}\", contains a slash", subject, name);
    }
    // Paths are made of them, one for each object.
    if (name.size() > longest_name) {
      fail("{}: has a link whose name is {} bytes long; {} are the most", subject, name.size(),
           longest_name);
    }
  }
  return names;
}

std::vector<std::string> attribute_names(hid_t object, const std::string& subject) {
  Names met;
  hsize_t index = 0;
  check_hdf5(H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, &index, add_name<H5A_info_t>, &met),
             "attributes cannot be listed", subject);
  return met.sorted("an attribute", subject);
}

Selection select(const Hdf5Dataset& dataset, const Block* block, const std::string& subject) {
  Selection selection;
  selection.file =
      Hdf5Dataspace(check_hdf5(H5Dget_space(dataset.native()), "no dataspace", subject));
  const bool scalar = H5Sget_simple_extent_ndims(selection.file.native()) == 0;
  std::vector<hsize_t>& start = selection.start;
  std::vector<hsize_t>& count = selection.count;
  if (block != nullptr) {
    for (const Range& range : *block) {
      start.push_back(static_cast<hsize_t>(range.begin));
      count.push_back(static_cast<hsize_t>(range.length()));
    }
  }
  const hsize_t one = 1;
  selection.memory = Hdf5Dataspace(
      check_hdf5(scalar || block == nullptr
                     ? H5Screate_simple(1, &one, nullptr)
                     : H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                 "no dataspace", subject));
  if (block == nullptr) {
    check_hdf5(H5Sselect_none(selection.file.native()), "cannot be selected", subject);
    check_hdf5(H5Sselect_none(selection.memory.native()), "cannot be selected", subject);
  } else if (!scalar) {
    check_hdf5(H5Sselect_hyperslab(selection.file.native(), H5S_SELECT_SET, start.data(), nullptr,
                                   count.data(), nullptr),
               "cannot be selected", subject);
  }
  return selection;
}

void read_block(const Hdf5Dataset& dataset, const Block& block, float* values,
                const std::string& what, const std::string& subject) {
  if (is_empty(block)) {
    return;
  }
  const Selection selection = select(dataset, &block, subject);
  reading_hdf5_values(subject);
  check_hdf5(ChunkedReader(dataset, subject, fmt::format("{}: {}", subject, what))
                 .read(dataset, H5T_NATIVE_FLOAT, selection.memory.native(),
                       selection.file.native(), selection.start, selection.count, values),
             fmt::format("{} {} cannot be read", what, to_string(block)), subject);
}

std::vector<std::byte> read_bytes(const Hdf5Dataset& dataset, const std::string& subject) {
  const Hdf5Datatype type(check_hdf5(H5Dget_type(dataset.native()), "no type", subject));
  const Hdf5Dataspace space(check_hdf5(H5Dget_space(dataset.native()), "no dataspace", subject));
  const hssize_t count =
      check_hdf5(H5Sget_simple_extent_npoints(space.native()), "no shape", subject);
  // A dataset is not longer than the file that it is in, whatever it says.
  const std::size_t element = H5Tget_size(type.native());
  hsize_t of_file = 0;
  const Hdf5File file(check_hdf5(H5Iget_file_id(dataset.native()), "no file", subject));
  check_hdf5(H5Fget_filesize(file.native(), &of_file), "no size", subject);
  if (element == 0 || static_cast<hsize_t>(count) > of_file / element) {
    fail("{}: has a dataset of {} elements of {} bytes in a file of {} bytes", subject, count,
         element, of_file);
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * element);
  if (!bytes.empty()) {
    const Shape shape = shape_of(dataset, subject);
    const std::vector<hsize_t> start(shape.size()), lengths(shape.begin(), shape.end());
    check_hdf5(ChunkedReader(dataset, subject, subject)
                   .read(dataset, type.native(), H5S_ALL, H5S_ALL, start, lengths, bytes.data()),
               "cannot be read", subject);
  }
  return bytes;
}

}  // namespace meshwork
