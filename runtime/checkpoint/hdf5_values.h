// Small values in HDF5 files: numbers and texts as attributes, lists of them as datasets.
//
// Texts are strings of fixed length in UTF-8, padded with zeros, which every reader takes as they
// are; so a text does not end with a zero. All functions throw `Error` that begins with `subject`,
// the file; `object` is a file, group or dataset. To be called inside the life of an Hdf5Guard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include "collectives/error.h"
#include "runtime/data/foreign_hdf5.h"
#include "runtime/data/hdf5_handles.h"
#include "runtime/mesh/layout.h"
#include "runtime/shape/shape.h"

namespace meshwork {

/// How an element of a list or an attribute is stored: little-endian, as this machine has it.
template <class Number>
[[nodiscard]] hid_t hdf5_type() {
  if constexpr (std::is_same_v<Number, std::int64_t>) {
    return H5T_STD_I64LE;
  } else if constexpr (std::is_same_v<Number, std::uint64_t>) {
    return H5T_STD_U64LE;
  } else if constexpr (std::is_same_v<Number, float>) {
    return H5T_IEEE_F32LE;
  } else {
    static_assert(std::is_same_v<Number, double>);
    return H5T_IEEE_F64LE;
  }
}

/// The type of a text of `length` bytes, 1 at least.
[[nodiscard]] Hdf5Datatype text_type(std::size_t length, const std::string& subject);

/// An attribute that holds one number: std::int64_t, std::uint64_t or double.
template <class Number>
void write_attribute(hid_t object, const std::string& name, Number value,
                     const std::string& subject);
/// An attribute that holds a text of up to 60,000 bytes.
void write_attribute(hid_t object, const std::string& name, const std::string& text,
                     const std::string& subject);

template <class Number>
[[nodiscard]] Number read_number(hid_t object, const std::string& name, const std::string& subject);
[[nodiscard]] std::string read_text(hid_t object, const std::string& name,
                                    const std::string& subject);
/// Whether there is such an attribute.
[[nodiscard]] bool has_attribute(hid_t object, const std::string& name, const std::string& subject);

/// A dataset of a file that this process writes.
[[nodiscard]] Hdf5Dataset reopen_dataset(hid_t file, const std::string& name,
                                         const std::string& subject);
/// A new contiguous dataset of `shape`, whose place in the file is taken at once and not filled;
/// groups on the way to `name` are made. Throws `Error` where the limit of a file's size
/// (file_size_limit.h) leaves no room for it: HDF5 could not close the file.
[[nodiscard]] Hdf5Dataset create_dataset(hid_t file, const std::string& name, hid_t type,
                                         const Shape& shape, const std::string& subject);
/// The shape of a dataset.
[[nodiscard]] Shape shape_of(const Hdf5Dataset& dataset, const std::string& subject);
/// The group `name`, made with those on the way to it if it is not there.
[[nodiscard]] Hdf5Group create_group(hid_t file, const std::string& name,
                                     const std::string& subject);

/// The names of the links of a group, and of the attributes of an object, in alphabetical order.
[[nodiscard]] std::vector<std::string> link_names(const Hdf5Group& group,
                                                  const std::string& subject);
[[nodiscard]] std::vector<std::string> attribute_names(hid_t object, const std::string& subject);

/// What is selected of a dataset, and of memory, for one call.
struct Selection {
  Hdf5Dataspace file;
  Hdf5Dataspace memory;
  std::vector<hsize_t> start, count;  // of the block, by dimension
};
/// Selects `block` of a dataset, and memory for it alone; null stands for nothing, in a collective
/// write.
[[nodiscard]] Selection select(const Hdf5Dataset& dataset, const Block* block,
                               const std::string& subject);

/// Reads `block` of a dataset of numbers as float32, row-major; `what` names the dataset.
void read_block(const Hdf5Dataset& dataset, const Block& block, float* values,
                const std::string& what, const std::string& subject);
/// All elements of a dataset as bytes, as they are stored.
[[nodiscard]] std::vector<std::byte> read_bytes(const Hdf5Dataset& dataset,
                                                const std::string& subject);

}  // namespace meshwork
