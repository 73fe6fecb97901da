// Windows over texts, against the tokens picked one by one; and the same over arrays of token
// numbers.
#include "runtime/data/text.h"

#include "runtime/data/batches.h"
#include "runtime/data/hdf5_handles.h"
#include "tests/runtime/data/numpy.h"
#include "tests/runtime/data/support.h"
#include "tests/support/catch.h"

namespace meshwork::text_test {
namespace {

using namespace meshwork::test;

// No byte of it stands twice within 256 places.
std::string letters(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += static_cast<char>(i * 37 + i / 256);
  return text;
}

// Feature or target of window `window`, by the formula.
template <class Token>
std::vector<Token> window_of(const std::vector<Token>& tokens, std::int64_t begin,
                             std::int64_t length) {
  return {tokens.begin() + begin, tokens.begin() + begin + length};
}

std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

template <class Token>
void check_windows(const TextOptions& options, const std::vector<Token>& tokens) {
  const TextSource source(options);
  const std::int64_t length = options.length;
  const std::int64_t stride = options.stride > 0 ? options.stride : length;
  std::int64_t windows = 0;  // counted, where the source divides
  while (windows * stride + length + 1 <= std::ssize(tokens)) ++windows;
  REQUIRE(source.rows() == windows);
  CHECK(source.field(0).shape == Shape{length});
  CHECK(source.field(1).shape == Shape{length});
  CHECK(source.field(1).role == FieldRole::target);
  for (const std::int64_t row : {std::int64_t{0}, windows / 2, windows - 1}) {
    CAPTURE(row);
    CHECK(read_block<Token>(source, 0, {row}, {{0, length}}) ==
          window_of(tokens, row * stride, length));
    CHECK(read_block<Token>(source, 1, {row}, {{0, length}}) ==
          window_of(tokens, row * stride + 1, length));
  }
  // Part of the sequence, of windows in any order.
  const auto part = read_block<Token>(source, 1, {windows - 1, 0}, {{length / 2, length}});
  auto expected = window_of(tokens, (windows - 1) * stride + length / 2 + 1, length - length / 2);
  const auto second = window_of(tokens, length / 2 + 1, length - length / 2);
  expected.insert(expected.end(), second.begin(), second.end());
  CHECK(part == expected);
}

// `text` in files of 3, 0, 200 and all other bytes.
std::vector<std::string> four_files(const Folder& folder, const std::string& text) {
  write_file(folder / "a", text.substr(0, 3));
  write_file(folder / "b", "");
  write_gzip(folder / "c", text.substr(3, 200));
  write_file(folder / "d", text.substr(203));
  return {folder / "a", folder / "b", folder / "c", folder / "d"};
}

std::string error_of(const TextOptions& options) {
  try {
    (void)TextSource(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

template <class Number>
void write_hdf5(const std::string& path, hid_t stored, hid_t given,
                const std::vector<Number>& numbers, const std::vector<hsize_t>& shape) {
  const Hdf5Guard guard;
  const Hdf5File file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  const Hdf5Dataspace space(
      H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
  const Hdf5Dataset dataset(H5Dcreate2(file.native(), "tokens", stored, space.native(), H5P_DEFAULT,
                                       H5P_DEFAULT, H5P_DEFAULT));
  REQUIRE(H5Dwrite(dataset.native(), given, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()) >= 0);
}

}  // namespace

TEST_CASE("a window is tokens, and as its target the token behind each of them") {
  const Folder folder("text");
  write_file(folder / "a.txt", "to be or not to be");
  const TextSource source({.files = {folder / "a.txt"}, .length = 5});
  CHECK(source.rows() == 3);
  CHECK(source.field(0) == Field{"tokens", {5}, ElementType::uint8, FieldRole::feature});
  CHECK(source.field(1) == Field{"next tokens", {5}, ElementType::uint8, FieldRole::target});
  CHECK(read_all<std::uint8_t>(source, 0) == bytes_of("to be or not to"));
  CHECK(read_all<std::uint8_t>(source, 1) == bytes_of("o be or not to "));
  CHECK(source.classes_by_construction(0) == 256);
  CHECK(source.classes_by_construction(1) == 256);
  CHECK(source.locate(1, 2) == folder / "a.txt: token 11: sample 2");
}

TEST_CASE("windows of every length and stride are where the formula says") {
  const Folder folder("text");
  for (const std::size_t bytes : {20u, 1000u, 9000u}) {
    write_file(folder / "a.txt", letters(bytes));
    for (const std::int64_t length : {1, 7, 19}) {
      for (const std::int64_t stride : {0, 1, 3, 40}) {
        CAPTURE(bytes, length, stride);
        check_windows<std::uint8_t>(
            {.files = {folder / "a.txt"}, .length = length, .stride = stride},
            bytes_of(letters(bytes)));
      }
    }
  }
  // One window that takes more than is read at once, and all of the text.
  check_windows<std::uint8_t>({.files = {folder / "a.txt"}, .length = 8999},
                              bytes_of(letters(9000)));
}

TEST_CASE("a gzipped text is that text") {
  const Folder folder("text");
  const std::string text = letters(3'000'000);
  write_gzip(folder / "a.dz", text);
  check_windows<std::uint8_t>({.files = {folder / "a.dz"}, .length = 1000}, bytes_of(text));
  const std::string packed = file_bytes(folder / "a.dz");
  write_file(folder / "b.dz", packed.substr(0, packed.size() / 2));
  CHECK_THAT(error_of({.files = {folder / "b.dz"}, .length = 1}),
             Catch::Contains("b.dz: the gzip stream is truncated"));
}

TEST_CASE("several files are one text") {
  const Folder folder("text");
  const std::string text = letters(500);
  const std::vector<std::string> files = four_files(folder, text);
  check_windows<std::uint8_t>({.files = files, .length = 10}, bytes_of(text));
  const TextSource source({.files = files, .length = 10});
  CHECK(source.locate(0, 0) == folder / "a: token 0: sample 0");
  CHECK(source.locate(0, 1) == folder / "c: token 7: sample 1");
  CHECK(source.files() == std::vector<std::filesystem::path>(files.begin(), files.end()));
}

TEST_CASE("each file is a document, and the token that ends it stands behind it") {
  const Folder folder("text");
  const std::string text = letters(500);
  TextOptions options{.files = four_files(folder, text), .length = 10, .document_end = 7};
  const std::string documents =
      text.substr(0, 3) + "\7" + "\7" + text.substr(3, 200) + "\7" + text.substr(203) + "\7";
  check_windows(options, bytes_of(documents));
  options.stride = 1;
  check_windows(options, bytes_of(documents));
  const TextSource source(options);
  CHECK(source.locate(0, 3) == folder / "a: token 3: sample 3");
  CHECK(source.locate(0, 5) == folder / "c: token 0: sample 5");
  options.document_end = 8;
  CHECK(source.fingerprint() != TextSource(options).fingerprint());
  options.document_end = std::nullopt;
  CHECK(source.fingerprint() != TextSource(options).fingerprint());
  CHECK(source.rows() == TextSource(options).rows() + 4);
}

TEST_CASE("the token that ends a document is one of the tokens' type") {
  const Folder folder("text");
  std::vector<std::int32_t> numbers(20, 3);
  write_file(folder / "a.npy", npy_bytes(npy_header("<i4", "(20,)"), elements_of(numbers)));
  write_file(folder / "a", "12345");
  numbers.push_back(50256);
  check_windows({.files = {folder / "a.npy"}, .length = 20, .document_end = 50256}, numbers);
  CHECK(error_of({.files = {folder / "a"}, .length = 2, .document_end = 256}) ==
        "text: document_end: the tokens of text/a are numbers from 0 to 255, found 256");
  CHECK_THAT(error_of({.files = {folder / "a.npy"}, .length = 2, .document_end = -1}),
             Catch::Contains("from 0 to 2147483647, found -1"));
}

TEST_CASE("parts of a text that meet share no token and leave none out") {
  const Folder folder("text");
  const std::string text = letters(101);
  write_file(folder / "a", text);
  const TextOptions all{.files = {folder / "a"}, .length = 3};
  for (const double cut : {0.1, 0.29, 1.0 / 3, 0.9}) {
    CAPTURE(cut);
    const auto place = static_cast<std::size_t>(std::floor(cut * 101));
    TextOptions before = all, behind = all;
    before.to = cut;
    behind.from = cut;
    check_windows(before, bytes_of(text.substr(0, place)));
    check_windows(behind, bytes_of(text.substr(place)));
    CHECK(TextSource(behind).locate(0, 0) == fmt::format("text/a: token {}: sample 0", place));
    CHECK(TextSource(behind).fingerprint() != TextSource(all).fingerprint());
  }
}

TEST_CASE("tokens are the numbers of an npy file or an HDF5 dataset too") {
  const Folder folder("text");
  std::vector<std::uint16_t> small;
  std::vector<std::int32_t> numbers;
  std::vector<std::int64_t> large;
  for (int i = 0; i < 5000; ++i) {
    small.push_back(static_cast<std::uint16_t>(i * 13));
    numbers.push_back(i * 13 % 65536);
    large.push_back(i + (std::int64_t{1} << 40));
  }
  write_file(folder / "u2.npy", npy_bytes(npy_header("<u2", "(5000,)"), elements_of(small)));
  write_file(folder / "i8.npy", npy_bytes(npy_header("<i8", "(5000,)"), elements_of(large)));
  write_hdf5(folder / "u2.h5", H5T_STD_U16LE, H5T_NATIVE_INT32, numbers, {5000});
  for (const std::string& file : {folder / "u2.npy", folder / "u2.h5:/tokens"}) {
    check_windows({.files = {file}, .length = 64}, numbers);
    check_windows({.files = {file}, .length = 2000, .stride = 1}, numbers);
    CHECK(TextSource({.files = {file}, .length = 64}).classes_by_construction(0) == 0);
  }
  check_windows({.files = {folder / "i8.npy"}, .length = 9}, large);
  std::vector<std::int32_t> twice = numbers;
  twice.insert(twice.end(), numbers.begin(), numbers.end());
  check_windows({.files = {folder / "u2.npy", folder / "u2.h5:/tokens"}, .length = 33}, twice);
}

TEST_CASE("texts that give no windows are errors") {
  const Folder folder("text");
  write_file(folder / "a.txt", "12345");
  write_file(folder / "x.npy", npy_bytes(npy_header("<i4", "(2, 2)"), std::string(16, '\0')));
  write_file(folder / "f.npy", npy_bytes(npy_header("<f4", "(4,)"), std::string(16, '\0')));
  write_file(folder / "i.npy", npy_bytes(npy_header("<i4", "(4,)"), std::string(16, '\0')));
  CHECK(error_of({.files = {folder / "a.txt"}, .length = 4}) == "no error");
  CHECK(error_of({.files = {folder / "a.txt"}, .length = 5}) ==
        "text/a.txt: 5 tokens; a window of 5 and the token behind it take 6");
  CHECK(error_of({.files = {folder / "a.txt", folder / "a.txt"}, .length = 5, .to = 0.3}) ==
        "text/a.txt and 1 more: 3 tokens; a window of 5 and the token behind it take 6");
  CHECK(error_of({.files = {folder / "b.txt"}}) == "text/b.txt: there is no such file");
  CHECK(error_of({.files = {folder / "x.npy"}}) ==
        "text/x.npy: has 2 dimensions; tokens stand along one");
  CHECK(error_of({.files = {folder / "f.npy"}}) ==
        "text/f.npy: its elements are floating-point numbers; tokens are integers");
  CHECK(error_of({.files = {folder / "a.txt", folder / "i.npy"}}) ==
        "text/a.txt has tokens of type uint8 and text/i.npy of type int32; they must have one");
  CHECK_THAT(error_of({.files = {folder / "a.h5"}}), Catch::Contains("expected FILE:/DATASET"));
  CHECK_THAT(error_of({}), Catch::Contains("no files"));
  for (const TextOptions& wrong :
       {TextOptions{.length = 0}, TextOptions{.stride = -1}, TextOptions{.from = 0.5, .to = 0.5},
        TextOptions{.from = -0.1}, TextOptions{.to = 1.1}}) {
    TextOptions options = wrong;
    options.files = {folder / "a.txt"};
    CHECK_THAT(error_of(options), Catch::Contains("lengths are positive"));
  }
}

TEST_CASE("an array under a name that does not say so is no text") {
  const Folder folder("text");
  for (const std::string beginning : {"\x93NUMPY", "PK\x03\x04", "\x89HDF\r\n"}) {
    write_file(folder / "a", beginning + std::string(200, 'a'));
    CHECK_THROWS_WITH(TextSource({.files = {folder / "a"}, .length = 9}),
                      Catch::Contains("text/a: expected a text, found "));
  }
}

TEST_CASE("a text that is cut while it is read is an error") {
  const Folder folder("text");
  write_file(folder / "a", letters(100));
  const TextSource source({.files = {folder / "a"}, .length = 9});
  std::filesystem::resize_file(folder / "a", 50);
  CHECK_THROWS_WITH(read_all<std::uint8_t>(source, 0),
                    Catch::Contains("text/a: has changed since it was opened"));
}

TEST_CASE("windows come in one order however a batch is spread, and after a pause") {
  const Folder folder("text");
  write_file(folder / "a", letters(2000));
  const auto source =
      std::make_shared<TextSource>(TextOptions{.files = {folder / "a"}, .length = 8, .stride = 5});
  const auto batches = [&](Range rows, Range sequence, BatchPosition start) {
    std::vector<std::vector<std::uint8_t>> seen;
    Feeder feeder({.source = source,
                   .fields = {{.field = 1, .blocks = {{rows, sequence}, {{0, 0}, sequence}}}},
                   .batch_size = 12,
                   .shuffle = true,
                   .seed = 3,
                   .start = start,
                   .epochs = 2});
    while (const HostBatch* batch = feeder.next()) {
      const auto* data = reinterpret_cast<const std::uint8_t*>(batch->fields[0]);
      seen.emplace_back(data, data + batch->bytes[0]);
    }
    return seen;
  };
  const auto all = batches({0, 12}, {0, 8}, {});
  REQUIRE(all.size() == 2 * 34);
  const auto part = batches({5, 9}, {3, 8}, {});
  for (std::size_t batch = 0; batch < all.size(); ++batch) {
    if (batch % 34 == 33) continue;  // the short one, which `part` has nothing of
    std::vector<std::uint8_t> expected;
    for (std::size_t row = 5; row < 9; ++row) {
      const auto begin = all[batch].begin() + static_cast<std::ptrdiff_t>(8 * row + 3);
      expected.insert(expected.end(), begin, begin + 5);
    }
    CHECK(part[batch] == expected);
  }
  const auto resumed = batches({0, 12}, {0, 8}, {1, 4});
  CHECK(resumed == std::vector(all.begin() + 38, all.end()));
}

}  // namespace meshwork::text_test
