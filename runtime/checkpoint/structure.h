// The structure of an HDF5 file, as hashes: of every object its kind, type, shape and attributes.
//
// Everything is here but the data of the datasets, for which regions have hashes of their own. An
// object's hash is XXH64 (checksum.h) of *fields*, each of which is a text or bytes behind its
// length, 64 bits little-endian:
//
//     "group", or "dataset", its type and its shape; of a dataset that is not contiguous, or not in
//     the file, "stored otherwise" instead
//     of each attribute, in the order of their names: name, type, shape, and its value as it is
//     stored
//
// A type is "integer BYTES ORDER SIGN PRECISION OFFSET", "float BYTES ORDER PRECISION OFFSET" and
// the places of sign, exponent and mantissa, or "text BYTES CHARACTERS PADDING", with HDF5's numbers
// for what is not a size; a shape is "scalar" or "(5, 7)", with "of (8, 9)" behind it where it may
// grow. What a checkpoint never has is only named: a link that is no hard one, a type with a name,
// an attribute of another type. No link and no dataset is followed out of the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/hdf5_handles.h"

namespace meshwork {

/// One object, or one way to it where several links lead there.
struct ObjectHash {
  std::string path;  // "params/d1/kernel"; "/" is the root
  std::uint64_t hash = 0;

  bool operator==(const ObjectHash&) const = default;
};

/// All objects of `file`, in the order of their paths. The attribute "hash" of the group
/// "checksums", which protects this list, counts for nothing. Reads all that listing the file with
/// other tools reads. Throws `Error` that begins with `subject` for what cannot be read. To be
/// called inside the life of an Hdf5Guard.
[[nodiscard]] std::vector<ObjectHash> hash_objects(hid_t file, const std::string& subject);

/// The first difference between what a file should have and what it has, in words: "state: ...";
/// "" if there is none.
[[nodiscard]] std::string first_difference(const std::vector<ObjectHash>& expected,
                                           const std::vector<ObjectHash>& found);

}  // namespace meshwork
