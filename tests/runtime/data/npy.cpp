// NPY files against bytes written here and by NumPy, and the errors for what is none.
#include "runtime/data/npy.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/runtime/data/numpy.h"
#include "tests/support/catch.h"

namespace meshwork::npy_test {
namespace {

using namespace meshwork::test;

NpySource open(const std::string& path) {
  return NpySource({{.field = "x", .path = path}});
}

std::string error_of(const std::string& path) {
  try {
    (void)open(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// What is said of a file with this header and the elements of `bytes`.
std::string error_of_header(const Folder& folder, const std::string& header,
                            const std::string& elements = "", int major = 1) {
  write_file(folder / "x.npy", npy_bytes(header, elements, major));
  const std::string error = error_of(folder / "x.npy");
  CHECK_THAT(error, Catch::StartsWith(folder / "x.npy: "));
  CHECK(error.find('\n') == std::string::npos);
  return error;
}

template <class Stored, class Value>
void check_type(const Folder& folder, const std::string& descr, const std::vector<Stored>& stored,
                ElementType type, const std::vector<Value>& expected) {
  INFO(descr);
  write_file(folder / "x.npy", npy_bytes(npy_header(descr, fmt::format("({},)", stored.size())),
                                         elements_of(stored)));
  const NpySource source = open(folder / "x.npy");
  REQUIRE(source.field(0) == Field{.name = "x", .shape = {}, .type = type});
  CHECK(read_all<Value>(source, 0) == expected);
}

}  // namespace

TEST_CASE("an npy file gives its rows and blocks of them") {
  const Folder folder("npy");
  const auto values = counted<float>(30 * 4 * 5);
  for (const int major : {1, 2, 3}) {
    write_file(folder / "x.npy",
               npy_bytes(npy_header("<f4", "(30, 4, 5)"), elements_of(values), major));
    const NpySource source = open(folder / "x.npy");
    CHECK(source.rows() == 30);
    CHECK(source.field(0) == Field{.name = "x", .shape = {4, 5}, .type = ElementType::float32});
    CHECK(read_all<float>(source, 0) == values);
    CHECK(read_block<float>(source, 0, {29, 3, 4, 3}, {{1, 3}, {2, 5}}) ==
          picked(values, {4, 5}, {29, 3, 4, 3}, {{1, 3}, {2, 5}}));
    CHECK(source.locate(0, 7) == folder / "x.npy: sample 7");
  }
}

TEST_CASE("elements of an npy file become those that samples have") {
  const Folder folder("npy");
  check_type<std::uint8_t, std::uint8_t>(folder, "|b1", {0, 1}, ElementType::uint8, {0, 1});
  check_type<std::uint8_t, std::uint8_t>(folder, "|u1", {0, 255}, ElementType::uint8, {0, 255});
  check_type<std::int8_t, std::int32_t>(folder, "|i1", {1, -128}, ElementType::int32, {1, -128});
  check_type<std::uint16_t, std::int32_t>(folder, "<u2", {1, 65535}, ElementType::int32,
                                          {1, 65535});
  check_type<std::int16_t, std::int32_t>(folder, "<i2", {258, -32768}, ElementType::int32,
                                         {258, -32768});
  check_type<std::int32_t, std::int32_t>(folder, "<i4", {16909060, -2}, ElementType::int32,
                                         {16909060, -2});
  check_type<std::uint32_t, std::int64_t>(folder, "<u4", {1, 4294967295}, ElementType::int64,
                                          {1, 4294967295});
  check_type<std::int64_t, std::int64_t>(folder, "<i8", {-1, std::int64_t{1} << 40},
                                         ElementType::int64, {-1, std::int64_t{1} << 40});
  // One, -2, the largest, the smallest, infinity (IEEE 754, table 3.5).
  check_type<std::uint16_t, float>(
      folder, "<f2", {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x8000, 0x7C00}, ElementType::float32,
      {1, -2, 65504, 0x1p-24f, -0.0f, std::numeric_limits<float>::infinity()});
  check_type<float, float>(folder, "<f4", {1.5f, -3e30f}, ElementType::float32, {1.5f, -3e30f});
  check_type<double, float>(folder, "<f8", {1.5, 0.1}, ElementType::float32, {1.5f, 0.1f});
}

TEST_CASE("blocks of converted elements are those of all") {
  const Folder folder("npy");
  write_file(folder / "x.npy",
             npy_bytes(npy_header("<f8", "(6, 3, 4)"), elements_of(counted<double>(6 * 3 * 4))));
  const NpySource source = open(folder / "x.npy");
  CHECK(read_block<float>(source, 0, {5, 0}, {{1, 2}, {0, 4}}) ==
        picked(counted<float>(72), {3, 4}, {5, 0}, {{1, 2}, {0, 4}}));
  CHECK(read_block<float>(source, 0, {5, 0}, {{0, 3}, {3, 4}}) ==
        picked(counted<float>(72), {3, 4}, {5, 0}, {{0, 3}, {3, 4}}));
}

TEST_CASE("a finite number that float32 cannot hold is an error with its place") {
  const Folder folder("npy");
  std::vector<double> values(4 * 2 * 3, 0.5);
  values[2] = std::numeric_limits<double>::infinity();
  values[3 * 6 + 1 * 3 + 2] = -1e300;
  write_file(folder / "x.npy", npy_bytes(npy_header("<f8", "(4, 2, 3)"), elements_of(values)));
  const NpySource source = open(folder / "x.npy");
  CHECK(read_block<float>(source, 0, {0, 1}, {{0, 1}, {2, 3}}) ==
        std::vector<float>{std::numeric_limits<float>::infinity(), 0.5f});
  CHECK(read_block<float>(source, 0, {3}, {{0, 2}, {0, 2}}).size() == 4);
  const std::string expected =
      folder / "x.npy: sample 3: element (1, 2) is -1e+300, which float32 cannot hold";
  CHECK_THROWS_WITH(read_all<float>(source, 0), expected);
  CHECK_THROWS_WITH(read_block<float>(source, 0, {1, 3}, {{1, 2}, {1, 3}}), expected);
}

TEST_CASE("what NumPy saves is read as NumPy has it") {
  if (!has_numpy()) return;
  const Folder folder("npy");
  run_numpy(R"(
numpy.save("npy/x.npy", numpy.arange(60, dtype="f8").reshape(5, 3, 4) / 7)
numpy.save("npy/half.npy", numpy.array([1 / 3, 1e-7, 60000, -0.5], dtype="f2"))
numpy.save("npy/y.npy", numpy.array([3, 1, 4, 1, 5]))
numpy.save("npy/columns.npy", numpy.asfortranarray(numpy.ones((3, 2))))
numpy.save("npy/objects.npy", numpy.array([{}, 1], dtype=object))
numpy.save("npy/words.npy", numpy.array(["a", "bc"]))
numpy.save("npy/big.npy", numpy.ones(3, dtype=">f4"))
numpy.save("npy/compound.npy", numpy.zeros(3, dtype=[("a", "f4"), ("b", "i4")]))
with open("npy/second.npy", "wb") as file:
    numpy.lib.format.write_array(file, numpy.ones((2, 2), "f4"), version=(2, 0))
)");
  const NpySource source({{.field = "x", .path = folder / "x.npy"},
                          {.field = "y", .path = folder / "y.npy", .role = FieldRole::target}});
  std::vector<float> expected(60);
  for (int i = 0; i < 60; ++i) expected[static_cast<std::size_t>(i)] = static_cast<float>(i / 7.0);
  CHECK(read_all<float>(source, 0) == expected);
  CHECK(read_all<std::int64_t>(source, 1) == std::vector<std::int64_t>{3, 1, 4, 1, 5});
  CHECK(source.target_count() == 1);
  CHECK_THAT(source.fingerprint(), Catch::StartsWith("npy; x float32 (3, 4) from npy/x.npy (") &&
                                       Catch::Contains("; y int64 () from npy/y.npy ("));
  // NumPy's own values of the nearest numbers with 11 bits.
  CHECK(read_all<float>(open(folder / "half.npy"), 0) ==
        std::vector<float>{0.333251953125f, 2 * 0x1p-24f, 60000, -0.5f});
  CHECK(read_all<float>(open(folder / "second.npy"), 0) == std::vector<float>(4, 1.0f));
  CHECK_THAT(error_of(folder / "columns.npy"), Catch::Contains("numpy.ascontiguousarray(array)"));
  CHECK_THAT(error_of(folder / "objects.npy"), Catch::Contains("Python objects"));
  CHECK_THAT(error_of(folder / "words.npy"),
             Catch::Contains("\"<U2\"") && Catch::Contains("strings"));
  CHECK_THAT(error_of(folder / "big.npy"), Catch::Contains("big-endian"));
  CHECK_THAT(error_of(folder / "compound.npy"), Catch::Contains("compound"));
}

TEST_CASE("npy files that differ in their number of samples are an error") {
  const Folder folder("npy");
  write_file(folder / "x.npy", npy_bytes(npy_header("|u1", "(3, 2)"), "abcdef"));
  write_file(folder / "y.npy", npy_bytes(npy_header("|u1", "(2,)"), "ab"));
  CHECK_THROWS_WITH(NpySource({{.field = "x", .path = folder / "x.npy"},
                               {.field = "y", .path = folder / "y.npy"}}),
                    folder / "x.npy holds 3 samples and " + (folder / "y.npy") +
                        " holds 2; expected equal numbers");
  write_file(folder / "one.npy", npy_bytes(npy_header("|u1", "()"), "a"));
  CHECK_THAT(error_of(folder / "one.npy"), Catch::Contains("has no dimension"));
}

TEST_CASE("a file without samples is read") {
  const Folder folder("npy");
  write_file(folder / "x.npy", npy_bytes(npy_header("<f4", "(0, 9223372036854775807)"), ""));
  CHECK(open(folder / "x.npy").rows() == 0);
}

TEST_CASE("an npy file of any wrong length is an error on opening") {
  const Folder folder("npy");
  const std::string whole = npy_bytes(npy_header("<f4", "(3, 2)"), elements_of(counted<float>(6)));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file(folder / "x.npy", whole.substr(0, length));
    INFO("length " << length);
    REQUIRE_THAT(error_of(folder / "x.npy"), Catch::Contains("truncated"));
  }
  write_file(folder / "x.npy", whole + "x");
  CHECK_THAT(error_of(folder / "x.npy"), Catch::Contains("longer than its header says: shape "
                                                         "(3, 2) of <f4 takes"));
}

TEST_CASE("what is no npy file is an error that says what it is") {
  const Folder folder("npy");
  CHECK(error_of(folder / "absent.npy") == folder / "absent.npy: there is no such file");
  CHECK(error_of("npy") == "npy: is a directory; an npy file is expected");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(error_of(folder / "pipe") == folder / "pipe: is a pipe; an npy file is expected");
  write_file(folder / "x.npy", "<html><body>");
  CHECK_THAT(error_of(folder / "x.npy"), Catch::Contains("no array of NumPy: it begins with the "
                                                         "bytes 3c68746d6c3e"));
  CHECK_THROWS_WITH(NpySource(std::vector<NpyFile>{}), Catch::Contains("no files"));
}

TEST_CASE("a header that is not as NumPy writes it is an error") {
  const Folder folder("npy");
  const std::string rest = "'fortran_order': False, 'shape': (1,), }";
  CHECK_THAT(error_of_header(folder, ""), Catch::Contains("'{' is expected, at byte 0"));
  CHECK_THAT(error_of_header(folder, "{" + rest), Catch::Contains("'descr'"));
  CHECK_THAT(error_of_header(folder, "{'descr': '<f4', 'descr': '<f4', " + rest),
             Catch::Contains("\"descr\" is unknown or there twice"));
  CHECK_THAT(error_of_header(folder, "{'descr': __import__('os'), " + rest),
             Catch::Contains("a string is expected"));
  CHECK_THAT(error_of_header(folder, npy_header("<f4", "(1,)") + "x"),
             Catch::Contains("something follows"));
  for (const char* shape :
       {"(1,", "(-1,)", "(1.5,)", "(a,)", "(99999999999999999999,)", "1", "[1]"}) {
    CHECK_THAT(error_of_header(folder, npy_header("<f4", shape)), Catch::Contains("damaged"));
  }
  CHECK_THAT(error_of_header(folder, "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }"),
             Catch::Contains("True or False"));
  for (const char* descr : {"<u8", "<c8", "<M8[s]", "|S3", "|V8", "<f16", "?", ""}) {
    CHECK_THAT(error_of_header(folder, npy_header(descr, "(1,)")),
               Catch::Contains(fmt::format("its elements, \"{}\", are ", descr)));
  }
  CHECK_THAT(error_of_header(folder, npy_header("<f4", "(1,)"), "1234", 4),
             Catch::Contains("version 4.0"));
}

TEST_CASE("a header that claims more than there is costs no memory") {
  const Folder folder("npy");
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  CHECK_THAT(error_of_header(folder, npy_header("<f4", "(4611686018427387904, 4)")),
             Catch::Contains("more than any memory"));
  CHECK_THAT(error_of_header(folder, npy_header("<f4", "(100000000000,)")),
             Catch::Contains("truncated: shape (100000000000) of <f4 takes 4000000"));
  write_file(folder / "x.npy", std::string("\x93NUMPY\2\0\xff\xff\xff\x7f{", 13));
  CHECK_THAT(error_of(folder / "x.npy"), Catch::Contains("claims 2147483647 bytes of text"));
  ::getrusage(RUSAGE_SELF, &after);
  CHECK(after.ru_maxrss - before.ru_maxrss < 16 << 10);
}

TEST_CASE("a file that was cut after it was opened is an error, and not the end of the process") {
  const Folder folder("npy");
  write_file(folder / "x.npy",
             npy_bytes(npy_header("<f4", "(1000000,)"), elements_of(counted<float>(1000000))));
  const NpySource source = open(folder / "x.npy");
  std::filesystem::resize_file(folder / "x.npy", 5000);
  CHECK_THROWS_WITH(read_block<float>(source, 0, {999999}, {}),
                    Catch::Contains("has changed since it was opened"));
}

TEST_CASE("a rank touches just the pages of the rows that it reads") {
  const Folder folder("npy");
  // 1 GiB of which the disk holds the header and one row.
  const std::string header = npy_header("<f4", "(1048576, 256)");
  write_file(folder / "x.npy", npy_bytes(header, ""));
  const auto begin = std::filesystem::file_size(folder / "x.npy");
  std::filesystem::resize_file(folder / "x.npy", begin + (std::uintmax_t{1} << 30));
  {
    std::fstream file(folder / "x.npy", std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(begin + 1000000 * 1024));
    file << elements_of(std::vector<float>(256, 2.5f));
  }
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  const NpySource source = open(folder / "x.npy");
  CHECK(read_block<float>(source, 0, {1000000, 5}, {{0, 2}}) ==
        std::vector<float>{2.5f, 2.5f, 0, 0});
  ::getrusage(RUSAGE_SELF, &after);
  CHECK(after.ru_maxrss - before.ru_maxrss < 16 << 10);
}

}  // namespace meshwork::npy_test
