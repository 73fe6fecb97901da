// Changes to checkpoint files whose checksums are made right again, as somebody could make them who
// wants to mislead; and files of the first version of the format.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/hdf5_values.h"
#include "runtime/checkpoint/structure.h"
#include "tests/support/catch.h"

namespace meshwork::test {

/// Opens `file` for writing, and closes it again.
inline void change_file(const std::filesystem::path& file,
                        const std::function<void(hid_t file)>& change) {
  const Hdf5Guard guard;
  Hdf5File opened(H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
  REQUIRE(opened.exists());
  change(opened.native());
  opened.close("test");
}

/// Gives the attribute `name` of `object` another value.
template <class Value>
void change_attribute(hid_t file, const std::string& object, const std::string& name,
                      const Value& value) {
  const Hdf5Object opened(H5Oopen(file, object.c_str(), H5P_DEFAULT));
  REQUIRE(H5Adelete(opened.native(), name.c_str()) >= 0);
  write_attribute(opened.native(), name, value, "test");
}

/// The hash of the table to what it is now.
inline void mend_table(hid_t file) {
  Hash hash;
  for (const char* name : {"datasets", "regions", "objects", "object_hashes"}) {
    const std::string dataset = std::string("checksums/") + name;
    if (H5Lexists(file, dataset.c_str(), H5P_DEFAULT) > 0) {
      hash.add(read_bytes(open_dataset(file, dataset, "test"), "test"));
    }
  }
  change_attribute(file, "checksums", "hash", hash.value());
}

/// All checksums of objects to what they are now. The objects are those that were.
inline void mend(hid_t file) {
  std::vector<std::uint64_t> hashes;
  for (const ObjectHash& object : hash_objects(file, "test")) hashes.push_back(object.hash);
  const Hdf5Dataset dataset = open_dataset(file, "checksums/object_hashes", "test");
  REQUIRE(shape_of(dataset, "test") == Shape{static_cast<std::int64_t>(hashes.size())});
  REQUIRE(H5Dwrite(dataset.native(), H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                   hashes.data()) >= 0);
  mend_table(file);
}

/// Makes it a file as the first version of the format had it.
inline void make_version_1(hid_t file) {
  REQUIRE(H5Ldelete(file, "checksums/objects", H5P_DEFAULT) >= 0);
  REQUIRE(H5Ldelete(file, "checksums/object_hashes", H5P_DEFAULT) >= 0);
  change_attribute(file, "/", "format_version", std::int64_t{1});
  mend_table(file);
}

}  // namespace meshwork::test
