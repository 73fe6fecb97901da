// HDF5 data sets written here with the library itself, read by blocks, and the errors.
#include "runtime/data/hdf5.h"

#include "runtime/data/hdf5_handles.h"
#include "runtime/data/views.h"
#include "tests/runtime/data/support.h"
#include "tests/support/catch.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <thread>

namespace meshwork::hdf5_test {

using namespace meshwork::test;

namespace {

template <class T>
hid_t native_type();
template <>
hid_t native_type<std::uint8_t>() {
  return H5T_NATIVE_UINT8;
}
template <>
hid_t native_type<std::int32_t>() {
  return H5T_NATIVE_INT32;
}
template <>
hid_t native_type<std::int64_t>() {
  return H5T_NATIVE_INT64;
}
template <>
hid_t native_type<double>() {
  return H5T_NATIVE_DOUBLE;
}

/// A new file that data sets are added to.
class Writer {
 public:
  explicit Writer(const std::string& path)
      : path_(path),
        file_(check_hdf5(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "create",
                         path)) {}

  /// Writes `values`, stored as `stored`; chunked and compressed if `chunk` is given.
  template <class T>
  void add(const std::string& name, hid_t stored, std::vector<hsize_t> shape,
           const std::vector<T>& values, std::vector<hsize_t> chunk = {}) {
    const Hdf5Guard guard;
    const Hdf5Properties links(check_hdf5(H5Pcreate(H5P_LINK_CREATE), "properties", path_));
    check_hdf5(H5Pset_create_intermediate_group(links.native(), 1), "groups", path_);
    const Hdf5Properties creation(check_hdf5(H5Pcreate(H5P_DATASET_CREATE), "properties", path_));
    if (!chunk.empty()) {
      check_hdf5(H5Pset_chunk(creation.native(), static_cast<int>(chunk.size()), chunk.data()),
                 "chunk", path_);
      check_hdf5(H5Pset_deflate(creation.native(), 4), "deflate", path_);
    }
    const Hdf5Dataspace space(check_hdf5(
        shape.empty() ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
        "space", path_));
    const Hdf5Dataset dataset(
        check_hdf5(H5Dcreate2(file_.native(), name.c_str(), stored, space.native(), links.native(),
                              creation.native(), H5P_DEFAULT),
                   "create", name));
    if (values.empty()) return;
    check_hdf5(
        H5Dwrite(dataset.native(), native_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
        "write", name);
  }
  void close() { file_.close(path_); }
  [[nodiscard]] hid_t native() const { return file_.native(); }

 private:
  std::string path_;
  Hdf5File file_;
};

Hdf5Source open(const std::string& file, const std::string& dataset) {
  return Hdf5Source({{.name = "x", .location = {file, dataset}}});
}

}  // namespace

TEST_CASE("numbers that samples cannot hold are errors with their place, infinities are not") {
  const Folder folder("hdf5");
  const std::string path = folder / "data.h5";
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> real(5 * 3, 0.25);
  real[1] = -infinity;
  std::vector<double> large = real;
  large[2 * 3 + 2] = 1e300;
  {
    Writer writer(path);
    writer.add("real", H5T_IEEE_F64LE, {5, 3}, real);
    writer.add("large", H5T_IEEE_F64LE, {5, 3}, large, {2, 2});
    writer.add("big_endian", H5T_IEEE_F64BE, {5, 3}, large);
    // 2^63, of which a double is exact.
    writer.add("whole", H5T_STD_U64LE, {3}, std::vector<double>{1, 0x1p63, 2});
    writer.close();
  }
  CHECK(read_all<float>(open(path, "real"), 0) == std::vector<float>(real.begin(), real.end()));
  for (const std::string name : {"large", "big_endian"}) {
    const Hdf5Source source = open(path, name);
    const std::string expected =
        path + ":/" + name + ": element (2, 2) is 1e+300, which float32 cannot hold";
    CHECK_THROWS_WITH(read_all<float>(source, 0), expected);
    CHECK_THROWS_WITH(read_block<float>(source, 0, {2, 1}, {{1, 3}}), expected);
    CHECK(read_block<float>(source, 0, {3, 0}, {{0, 2}}) ==
          std::vector<float>{0.25f, 0.25f, 0.25f, -static_cast<float>(infinity)});
  }
  CHECK_THROWS_WITH(read_all<std::int64_t>(open(path, "whole"), 0),
                    path + ":/whole: element (1) is 9223372036854775808, which int64 cannot hold");
}

TEST_CASE("rows and columns equal those of the plain array") {
  const Folder folder("hdf5");
  const std::string path = folder / "data.h5";
  const auto values = counted<std::uint8_t>(40 * 6 * 5);
  {
    Writer writer(path);
    writer.add("plain", H5T_STD_U8LE, {40, 6, 5}, values);
    writer.add("group/packed", H5T_STD_U8LE, {40, 6, 5}, values, {7, 4, 3});
    writer.close();
  }
  const std::vector<std::vector<std::int64_t>> row_lists{
      {0},
      {5, 6, 7, 8},                  // one run
      {8, 7, 6, 5},                  // one run, backwards
      {5, 6, 20, 21, 22, 39},        // runs
      {22, 5, 39, 6, 20, 21},        // the same, mixed
      {3, 3, 3},                     // repeats
      {4, 3, 5, 3, 4, 4, 30, 30, 2}  // repeats inside runs
  };
  for (const char* name : {"/plain", "group/packed"}) {
    const Hdf5Source source = open(path, name);
    CHECK(source.rows() == 40);
    CHECK(source.field(0) == Field{.name = "x", .shape = {6, 5}, .type = ElementType::uint8});
    CHECK(read_all<std::uint8_t>(source, 0) == values);
    for (const auto& rows : row_lists) {
      for (const Block& block : {Block{{0, 6}, {0, 5}}, Block{{1, 4}, {0, 5}},
                                 Block{{0, 6}, {2, 3}}, Block{{5, 6}, {1, 5}}}) {
        REQUIRE(read_block<std::uint8_t>(source, 0, rows, block) ==
                picked(values, {6, 5}, rows, block));
      }
    }
    CHECK(read_block<std::uint8_t>(source, 0, {1}, {{2, 2}, {0, 5}}).empty());
    const auto remembered = cached(std::make_shared<Hdf5Source>(
        std::vector<Hdf5Field>{{.name = "x", .location = {path, name}}}));
    for (int pass = 0; pass < 2; ++pass) {
      CHECK(read_block<std::uint8_t>(*remembered, 0, row_lists.back(), {{1, 4}, {0, 2}}) ==
            picked(values, {6, 5}, row_lists.back(), {{1, 4}, {0, 2}}));
    }
  }
}

TEST_CASE("stored types become the element types they are read as") {
  const Folder folder("hdf5");
  const std::string path = folder / "types.h5";
  const std::vector<std::int64_t> values{0, 1, 100};
  Hdf5Datatype boolean(H5Tenum_create(H5T_NATIVE_INT8));
  const std::int8_t no = 0, yes = 1;
  REQUIRE(H5Tenum_insert(boolean.native(), "FALSE", &no) >= 0);
  REQUIRE(H5Tenum_insert(boolean.native(), "TRUE", &yes) >= 0);
  {
    Writer writer(path);
    writer.add("u8", H5T_STD_U8LE, {3}, values);
    writer.add("i8", H5T_STD_I8LE, {3}, values);
    writer.add("u16", H5T_STD_U16BE, {3}, values);
    writer.add("i32", H5T_STD_I32BE, {3}, values);
    writer.add("u32", H5T_STD_U32LE, {3}, values);
    writer.add("i64", H5T_STD_I64BE, {3}, values);
    writer.add("f32", H5T_IEEE_F32BE, {3}, std::vector<double>{0, 1, 100});
    writer.add("f64", H5T_IEEE_F64LE, {3}, std::vector<double>{0, 1, 100});
    const hsize_t count = 3;
    const Hdf5Dataspace space(H5Screate_simple(1, &count, nullptr));
    const Hdf5Dataset flags(H5Dcreate2(writer.native(), "flags", boolean.native(), space.native(),
                                       H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    const std::int8_t stored[]{1, 0, 1};
    REQUIRE(H5Dwrite(flags.native(), boolean.native(), H5S_ALL, H5S_ALL, H5P_DEFAULT, stored) >= 0);
    writer.close();
  }
  const auto check = [&]<class T>(const char* name, ElementType type, std::vector<T> expected) {
    INFO(name);
    const Hdf5Source source = open(path, name);
    CHECK(source.field(0).type == type);
    CHECK(read_all<T>(source, 0) == expected);
  };
  check("u8", ElementType::uint8, std::vector<std::uint8_t>{0, 1, 100});
  check("i8", ElementType::int32, std::vector<std::int32_t>{0, 1, 100});
  check("u16", ElementType::int32, std::vector<std::int32_t>{0, 1, 100});
  check("i32", ElementType::int32, std::vector<std::int32_t>{0, 1, 100});
  check("u32", ElementType::int64, std::vector<std::int64_t>{0, 1, 100});
  check("i64", ElementType::int64, std::vector<std::int64_t>{0, 1, 100});
  check("f32", ElementType::float32, std::vector<float>{0, 1, 100});
  check("f64", ElementType::float32, std::vector<float>{0, 1, 100});
  check("flags", ElementType::uint8, std::vector<std::uint8_t>{1, 0, 1});
}

TEST_CASE("fields may lie in different files and must be as long") {
  const Folder folder("hdf5");
  {
    Writer x(folder / "x.h5"), y(folder / "y.h5");
    x.add("x", H5T_IEEE_F32LE, {4, 2}, std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7});
    y.add("y", H5T_STD_I32LE, {4}, std::vector<std::int32_t>{3, 2, 1, 0});
    y.add("short", H5T_STD_I32LE, {3}, std::vector<std::int32_t>{3, 2, 1});
  }
  const auto fields = [&](const char* target) {
    return std::vector<Hdf5Field>{
        {.name = "x", .location = {folder / "x.h5", "x"}},
        {.name = "y", .location = {folder / "y.h5", target}, .role = FieldRole::target}};
  };
  const Hdf5Source source(fields("/y"));
  CHECK(read_block<std::int32_t>(source, 1, {3, 0}, {}) == std::vector<std::int32_t>{0, 3});
  CHECK(source.locate(1, 3) == folder / "y.h5:/y: sample 3");
  CHECK_THAT(source.fingerprint(), Catch::Contains("x float32 (2) from hdf5/x.h5:/x"));
  CHECK_THROWS_WITH(
      Hdf5Source(fields("short")),
      "hdf5/x.h5:/x holds 4 samples and hdf5/y.h5:/short holds 3; expected equal numbers");
}

TEST_CASE("a location is taken apart at its colon") {
  CHECK(parse_hdf5_location("a.h5:/x/y") == Hdf5Location{"a.h5", "/x/y"});
  CHECK(parse_hdf5_location("a.h5:x") == Hdf5Location{"a.h5", "x"});
  CHECK(parse_hdf5_location("/d/12:30.h5:/x:1") == Hdf5Location{"/d/12:30.h5", "/x:1"});
  CHECK(to_string(Hdf5Location{"a.h5", "x"}) == "a.h5:/x");
  for (const char* wrong : {"a.h5", ":x", "a.h5:", ""}) {
    CHECK_THROWS_WITH(parse_hdf5_location(wrong), Catch::Contains("expected FILE:/DATASET"));
  }
}

TEST_CASE("wrong files and data sets are errors that name them") {
  const Folder folder("hdf5");
  const std::string path = folder / "data.h5";
  {
    Writer writer(path);
    writer.add("train/images", H5T_STD_U8LE, {4, 2}, counted<std::uint8_t>(8));
    writer.add("train/labels", H5T_STD_U8LE, {4}, counted<std::uint8_t>(4));
    writer.add("scalar", H5T_STD_U8LE, {}, counted<std::uint8_t>(1));
    const Hdf5Datatype text(H5Tcopy(H5T_C_S1));
    writer.add("text", text.native(), {4}, std::vector<std::uint8_t>{});
    writer.close();
  }
  CHECK_THROWS_WITH(open(folder / "absent.h5", "x"), folder / "absent.h5: there is no such file");
  CHECK_THROWS_WITH(open("hdf5", "x"), Catch::Contains("is a directory"));
  write_file(folder / "text.h5", "this is no such file");
  CHECK_THROWS_WITH(open(folder / "text.h5", "x"), folder / "text.h5: is no HDF5 file");
  CHECK_THROWS_WITH(
      open(path, "/train/image"),
      path + ": there is no data set \"/train/image\"; did you mean \"/train/images\"?");
  CHECK_THROWS_WITH(open(path, "/features"),
                    Catch::Contains("no data set \"/features\"; the file has") &&
                        Catch::Contains("\"/train/labels\""));
  CHECK_THROWS_WITH(open(path, "train"), Catch::Contains("no data set \"/train\""));
  CHECK_THROWS_WITH(open(path, "scalar"),
                    Catch::Contains("hdf5/data.h5:/scalar: has no dimension"));
  CHECK_THROWS_WITH(open(path, "text"), Catch::Contains("its elements are strings"));
  const std::string bytes = file_bytes(path);
  write_file(path, bytes.substr(0, bytes.size() / 2));
  CHECK_THROWS_WITH(open(path, "train/images"), Catch::Contains(path + ": cannot be opened") &&
                                                    Catch::Contains("truncated file"));
}

TEST_CASE("data that lie outside of their file are refused") {
  const Folder folder("hdf5");
  const std::string path = folder / "data.h5", other = folder / "other.h5";
  {
    Writer writer(other);
    writer.add("x", H5T_STD_U8LE, {4, 2}, counted<std::uint8_t>(8));
    writer.close();
  }
  {
    const Hdf5Guard guard;
    Writer writer(path);
    const std::vector<hsize_t> shape{4, 2};
    const Hdf5Dataspace space(H5Screate_simple(2, shape.data(), nullptr));
    const Hdf5Properties external(H5Pcreate(H5P_DATASET_CREATE));
    REQUIRE(H5Pset_external(external.native(), other.c_str(), 0, 8) >= 0);
    REQUIRE(Hdf5Dataset(H5Dcreate2(writer.native(), "stored", H5T_STD_U8LE, space.native(),
                                   H5P_DEFAULT, external.native(), H5P_DEFAULT))
                .exists());
    REQUIRE(H5Lcreate_external("other.h5", "/x", writer.native(), "linked", H5P_DEFAULT,
                               H5P_DEFAULT) >= 0);
    const auto add_virtual = [&](const char* name, const std::string& source) {
      const Hdf5Properties creation(H5Pcreate(H5P_DATASET_CREATE));
      REQUIRE(H5Pset_virtual(creation.native(), space.native(), source.c_str(), "x",
                             space.native()) >= 0);
      REQUIRE(Hdf5Dataset(H5Dcreate2(writer.native(), name, H5T_STD_U8LE, space.native(),
                                     H5P_DEFAULT, creation.native(), H5P_DEFAULT))
                  .exists());
    };
    add_virtual("virtual", "other.h5");
    add_virtual("upwards", "../other.h5");
    add_virtual("absent", "nowhere.h5");
    add_virtual("pattern", "other%%.h5");
    add_virtual("itself", ".");
    writer.add("x", H5T_STD_U8LE, {4, 2}, counted<std::uint8_t>(8));
    writer.close();
  }
  CHECK_THROWS_WITH(open(path, "stored"), Catch::Contains("lie in external storage"));
  CHECK_THROWS_WITH(open(path, "linked"),
                    Catch::Contains("lies behind an external link, to other.h5:/x"));
  CHECK_THROWS_WITH(open(path, "virtual"), Catch::Contains("is a virtual dataset"));
  const auto open_virtual = [&](const std::string& name) {
    return Hdf5Source({{.name = "x", .location = {path, name}}}, {.virtual_sources = true});
  };
  for (const char* name : {"virtual", "itself"}) {
    CHECK(read_all<std::uint8_t>(open_virtual(name), 0) == counted<std::uint8_t>(8));
  }
  CHECK_THROWS_WITH(open_virtual("upwards"),
                    Catch::Contains("../other.h5, which is not in the file's folder or below"));
  CHECK_THROWS_WITH(open_virtual("absent"), Catch::Contains("nowhere.h5, which is not there"));
  CHECK_THROWS_WITH(open_virtual("pattern"), Catch::Contains("a pattern of names"));
  CHECK_THROWS_WITH(open_virtual("stored"), Catch::Contains("lie in external storage"));
}

TEST_CASE("data that declare what is not stored are refused unless they may be sparse") {
  const Folder folder("hdf5");
  const std::string path = folder / "data.h5";
  const hsize_t rows = hsize_t{1} << 33;
  {
    const Hdf5Guard guard;
    Writer writer(path);
    const hsize_t chunk = 1024;
    const Hdf5Properties creation(H5Pcreate(H5P_DATASET_CREATE));
    REQUIRE(H5Pset_chunk(creation.native(), 1, &chunk) >= 0);
    for (const auto& [name, count] : {std::pair("many", rows), std::pair("few", chunk)}) {
      const Hdf5Dataspace space(H5Screate_simple(1, &count, nullptr));
      REQUIRE(Hdf5Dataset(H5Dcreate2(writer.native(), name, H5T_STD_U8LE, space.native(),
                                     H5P_DEFAULT, creation.native(), H5P_DEFAULT))
                  .exists());
    }
    writer.close();
  }
  CHECK(open(path, "few").rows() == 1024);
  CHECK_THROWS_WITH(open(path, "many"),
                    Catch::Contains("declares 8589934592 bytes, of which 0 are stored"));
  const Hdf5Source sparse({{.name = "x", .location = {path, "many"}}}, {.sparse = true});
  CHECK(read_block<std::uint8_t>(sparse, 0, {0, 8'589'934'591}, {}) ==
        std::vector<std::uint8_t>{0, 0});
}

TEST_CASE("a filter that is not among those that are read is refused by name") {
  const Folder folder("hdf5");
  const std::string path = folder / "data.h5";
  {
    const Hdf5Guard guard;
    Writer writer(path);
    const hsize_t length = 16;
    const Hdf5Dataspace space(H5Screate_simple(1, &length, nullptr));
    for (const auto& [name, filter] : {std::pair("lzf", 32000), std::pair("zstd", 32015)}) {
      const Hdf5Properties creation(H5Pcreate(H5P_DATASET_CREATE));
      REQUIRE(H5Pset_chunk(creation.native(), 1, &length) >= 0);
      REQUIRE(H5Pset_filter(creation.native(), filter, H5Z_FLAG_OPTIONAL, 0, nullptr) >= 0);
      REQUIRE(Hdf5Dataset(H5Dcreate2(writer.native(), name, H5T_STD_U8LE, space.native(),
                                     H5P_DEFAULT, creation.native(), H5P_DEFAULT))
                  .exists());
    }
    const Hdf5Properties twice(H5Pcreate(H5P_DATASET_CREATE));
    REQUIRE(H5Pset_chunk(twice.native(), 1, &length) >= 0);
    for (int i = 0; i < 2; ++i) REQUIRE(H5Pset_deflate(twice.native(), 9) >= 0);
    REQUIRE(Hdf5Dataset(H5Dcreate2(writer.native(), "twice", H5T_STD_U8LE, space.native(),
                                   H5P_DEFAULT, twice.native(), H5P_DEFAULT))
                .exists());
    writer.close();
  }
  CHECK_THROWS_WITH(open(path, "twice"), Catch::Contains("the filter 1 (\"deflate\"), twice"));
  if (H5Zfilter_avail(32000) <= 0) {
    CHECK_THROWS_WITH(open(path, "lzf"), Catch::Contains("the filter 32000 (\"lzf\"), which this "
                                                         "HDF5 library does not have"));
  }
  CHECK_THROWS_WITH(open(path, "zstd"),
                    Catch::Contains("the filter 32015, which is not among those that are read"));
}

TEST_CASE("a pipe is refused and not waited for") {
  const Folder folder("hdf5");
  const std::string path = folder / "pipe.h5";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(open(path, "x"), Catch::Contains("is a pipe; a file of HDF5 data is expected"));
}

TEST_CASE("compressed data that is damaged is an error when it is read") {
  const Folder folder("hdf5");
  const std::string path = folder / "data.h5";
  const auto values = counted<std::uint8_t>(4000);
  {
    Writer writer(path);
    writer.add("x", H5T_STD_U8LE, {40, 100}, values, {10, 100});
    writer.close();
  }
  std::string bytes = file_bytes(path);
  const std::size_t chunk = bytes.find("\x78\x5e");  // how a zlib stream of this level begins
  REQUIRE(chunk != std::string::npos);
  for (std::size_t i = chunk + 20; i < chunk + 60; ++i) bytes[i] = static_cast<char>(~bytes[i]);
  write_file(path, bytes);
  const Hdf5Source source = open(path, "x");
  CHECK_THROWS_WITH(
      read_all<std::uint8_t>(source, 0),
      Catch::Contains(path + ":/x, elements from (0, 0) on: a chunk cannot be unpacked"));
}

TEST_CASE("a rank's block of volumes is read where all other blocks are damaged") {
  // Two volumes of 8 x 8 x 8 with two channels. Chunks are the blocks of 2 x 2 x 2 ranks.
  const Folder folder("hdf5");
  const std::string path = folder / "data.h5";
  const auto values = counted<std::uint8_t>(2 * 8 * 8 * 8 * 2);
  {
    Writer writer(path);
    writer.add("x", H5T_STD_U8LE, {2, 8, 8, 8, 2}, values, {1, 4, 4, 4, 2});
    writer.close();
  }
  const std::string whole = file_bytes(path);
  const auto first_of = [](std::int64_t rank, int dimension) { return rank >> dimension & 1; };
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    std::string damaged = whole;
    {
      const Hdf5Guard guard;
      const Hdf5File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
      const Hdf5Dataset dataset(H5Dopen2(file.native(), "x", H5P_DEFAULT));
      for (std::int64_t chunk = 0; chunk < 16; ++chunk) {
        if (chunk % 8 == rank) continue;
        std::array<hsize_t, 5> offset{static_cast<hsize_t>(chunk / 8)};
        for (int d = 0; d < 3; ++d) offset[d + 1] = static_cast<hsize_t>(4 * first_of(chunk, d));
        unsigned filters = 0;
        haddr_t address = 0;
        hsize_t bytes = 0;
        check_hdf5(
            H5Dget_chunk_info_by_coord(dataset.native(), offset.data(), &filters, &address, &bytes),
            "find a chunk of", path);
        std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(address), bytes, '\xff');
      }
    }
    const std::string copy = folder / fmt::format("rank{}.h5", rank);
    write_file(copy, damaged);
    const Hdf5Source source = open(copy, "x");
    Block block;
    for (int d = 0; d < 3; ++d) block.push_back({4 * first_of(rank, d), 4 * first_of(rank, d) + 4});
    block.push_back({0, 2});
    std::vector<std::uint8_t> found(2 * 4 * 4 * 4 * 2), expected;
    const std::array<std::int64_t, 2> samples{0, 1};
    source.read(0, samples, block, reinterpret_cast<std::byte*>(found.data()));
    for (std::int64_t i = 0; i < 2 * 8 * 8 * 8 * 2; ++i) {
      const std::array<std::int64_t, 3> at{i / 128 % 8, i / 16 % 8, i / 2 % 8};
      bool inside = true;
      for (int d = 0; d < 3; ++d) inside = inside && at[d] / 4 == first_of(rank, d);
      if (inside) expected.push_back(values[static_cast<std::size_t>(i)]);
    }
    CHECK(found == expected);
    CHECK_THROWS_WITH(read_all<std::uint8_t>(source, 0),
                      Catch::Contains("a chunk cannot be unpacked"));
  }
}

TEST_CASE("errors of HDF5 become exceptions and the library's printing is restored") {
  H5E_auto2_t before = nullptr, after = nullptr;
  void* data = nullptr;
  REQUIRE(H5Eget_auto2(H5E_DEFAULT, &before, &data) >= 0);
  REQUIRE(before != nullptr);
  {
    const Hdf5Guard outer;
    const Hdf5Guard inner;
    CHECK_THROWS_WITH(
        check_hdf5(H5Dopen2(-1, "x", H5P_DEFAULT), "cannot be opened", "a.h5:/x"),
        Catch::Contains("a.h5:/x: cannot be opened: ") && Catch::Contains("location"));
    CHECK(hdf5_error_text() == "HDF5 gave no reason");
  }
  REQUIRE(H5Eget_auto2(H5E_DEFAULT, &after, &data) >= 0);
  CHECK(after == before);
}

TEST_CASE("handles own, move and close") {
  const Folder folder("hdf5");
  Writer writer(folder / "data.h5");
  const hsize_t count = 3;
  hid_t raw = H5I_INVALID_HID;
  {
    Hdf5Dataspace first(H5Screate_simple(1, &count, nullptr));
    raw = first.native();
    Hdf5Dataspace second(std::move(first));
    CHECK(!first.exists());
    CHECK(second.native() == raw);
    CHECK(H5Iis_valid(raw) > 0);
    second = Hdf5Dataspace(H5Screate(H5S_SCALAR));
    CHECK(H5Iis_valid(raw) == 0);
    raw = second.native();
  }
  CHECK(H5Iis_valid(raw) == 0);
  Hdf5Dataspace closed(H5Screate(H5S_SCALAR));
  REQUIRE(H5Sclose(closed.native()) >= 0);
  CHECK_THROWS_WITH(closed.close("somebody else's"), Catch::Contains("somebody else's: cannot be"));
  closed.close("somebody else's");
}

TEST_CASE("several threads read at once") {
  const Folder folder("hdf5");
  const std::string path = folder / "data.h5";
  const auto values = counted<std::uint8_t>(4000);
  {
    Writer writer(path);
    writer.add("x", H5T_STD_U8LE, {40, 100}, values, {10, 10});
    writer.close();
  }
  const Hdf5Source shared = open(path, "x");
  std::vector<int> right(4, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t i = 0; i < 200; ++i) {
        const std::vector<std::int64_t> rows{(i * 7 + t) % 40, (i * 3) % 40};
        const Hdf5Source own = open(path, "x");
        right[t] += read_block<std::uint8_t>(i % 2 == 0 ? shared : own, 0, rows, {{t, 90}}) ==
                    picked(values, {100}, rows, {{t, 90}});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == std::vector<int>(4, 200));
}

}  // namespace meshwork::hdf5_test
