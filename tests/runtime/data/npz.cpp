// NPZ files against archives written here and by NumPy, and the errors for what is none.
#include "runtime/data/npz.h"

#include <sys/resource.h>
#include <zlib.h>

#include "tests/runtime/data/numpy.h"
#include "tests/support/catch.h"

namespace meshwork::npz_test {
namespace {

using namespace meshwork::test;

std::string little_endian(std::uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(i < 8 ? number >> (8 * i) : 0);
  return text;
}

struct Member {
  std::string name;
  std::string bytes;
  bool deflated = false;
};

std::string deflate_raw(const std::string& bytes) {
  std::string packed(bytes.size() + 100, '\0');
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// An archive of these members; what its directory claims of the first can be another size.
std::string zip_bytes(const std::vector<Member>& members, std::int64_t claimed = -1) {
  std::string archive, directory;
  for (const Member& member : members) {
    const std::string packed = member.deflated ? deflate_raw(member.bytes) : member.bytes;
    const auto checksum = crc32(0, reinterpret_cast<const Bytef*>(member.bytes.data()),
                                static_cast<uInt>(member.bytes.size()));
    const std::uint64_t bytes = claimed >= 0 && directory.empty()
                                    ? static_cast<std::uint64_t>(claimed)
                                    : member.bytes.size();
    const std::string both =
        little_endian(20, 2) + little_endian(0, 2) + little_endian(member.deflated ? 8 : 0, 2) +
        little_endian(0, 4) + little_endian(checksum, 4) + little_endian(packed.size(), 4) +
        little_endian(bytes, 4) + little_endian(member.name.size(), 2) + little_endian(0, 2);
    directory += "PK\1\2" + little_endian(20, 2) + both + little_endian(0, 2 + 2 + 2 + 4) +
                 little_endian(archive.size(), 4) + member.name;
    archive += "PK\3\4" + both + member.name + packed;
  }
  const std::uint64_t begin = archive.size();
  return archive + directory + "PK\5\6" + little_endian(0, 4) + little_endian(members.size(), 2) +
         little_endian(members.size(), 2) + little_endian(directory.size(), 4) +
         little_endian(begin, 4) + little_endian(0, 2);
}

// Numbers that do not shrink to nothing.
std::vector<float> noise(std::size_t count) {
  std::vector<float> values(count);
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8);
  }
  return values;
}

std::string array_bytes() {
  return npy_bytes(npy_header("<f4", "(20, 3)"), elements_of(noise(60)));
}

NpzSource open(const std::string& path, const std::string& array = "x") {
  return {path, {{.field = "x", .array = array}}};
}

// On opening or on reading.
std::string error_of(const std::string& path, const std::string& array = "x") {
  try {
    const NpzSource source = open(path, array);
    source.prepare(0);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("members that are stored and that are deflated are read") {
  const Folder folder("npz");
  write_file(
      folder / "data.npz",
      zip_bytes({{"x.npy", array_bytes()},
                 {"packed.npy", array_bytes(), true},
                 {"y.npy", npy_bytes(npy_header("|u1", "(20,)"), std::string(20, '\3')), true}}));
  for (const char* name : {"x", "packed"}) {
    const NpzSource source(folder / "data.npz",
                           {{.field = "input", .array = name},
                            {.field = "targets", .array = "y", .role = FieldRole::target}});
    CHECK(source.rows() == 20);
    CHECK(source.field(0) == Field{.name = "input", .shape = {3}, .type = ElementType::float32});
    CHECK(read_all<float>(source, 0) == noise(60));
    CHECK(read_block<float>(source, 0, {19, 2}, {{1, 3}}) ==
          picked(noise(60), {3}, {19, 2}, {{1, 3}}));
    CHECK(read_all<std::uint8_t>(source, 1) == std::vector<std::uint8_t>(20, 3));
    CHECK(source.locate(0, 4) == folder / "data.npz:" + name + ": sample 4");
    CHECK(source.files() == std::vector<std::filesystem::path>{folder / "data.npz"});
  }
}

TEST_CASE("what NumPy saves together is read as NumPy has it") {
  if (!has_numpy()) return;
  const Folder folder("npz");
  run_numpy(R"(
x = numpy.arange(6000, dtype="f8").reshape(50, 120) / 7
numpy.savez("npz/plain.npz", x=x, y=numpy.arange(50) % 3)
numpy.savez_compressed("npz/packed.npz", x=x, y=numpy.arange(50) % 3)
)");
  std::vector<float> expected(6000);
  for (std::size_t i = 0; i < 6000; ++i) {
    expected[i] = static_cast<float>(static_cast<double>(i) / 7);
  }
  for (const char* file : {"plain.npz", "packed.npz"}) {
    const NpzSource source(
        folder / file,
        {{.field = "x", .array = "x"}, {.field = "y", .array = "y", .role = FieldRole::target}});
    CHECK(read_all<float>(source, 0) == expected);
    CHECK(read_block<std::int64_t>(source, 1, {0, 49}, {}) == std::vector<std::int64_t>{0, 1});
    CHECK_THAT(source.fingerprint(),
               Catch::StartsWith(fmt::format("npz; x float32 (120) from npz/{}:x (", file)));
  }
}

TEST_CASE("archives with 64-bit sizes are read") {
  if (!has_numpy()) return;
  const Folder folder("npz");
  // Which begin at 4 GiB: here the limit is lowered, as Python's own tests do.
  run_numpy(R"(
import zipfile
zipfile.ZIP64_LIMIT = 100
zipfile.ZIP_FILECOUNT_LIMIT = 0
numpy.savez("npz/wide.npz", x=numpy.arange(300, dtype="i4").reshape(100, 3), y=numpy.zeros(100))
)");
  CHECK(file_bytes(folder / "wide.npz").find("PK\6\6") != std::string::npos);
  const auto values = read_all<std::int32_t>(open(folder / "wide.npz"), 0);
  CHECK(values.size() == 300);
  CHECK(values[299] == 299);
}

TEST_CASE("an array that is not there is told which there are") {
  const Folder folder("npz");
  write_file(folder / "data.npz", zip_bytes({{"images.npy", array_bytes()}}));
  CHECK_THAT(error_of(folder / "data.npz", "image"),
             Catch::StartsWith(folder / "data.npz: there is no member \"image.npy\"") &&
                 Catch::Contains("images.npy"));
  write_file(folder / "data.npz", zip_bytes({{"x.npy", array_bytes()}, {"x.npy", array_bytes()}}));
  CHECK_THAT(error_of(folder / "data.npz"), Catch::Contains("two members"));
  write_file(folder / "data.npz", zip_bytes({{"x.npy", "text"}}));
  CHECK_THAT(error_of(folder / "data.npz"), Catch::Contains("data.npz:x: the header is truncated"));
}

TEST_CASE("what is no archive is an error") {
  const Folder folder("npz");
  CHECK(error_of(folder / "absent.npz") == folder / "absent.npz: there is no such file");
  CHECK(error_of("npz") == "npz: is a directory; an npz file is expected");
  write_file(folder / "x.npz", "");
  CHECK(error_of(folder / "x.npz") == folder / "x.npz: no ZIP archive; an npz file is expected");
  write_file(folder / "x.npz", array_bytes());
  CHECK(error_of(folder / "x.npz") == folder / "x.npz: no ZIP archive; an npz file is expected");
}

TEST_CASE("an archive truncated anywhere is an error") {
  const Folder folder("npz");
  const std::string whole = zip_bytes({{"x.npy", array_bytes(), true}});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file(folder / "x.npz", whole.substr(0, length));
    INFO("length " << length);
    REQUIRE_THAT(error_of(folder / "x.npz"), Catch::StartsWith(folder / "x.npz: "));
  }
}

TEST_CASE("a byte changed anywhere in an array is an error") {
  const Folder folder("npz");
  for (const bool deflated : {false, true}) {
    const std::string whole = zip_bytes({{"x.npy", array_bytes(), deflated}});
    const std::size_t begin = 30 + 5;  // behind the local header and the name
    const std::size_t end = whole.find("PK\1\2");
    for (std::size_t at = begin; at < end; ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
      write_file(folder / "x.npz", damaged);
      INFO("byte " << at << " of " << whole.size() << ", deflated " << deflated);
      const std::string error = error_of(folder / "x.npz");
      if (error == "no error") {
        // A deflated block has bits that only fill its first and its last byte.
        REQUIRE(deflated);
        REQUIRE((at == begin || at + 1 == end));
        REQUIRE(read_all<float>(open(folder / "x.npz"), 0) == noise(60));
      } else {
        REQUIRE_THAT(error, Catch::StartsWith(folder / "x.npz"));
      }
    }
  }
}

TEST_CASE("sizes that an archive claims and does not have are errors, not memory") {
  const Folder folder("npz");
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  const std::string header = npy_header("<f4", "(250000000,)");
  const std::int64_t claimed =
      static_cast<std::int64_t>(npy_bytes(header, "").size()) + 1'000'000'000;
  write_file(folder / "x.npz", zip_bytes({{"x.npy", npy_bytes(header, ""), true}}, claimed));
  CHECK_THAT(error_of(folder / "x.npz"), Catch::Contains("the archive is damaged: the size of "
                                                         "\"x.npy\" is 1000000"));
  // As much as deflate could pack, and less than the array needs.
  write_file(folder / "x.npz", zip_bytes({{"x.npy", npy_bytes(header, ""), true}}, 9000));
  CHECK_THAT(error_of(folder / "x.npz"), Catch::Contains("truncated: shape (250000000)"));
  write_file(folder / "x.npz", zip_bytes({{"x.npy", array_bytes(), true}}, 20 * 3 * 4));
  CHECK_THAT(error_of(folder / "x.npz"), Catch::Contains("truncated: shape (20, 3)"));
  ::getrusage(RUSAGE_SELF, &after);
  CHECK(after.ru_maxrss - before.ru_maxrss < 16 << 10);
}

TEST_CASE("encrypted members and other methods are refused by name") {
  const Folder folder("npz");
  std::string bytes = zip_bytes({{"x.npy", array_bytes()}});
  const std::size_t entry = bytes.find("PK\1\2");
  std::string changed = bytes;
  changed[entry + 8] = 1;
  write_file(folder / "x.npz", changed);
  CHECK_THAT(error_of(folder / "x.npz"), Catch::Contains("\"x.npy\" is encrypted"));
  changed = bytes;
  changed[entry + 10] = 14;
  write_file(folder / "x.npz", changed);
  CHECK_THAT(error_of(folder / "x.npz"), Catch::Contains("packed by method 14"));
}

}  // namespace meshwork::npz_test
