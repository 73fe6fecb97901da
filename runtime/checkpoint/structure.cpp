#include "runtime/checkpoint/structure.h"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/format.h"
#include "runtime/checkpoint/hdf5_values.h"

namespace meshwork {
namespace {

// No name of a variable has as many parts.
constexpr int deepest = 200;

class Fields {
 public:
  void add(std::span<const std::byte> bytes) {
    const std::uint64_t length = bytes.size();
    hash_.add(std::as_bytes(std::span(&length, 1)));
    hash_.add(bytes);
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  [[nodiscard]] std::uint64_t value() const { return hash_.value(); }

 private:
  Hash hash_;
};

class Walk {
 public:
  Walk(hid_t file, const std::string& subject) : subject_(subject) {
    check_hdf5(H5Fget_filesize(file, &bytes_of_file_), "no size", subject_);
    enter(open_object(file, "/"), "/", 0);
    std::sort(objects_.begin(), objects_.end(),
              [](const ObjectHash& a, const ObjectHash& b) { return a.path < b.path; });
  }

  std::vector<ObjectHash> objects_;

 private:
  Hdf5Object open_object(hid_t place, const std::string& name) const {
    return Hdf5Object(check_hdf5(H5Oopen(place, name.c_str(), H5P_DEFAULT),
                                 fmt::format("\"{}\" cannot be opened", name), subject_));
  }

  void enter(const Hdf5Object& object, const std::string& path, int depth) {
    // The sizes of what describes the object are not wanted; but who asks for them, as h5py does,
    // has the library read its heaps' lists of free space too.
    H5O_info_t info;
    check_hdf5(
        H5Oget_info2(object.native(), &info,
                     H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS | H5O_INFO_HDR | H5O_INFO_META_SIZE),
        fmt::format("{} cannot be listed", path), subject_);
    // Many links can lead to one object.
    if (const auto known = hashes_.find(info.addr); known != hashes_.end()) {
      objects_.push_back({path, known->second});
      return;
    }
    Fields fields;
    if (info.type == H5O_TYPE_GROUP) {
      fields.add("group");
    } else if (info.type == H5O_TYPE_DATASET) {
      add_dataset(fields, object.native());
    } else {
      fields.add("something else");
    }
    add_attributes(fields, object.native(), path);
    objects_.push_back({path, fields.value()});
    hashes_.emplace(info.addr, fields.value());
    if (info.type == H5O_TYPE_GROUP) {
      enter_links(open_group(object.native(), ".", subject_), path, depth);
    }
  }

  void enter_links(const Hdf5Group& group, const std::string& path, int depth) {
    if (depth == deepest) {
      fail("{}: {}: there are groups in groups, more than {} deep", subject_, path, deepest);
    }
    for (const std::string& name : link_names(group, subject_)) {
      const std::string below = path == "/" ? name : path + '/' + name;
      H5L_info_t link;
      check_hdf5(H5Lget_info(group.native(), name.c_str(), &link, H5P_DEFAULT),
                 fmt::format("{} cannot be listed", below), subject_);
      if (link.type == H5L_TYPE_HARD) {
        enter(open_object(group.native(), name), below, depth + 1);
      } else {
        Fields fields;
        fields.add("link");
        objects_.push_back({below, fields.value()});
      }
    }
  }

  void add_dataset(Fields& fields, hid_t dataset) const {
    const Hdf5Properties how(check_hdf5(H5Dget_create_plist(dataset), "no layout", subject_));
    const bool contiguous =
        H5Pget_layout(how.native()) == H5D_CONTIGUOUS && H5Pget_external_count(how.native()) == 0;
    fields.add("dataset");
    if (!contiguous) {
      fields.add("stored otherwise");  // of a virtual one, HDF5 looks for the shape in other files
      return;
    }
    const Hdf5Datatype type(check_hdf5(H5Dget_type(dataset), "no type", subject_));
    const Hdf5Dataspace space(check_hdf5(H5Dget_space(dataset), "no dataspace", subject_));
    fields.add(text_of_type(type.native()));
    fields.add(text_of_shape(space.native()));
  }

  void add_attributes(Fields& fields, hid_t object, const std::string& path) const {
    for (const std::string& name : attribute_names(object, subject_)) {
      if (path == checksum_group && name == checksum_of_table) {
        continue;
      }
      const Hdf5Attribute attribute(
          check_hdf5(H5Aopen(object, name.c_str(), H5P_DEFAULT),
                     fmt::format("{}: attribute \"{}\" cannot be opened", path, name), subject_));
      const Hdf5Datatype type(check_hdf5(H5Aget_type(attribute.native()), "no type", subject_));
      const Hdf5Dataspace space(
          check_hdf5(H5Aget_space(attribute.native()), "no dataspace", subject_));
      fields.add(name);
      fields.add(text_of_type(type.native()));
      fields.add(text_of_shape(space.native()));
      fields.add(value_of(attribute, type, space, fmt::format("{}: attribute \"{}\"", path, name)));
    }
  }

  std::vector<std::byte> value_of(const Hdf5Attribute& attribute, const Hdf5Datatype& type,
                                  const Hdf5Dataspace& space, const std::string& what) const {
    if (!is_plain(type.native())) {
      return {};
    }
    // No longer than the file that it is in, whatever it says.
    const std::size_t element = H5Tget_size(type.native());
    const hssize_t count =
        check_hdf5(H5Sget_simple_extent_npoints(space.native()), "no shape", subject_);
    if (element == 0 || static_cast<hsize_t>(count) > bytes_of_file_ / element) {
      fail("{}: {} says that it has {} elements of {} bytes", subject_, what, count, element);
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * element);
    if (!bytes.empty()) {
      check_hdf5(H5Aread(attribute.native(), type.native(), bytes.data()), what + " cannot be read",
                 subject_);
    }
    return bytes;
  }

  // Whether a value of `type` is all in its own bytes.
  bool is_plain(hid_t type) const {
    const H5T_class_t kind = H5Tget_class(type);
    return kind == H5T_INTEGER || kind == H5T_FLOAT ||
           (kind == H5T_STRING && check_hdf5(H5Tis_variable_str(type), "no type", subject_) == 0);
  }

  std::string text_of_type(hid_t type) const {
    const H5T_class_t kind = H5Tget_class(type);
    if (!is_plain(type)) {
      return fmt::format("something else {}", static_cast<int>(kind));
    }
    const std::size_t bytes = H5Tget_size(type);
    if (kind == H5T_STRING) {
      return fmt::format("text {} {} {}", bytes, static_cast<int>(H5Tget_cset(type)),
                         static_cast<int>(H5Tget_strpad(type)));
    }
    const auto order = static_cast<int>(H5Tget_order(type));
    const std::size_t precision = H5Tget_precision(type);
    const int offset = H5Tget_offset(type);
    if (kind == H5T_INTEGER) {
      return fmt::format("integer {} {} {} {} {}", bytes, order,
                         static_cast<int>(H5Tget_sign(type)), precision, offset);
    }
    std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
    check_hdf5(H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits),
               "no type", subject_);
    return fmt::format("float {} {} {} {} {} {} {} {} {}", bytes, order, precision, offset, sign,
                       exponent, exponent_bits, mantissa, mantissa_bits);
  }

  std::string text_of_shape(hid_t space) const {
    if (H5Sget_simple_extent_type(space) == H5S_NULL) {
      return "nothing";
    }
    const auto dimensions = static_cast<std::size_t>(
        check_hdf5(H5Sget_simple_extent_ndims(space), "no shape", subject_));
    if (dimensions == 0) {
      return "scalar";
    }
    std::vector<hsize_t> lengths(dimensions);
    std::vector<hsize_t> most(dimensions);
    check_hdf5(H5Sget_simple_extent_dims(space, lengths.data(), most.data()), "no shape", subject_);
    const auto text = [](const std::vector<hsize_t>& numbers) {
      return '(' + joined_text(numbers, ", ") + ')';
    };
    return text(lengths) + (most == lengths ? "" : " of " + text(most));
  }

  const std::string& subject_;
  hsize_t bytes_of_file_ = 0;
  std::map<haddr_t, std::uint64_t> hashes_;  // of the objects that have been met
};

}  // namespace

std::vector<ObjectHash> hash_objects(hid_t file, const std::string& subject) {
  return std::move(Walk(file, subject).objects_);
}

std::string first_difference(const std::vector<ObjectHash>& expected,
                             const std::vector<ObjectHash>& found) {
  for (std::size_t i = 0; i < expected.size() || i < found.size(); ++i) {
    if (i == found.size() || (i < expected.size() && expected[i].path < found[i].path)) {
      return fmt::format("{}: is missing", expected[i].path);
    }
    if (i == expected.size() || found[i].path < expected[i].path) {
      return fmt::format("{}: was not written with the checkpoint", found[i].path);
    }
    if (found[i].hash != expected[i].hash) {
      return fmt::format(
          "{}: its attributes, type or shape differ from those written (hash {:016x}, expected "
          "{:016x})",
          found[i].path, found[i].hash, expected[i].hash);
    }
  }
  return "";
}

}  // namespace meshwork
