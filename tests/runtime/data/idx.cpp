// IDX files against bytes written here, and the errors for every kind of damage.
#include "runtime/data/idx.h"

#include "tests/runtime/data/support.h"
#include "tests/support/catch.h"

#include <bit>

namespace meshwork::idx_test {

using namespace meshwork::test;

namespace {

template <class T>
std::string big_endian(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  if constexpr (std::endian::native == std::endian::little) {
    bytes = std::string(bytes.rbegin(), bytes.rend());
  }
  return bytes;
}

template <class T>
std::string idx_bytes(int code, const std::vector<std::uint32_t>& shape,
                      const std::vector<T>& values) {
  std::string bytes{'\0', '\0', static_cast<char>(code), static_cast<char>(shape.size())};
  for (const std::uint32_t length : shape) bytes += big_endian(length);
  for (const T value : values) bytes += big_endian(value);
  return bytes;
}

IdxSource open(const std::string& path) {
  return IdxSource({{.field = "x", .path = path}});
}

/// What goes wrong with the file, on opening or on reading.
std::string error_of(const std::string& path) {
  try {
    const IdxSource source = open(path);
    source.prepare(0);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string images_bytes() {
  return idx_bytes<std::uint8_t>(0x08, {30, 4, 5}, counted<std::uint8_t>(600));
}

/// Noise, which does not compress, so that a gzip file can be damaged at many places.
std::string noise_bytes() {
  std::vector<std::uint8_t> noise(20000);
  std::uint32_t state = 1;
  for (std::uint8_t& value : noise) value = (state = state * 1664525u + 1013904223u) >> 24;
  return idx_bytes<std::uint8_t>(0x08, {200, 100}, noise);
}

}  // namespace

TEST_CASE("plain and gzipped files give the same samples") {
  const Folder folder("idx");
  write_file(folder / "plain", images_bytes());
  write_gzip(folder / "packed.gz", images_bytes());
  for (const char* name : {"plain", "packed.gz"}) {
    const IdxSource source = open(folder / name);
    CHECK(source.rows() == 30);
    CHECK(source.field(0) == Field{.name = "x", .shape = {4, 5}, .type = ElementType::uint8});
    CHECK(read_all<std::uint8_t>(source, 0) == counted<std::uint8_t>(600));
    CHECK(read_block<std::uint8_t>(source, 0, {29, 3, 4, 3}, {{1, 3}, {2, 5}}) ==
          picked(counted<std::uint8_t>(600), {4, 5}, {29, 3, 4, 3}, {{1, 3}, {2, 5}}));
  }
}

TEST_CASE("every element type is converted from big-endian") {
  const Folder folder("idx");
  const std::string path = folder / "values";
  const auto check = [&](auto stored, auto expected, int code, ElementType type) {
    using Value = typename decltype(expected)::value_type;
    const auto count = static_cast<std::uint32_t>(stored.size());
    const std::string bytes = idx_bytes(code, {count}, stored);
    for (const bool packed : {false, true}) {
      packed ? write_gzip(path, bytes) : write_file(path, bytes);
      const IdxSource source = open(path);
      CHECK(source.field(0).type == type);
      CHECK(source.field(0).shape.empty());
      CHECK(read_all<Value>(source, 0) == expected);
    }
  };
  check(std::vector<std::uint8_t>{0, 1, 255}, std::vector<std::uint8_t>{0, 1, 255}, 0x08,
        ElementType::uint8);
  check(std::vector<std::int8_t>{0, 1, -1, -128}, std::vector<std::int32_t>{0, 1, -1, -128}, 0x09,
        ElementType::int32);
  check(std::vector<std::int16_t>{0, 258, -2, -32768},
        std::vector<std::int32_t>{0, 258, -2, -32768}, 0x0B, ElementType::int32);
  check(std::vector<std::int32_t>{0, 16909060, -2}, std::vector<std::int32_t>{0, 16909060, -2},
        0x0C, ElementType::int32);
  check(std::vector<float>{0, 1.5f, -3e30f}, std::vector<float>{0, 1.5f, -3e30f}, 0x0D,
        ElementType::float32);
  check(std::vector<double>{0, 1.5, -3e300}, std::vector<double>{0, 1.5, -3e300}, 0x0E,
        ElementType::float64);
}

TEST_CASE("images and labels make one source") {
  const Folder folder("idx");
  write_file(folder / "images", images_bytes());
  write_file(folder / "labels", idx_bytes<std::uint8_t>(0x08, {30}, counted<std::uint8_t>(30)));
  const IdxSource source(
      {{.field = "images", .path = folder / "images"},
       {.field = "labels", .path = folder / "labels", .role = FieldRole::target}});
  CHECK(source.feature_count() == 1);
  CHECK(source.target_count() == 1);
  CHECK(read_block<std::uint8_t>(source, 1, {29, 2}, {}) == std::vector<std::uint8_t>{29, 2});
  CHECK(source.locate(1, 2) == folder / "labels" + ": sample 2");
  CHECK_THAT(source.fingerprint(), Catch::Contains("images uint8 (4, 5) from") &&
                                       Catch::Contains("616 bytes, 30 samples"));

  write_file(folder / "fewer", idx_bytes<std::uint8_t>(0x08, {29}, counted<std::uint8_t>(29)));
  CHECK_THROWS_WITH(
      IdxSource({{.field = "images", .path = folder / "images"},
                 {.field = "labels", .path = folder / "fewer", .role = FieldRole::target}}),
      folder / "images" + " holds 30 samples and " + (folder / "fewer") +
          " holds 29; expected equal numbers");
}

TEST_CASE("a file without samples is legal") {
  const Folder folder("idx");
  write_gzip(folder / "none", idx_bytes<std::uint8_t>(0x08, {0, 4}, {}));
  const IdxSource source = open(folder / "none");
  CHECK(source.rows() == 0);
  source.prepare(0);
}

TEST_CASE("a file that is not there or not a file is an error") {
  const Folder folder("idx");
  CHECK(error_of(folder / "absent") == folder / "absent: there is no such file");
  CHECK(error_of("idx") == "idx: is a directory; an IDX file is expected");
  CHECK_THROWS_WITH(IdxSource(std::vector<IdxFile>{}), Catch::Contains("no files"));
}

TEST_CASE("a plain file of any wrong length is an error on opening") {
  const Folder folder("idx");
  const std::string path = folder / "file", bytes = images_bytes();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    write_file(path, bytes.substr(0, length));
    INFO("length " << length);
    REQUIRE_THROWS_WITH(open(path), Catch::Contains("truncated") && Catch::Contains(path));
  }
  write_file(path, bytes.substr(0, 615));
  CHECK(error_of(path) ==
        path +
            ": truncated: shape (30, 4, 5) of uint8 takes 616 bytes with the header, the file has "
            "615");
  write_file(path, bytes.substr(0, 15));
  CHECK(error_of(path) ==
        path + ": the header is truncated: 16 bytes expected for 3 dimensions, 15 found");
  write_file(path, bytes + "x");
  CHECK(error_of(path) == path +
                              ": longer than its header says: shape (30, 4, 5) of uint8 takes 616 "
                              "bytes with the header, the file has 617");
}

TEST_CASE("a wrong magic number is an error that shows it") {
  const Folder folder("idx");
  const std::string path = folder / "file";
  for (const auto& [place, value] :
       std::vector<std::pair<int, char>>{{0, 1}, {1, 1}, {2, 0x0A}, {2, 0x07}, {2, 0}, {3, 0}}) {
    std::string bytes = images_bytes();
    bytes[place] = value;
    for (const bool packed : {false, true}) {
      packed ? write_gzip(path, bytes) : write_file(path, bytes);
      CHECK_THAT(error_of(path), Catch::Contains("not an IDX file: it begins with the bytes"));
    }
  }
  write_file(path, "<html>");
  CHECK_THAT(error_of(path), Catch::Contains("bytes 3c68746d;"));
}

TEST_CASE("a header that claims more than there can be is an error, not an allocation") {
  const Folder folder("idx");
  const std::string path = folder / "file";
  const std::uint32_t most = 0xFFFFFFFF;
  write_gzip(path, idx_bytes<std::uint8_t>(0x08, {most, most, most}, {1}));
  CHECK_THAT(error_of(path), Catch::Contains("more than any memory"));
  write_gzip(path, idx_bytes<std::uint8_t>(0x08, {most, 1000}, {1}));
  CHECK_THAT(error_of(path), Catch::Contains("more than a gzip file of"));
  write_file(path, idx_bytes<std::uint8_t>(0x08, {most, 1000}, {1}));
  CHECK_THAT(error_of(path), Catch::Contains("truncated: shape (4294967295, 1000)"));
}

TEST_CASE("a gzip stream truncated anywhere is an error") {
  const Folder folder("idx");
  const std::string path = folder / "file";
  write_gzip(path, noise_bytes());
  const std::string bytes = file_bytes(path);
  for (std::size_t length = 0; length < bytes.size(); length += length < 40 ? 1 : 997) {
    write_file(path, bytes.substr(0, length));
    INFO("length " << length << " of " << bytes.size());
    REQUIRE_THAT(error_of(path),
                 Catch::Contains("truncated") || Catch::Contains("not an IDX file"));
  }
  for (std::size_t missing = 1; missing < 10; ++missing) {  // the checksum and length at the end
    write_file(path, bytes.substr(0, bytes.size() - missing));
    REQUIRE_THAT(error_of(path), Catch::Contains("truncated") && Catch::Contains(path));
  }
}

TEST_CASE("a byte changed anywhere in the compressed data is an error or changes nothing") {
  const Folder folder("idx");
  const std::string path = folder / "file";
  write_gzip(path, noise_bytes());
  const std::string bytes = file_bytes(path);
  const auto expected = read_all<std::uint8_t>(open(path), 0);
  int harmless = 0;
  // Behind the 10 bytes of gzip header, of which some (time, system) mean nothing to the content.
  for (std::size_t place = 10; place < bytes.size(); place += place < 40 ? 1 : 499) {
    std::string damaged = bytes;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x10);
    write_file(path, damaged);
    INFO("byte " << place << " of " << bytes.size());
    const std::string error = error_of(path);
    if (error == "no error") {
      ++harmless;
      REQUIRE(read_all<std::uint8_t>(open(path), 0) == expected);
    } else {
      REQUIRE_THAT(error, Catch::StartsWith(path + ": "));
    }
  }
  // A block that is stored as it is has five bits of padding in its first byte.
  CHECK(harmless <= 2);
  std::string damaged = bytes;
  damaged[damaged.size() - 6] ^= 1;  // in the checksum
  write_file(path, damaged);
  CHECK_THAT(error_of(path),
             Catch::StartsWith(path + ": the gzip stream is damaged before byte ") &&
                 Catch::EndsWith(fmt::format("of {}: incorrect data check", bytes.size())));
}

TEST_CASE("a gzip stream of the wrong length is an error on reading") {
  const Folder folder("idx");
  const std::string path = folder / "file", bytes = images_bytes();
  write_gzip(path, bytes.substr(0, 600));
  CHECK(error_of(path) == path +
                              ": truncated: shape (30, 4, 5) of uint8 takes 600 bytes after the "
                              "header, 584 were found");
  write_gzip(path, bytes + "x");
  CHECK(error_of(path) == path +
                              ": longer than its header says: shape (30, 4, 5) of uint8 takes 600 "
                              "bytes after the header, more were found");
}

TEST_CASE("an error of preparing is thrown again, and a file that changes is noticed") {
  const Folder folder("idx");
  const std::string path = folder / "file";
  write_gzip(path, images_bytes().substr(0, 600));
  const IdxSource source = open(path);
  CHECK_THROWS_WITH(source.prepare(0), Catch::Contains("truncated"));
  CHECK_THROWS_WITH(source.prepare(0), Catch::Contains("truncated"));
  write_gzip(path, noise_bytes());
  CHECK_THROWS_WITH(source.prepare(0), Catch::Contains("has changed since it was opened"));
}

TEST_CASE("Fashion-MNIST has its known sizes and first label") {
  const std::filesystem::path folder = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(folder)) {
    WARN("SKIPPED: Debian's package dataset-fashion-mnist is not installed");
    return;
  }
  const IdxSource source({{.field = "images", .path = folder / "train-images-idx3-ubyte.gz"},
                          {.field = "labels",
                           .path = folder / "train-labels-idx1-ubyte.gz",
                           .role = FieldRole::target}});
  CHECK(source.rows() == 60000);
  CHECK(source.field(0).shape == Shape{28, 28});
  CHECK(source.field(1).shape.empty());
  std::vector<int> counts(10, 0);
  const auto labels = read_all<std::uint8_t>(source, 1);
  CHECK(labels[0] == 9);
  for (const std::uint8_t label : labels) ++counts.at(label);
  CHECK(counts == std::vector<int>(10, 6000));
  const auto images = read_all<std::uint8_t>(source, 0);
  double sum = 0;
  for (const std::uint8_t pixel : images) sum += pixel;
  // The mean that is published with the data set, 0.2860.
  CHECK(sum / static_cast<double>(images.size()) / 255 == Approx(0.2860).epsilon(1e-3));
}

}  // namespace meshwork::idx_test
