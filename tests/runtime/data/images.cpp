// Images in folders, against pixels known beforehand, and the errors for what is none.
#include "runtime/data/images.h"

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "collectives/stop_signals.h"
#include "tests/runtime/data/image_bytes.h"
#include "tests/runtime/data/numpy.h"
#include "tests/runtime/data/support.h"
#include "tests/support/catch.h"

namespace meshwork::images_test {
namespace {

using namespace meshwork::test;
namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

Bytes pixels_of(const std::string& bytes, int channels = 0) {
  const Folder folder("one");
  write_file(folder / "a.png", bytes);
  const ImageSource source({.folder = "one", .channels = channels});
  return read_all<std::uint8_t>(source, 0);
}

std::string error_of(const ImageFolder& folder) {
  try {
    const ImageSource source(folder);
    source.prepare(0);
    for (std::int64_t row = 0; row < source.rows(); ++row) {
      (void)read_block<std::uint8_t>(source, 0, {row}, whole(source.field(0).shape));
    }
  } catch (const Error& error) {
    CHECK(std::string_view(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "no error";
}

// With an image of 2 x 3 pixels of 10 * class + number in each folder.
void write_classes(const Folder& folder, const std::vector<std::string>& classes, int images) {
  for (std::size_t c = 0; c < classes.size(); ++c) {
    fs::create_directories(folder / classes[c]);
    for (int i = 0; i < images; ++i) {
      write_file(folder / (classes[c] + fmt::format("/{}.png", i)),
                 grey_png(3, 2, static_cast<char>(10 * c + static_cast<std::size_t>(i))));
    }
  }
}

}  // namespace

TEST_CASE("more folders of classes than a checkpoint keeps are refused") {
  // In memory where there is such a place: a disk takes a minute for as many.
  const std::string path =
      fs::is_directory("/dev/shm") ? fmt::format("/dev/shm/meshwork-many-{}", ::getpid()) : "many";
  const Folder folder(path);
  for (int c = 0; c <= 65536; ++c) fs::create_directory(folder / fmt::format("{}", c));
  CHECK(error_of({.folder = path}) == path + ": has 65537 folders of classes; 65536 are the most");
}

TEST_CASE("a signal that asks the process to stop ends the listing") {
  const Folder folder("stopped");
  write_classes(folder, {"a", "b"}, 1);
  {
    const StopSignals signals;
    CHECK(error_of({.folder = "stopped"}) == "no error");
    REQUIRE(std::raise(SIGTERM) == 0);
    CHECK(error_of({.folder = "stopped"}) ==
          "stopped: stopped by SIGTERM while the folder was listed");
  }
  const StopSignals forgotten;
}

TEST_CASE("pixels of a PNG are those that were written") {
  const std::string six = std::string("\x00\x0A\xFF\x01\x80\x7F", 6);
  CHECK(pixels_of(png(3, 2, 8, 0, six)) == Bytes{0, 10, 255, 1, 128, 127});
  CHECK(pixels_of(png(1, 2, 8, 2, six)) == Bytes{0, 10, 255, 1, 128, 127});
  // One bit a pixel: 1 0 1, and 0 1 1.
  CHECK(pixels_of(png(3, 2, 1, 0, "\xA0\x60")) == Bytes{255, 0, 255, 0, 255, 255});
  // Of 16 bits the upper ones, and no transparency.
  CHECK(pixels_of(png(1, 1, 16, 0, "\x12\x34")) == Bytes{0x12});
  CHECK(pixels_of(png(1, 1, 8, 6, "\x01\x02\x03\x04")) == Bytes{1, 2, 3});
  CHECK(pixels_of(png(2, 1, 8, 4, "\x07\x80\x09\xFF")) == Bytes{7, 9});
  CHECK(pixels_of(png(2, 1, 8, 3, std::string("\x01\x00", 2), png_chunk("PLTE", "abcdef"))) ==
        Bytes{'d', 'e', 'f', 'a', 'b', 'c'});
}

TEST_CASE("images become grey or coloured as asked for") {
  CHECK(pixels_of(grey_png(2, 1, 7), 3) == Bytes{7, 7, 7, 7, 7, 7});
  // 0.299 * 200 + 0.587 * 40 + 0.114 * 90 = 93.54
  const Bytes grey = pixels_of(png(1, 1, 8, 2, "\xC8\x28\x5A"), 1);
  REQUIRE(grey.size() == 1);
  CHECK((grey[0] == 93 || grey[0] == 94));
  // A file that says how bright its bytes are on a screen has the same bytes: here with gamma 1/2.2.
  CHECK(pixels_of(png(1, 1, 8, 2, "\xC8\x28\x5A", png_chunk("gAMA", png_number(45455))), 1) ==
        grey);
}

TEST_CASE("an interlaced PNG has the pixels of its passes") {
  // 2 x 2 pixels (RFC 2083, 2.6): pass 1 has the first, pass 6 the second, pass 7 the lower row.
  const std::string passes("\0\x01\0\x02\0\x03\x04", 7);
  CHECK(pixels_of(packed_png(2, 2, 8, 0, 1, passes)) == Bytes{1, 2, 3, 4});
}

TEST_CASE("a JPEG is near what was written") {
  const auto near = [](const Bytes& pixels, std::size_t at, int value) {
    CHECK(std::abs(pixels[at] - value) <= 2);
  };
  const Bytes grey = pixels_of(grey_jpeg());
  REQUIRE(grey.size() == 16 * 8);
  for (std::size_t i = 0; i < grey.size(); ++i) near(grey, i, i % 16 < 8 ? 200 : 50);
  const Bytes color = pixels_of(color_jpeg());
  REQUIRE(color.size() == 16 * 16 * 3);
  for (std::size_t i = 0; i < color.size(); ++i) near(color, i, std::array{200, 40, 90}[i % 3]);
  for (const std::uint8_t value : pixels_of(color_jpeg(), 1)) CHECK(std::abs(value - 94) <= 2);
  CHECK(pixels_of(grey_jpeg(), 3).size() == 16 * 8 * 3);
}

TEST_CASE("a folder is a class, and samples are mixed") {
  const Folder folder("photos");
  write_classes(folder, {"dog", "ant", "cat"}, 8);
  write_file(folder / "dog/notes.txt", "no image");
  write_file(folder / "dog/.hidden.png", "no image");
  const ImageSource source({.folder = "photos"});
  CHECK(source.rows() == 24);
  CHECK(source.field(0) == Field{.name = "images", .shape = {2, 3, 1}, .type = ElementType::uint8});
  CHECK(
      source.field(1) ==
      Field{.name = "targets", .shape = {}, .type = ElementType::int32, .role = FieldRole::target});
  CHECK(source.categories() == std::vector<Categories>{{"folders", {"ant", "cat", "dog"}}});
  CHECK(source.classes_by_construction(1) == 3);
  CHECK(source.texts_of(1).size() == 3);
  CHECK(source.texts_of(0).empty());
  source.prepare(0);
  const auto classes = read_all<std::int32_t>(source, 1);
  const auto pixels = read_all<std::uint8_t>(source, 0);
  std::set<int> values;
  for (std::size_t row = 0; row < 24; ++row) {
    // Written as 10 * class, with dog 0, ant 1 and cat 2.
    CHECK(pixels[row * 6] / 10 == std::array{1, 2, 0}[static_cast<std::size_t>(classes[row])]);
    values.insert(pixels[row * 6]);
  }
  CHECK(values.size() == 24);
  // Of every class some are in the last third.
  CHECK(std::set<int>(classes.begin() + 16, classes.end()).size() == 3);
  CHECK(read_block<std::uint8_t>(source, 0, {5, 0}, {{1, 2}, {0, 3}, {0, 1}}) ==
        Bytes{pixels[30], pixels[30], pixels[30], pixels[0], pixels[0], pixels[0]});
  CHECK_THAT(source.locate(0, 3), Catch::StartsWith("photos/") && Catch::EndsWith(".png"));
}

TEST_CASE("other data use the classes of the training data") {
  const Folder folder("photos");
  write_classes(folder, {"dog"}, 1);
  const std::vector<Categories> known{{"folders", {"ant", "cat", "dog"}}};
  const ImageSource source({.folder = "photos", .known = &known});
  CHECK(read_all<std::int32_t>(source, 1) == std::vector<std::int32_t>{2});
  write_classes(folder, {"dot"}, 1);
  CHECK(error_of({.folder = "photos", .known = &known}) ==
        "photos/dot: the class \"dot\" is not among the 3 of the training data; did you mean "
        "\"dog\"?");
}

TEST_CASE("a table says what is on images") {
  const Folder folder("photos");
  write_classes(folder, {"a", "b"}, 2);
  write_file("labels.csv", "name,animal,weight\nb/1.png,dog,2.5\na/0.png,cat,1\n");
  const ImageSource source(
      {.folder = "photos",
       .labels = ImageLabels{
           .table = "labels.csv", .file = "name", .targets = {{"targets", {"animal"}}}}});
  CHECK(source.rows() == 2);
  CHECK(read_block<std::uint8_t>(source, 0, {0, 1}, {{0, 1}, {0, 1}, {0, 1}}) == Bytes{11, 0});
  CHECK(read_all<std::int32_t>(source, 1) == std::vector<std::int32_t>{1, 0});
  CHECK(source.target_count() == 1);
  CHECK(source.categories() == std::vector<Categories>{{"animal", {"cat", "dog"}}});
  CHECK(source.locate(1, 1) == "labels.csv:3");
  const ImageSource weights(
      {.folder = "photos",
       .labels = ImageLabels{
           .table = "labels.csv", .file = "name", .targets = {{"targets", {"weight"}, true}}}});
  CHECK(weights.field(1).shape == Shape{1});
  CHECK(read_all<float>(weights, 1) == std::vector<float>{2.5f, 1});
  const ImageLabels both{.table = "labels.csv",
                         .file = "name",
                         .targets = {{"targets", {"animal"}}},
                         .weights = "weight"};
  const ImageSource weighted({.folder = "photos", .labels = both});
  CHECK(weighted.target_count() == 1);
  CHECK(weighted.weights_field() == 2);
  CHECK(read_all<std::int32_t>(weighted, 1) == std::vector<std::int32_t>{1, 0});
  CHECK(read_all<float>(weighted, 2) == std::vector<float>{2.5f, 1});
  CHECK(weighted.locate(2, 1) == "labels.csv:3");
  CHECK(error_of({.folder = "photos",
                  .labels = ImageLabels{.table = "labels.csv",
                                        .file = "name",
                                        .targets = {{"targets", {"weight"}}},
                                        .weights = "animal"}}) ==
        "labels.csv: the column \"animal\" holds texts; the weights of samples are numbers");
  for (const std::string outside : {"../b/1.png", "a/../../b/1.png", "/b/1.png"}) {
    write_file("labels.csv", "name,animal\nb/1.png,dog\n" + outside + ",cat\n");
    CHECK(error_of({.folder = "photos",
                    .labels = ImageLabels{.table = "labels.csv",
                                          .file = "name",
                                          .targets = {{"targets", {"animal"}}}}}) ==
          "labels.csv:3: the image \"" + outside + "\" is outside the folder photos");
  }
  write_file("labels.csv", "name,animal\nc/1.png,dog\n");
  CHECK(error_of({.folder = "photos",
                  .labels = ImageLabels{.table = "labels.csv",
                                        .file = "name",
                                        .targets = {{"targets", {"animal"}}}}}) ==
        "photos/c/1.png: there is no such file");
}

TEST_CASE("images without folders have no classes and the order of their names") {
  const Folder folder("photos");
  write_file(folder / "b.png", grey_png(1, 1, 2));
  write_file(folder / "a.JPG", grey_png(1, 1, 1));
  const ImageSource source({.folder = "photos"});
  CHECK(source.target_count() == 0);
  CHECK(read_all<std::uint8_t>(source, 0) == Bytes{1, 2});
  write_classes(folder, {"dog"}, 1);
  CHECK_THAT(error_of({.folder = "photos"}), Catch::Contains("has both images, such as \"a.JPG\""));
}

TEST_CASE("an image of another size is named before training") {
  const Folder folder("photos");
  write_file(folder / "a.png", grey_png(3, 2, 1));
  write_file(folder / "b.png", grey_png(3, 2, 1));
  write_file(folder / "c.png", grey_png(2, 3, 1));
  const ImageSource source({.folder = "photos"});
  CHECK_THROWS_WITH(source.prepare(0),
                    "photos/c.png: has 3 x 2 pixels, but the first image, photos/a.png, has 2 x 3; "
                    "all have to be alike");
}

TEST_CASE("folders that are none and files that are no images are errors") {
  const Folder folder("photos");
  CHECK(error_of({.folder = "absent"}) == "absent: there is no such folder");
  CHECK_THAT(error_of({.folder = "photos"}), Catch::StartsWith("photos: there are no images"));
  fs::create_directories(folder / "cat");
  CHECK_THAT(error_of({.folder = "photos"}),
             Catch::StartsWith("photos/cat: there are no images of this class"));
  fs::remove_all(folder / "cat");
  write_file(folder / "a.png", "GIF89a");
  CHECK(error_of({.folder = "photos"}) == "photos/a.png: is no PNG or JPEG image");
  write_file(folder / "a.png", "");
  CHECK(error_of({.folder = "photos"}) == "photos/a.png: is empty");
  fs::remove(folder / "a.png");
  REQUIRE(::mkfifo((folder / "a.png").c_str(), 0600) == 0);
  CHECK(error_of({.folder = "photos"}) == "photos/a.png: is a pipe; an image is expected");
  fs::remove(folder / "a.png");
  fs::create_symlink("a.png", folder / "a.png");
  CHECK_THAT(error_of({.folder = "photos"}),
             Catch::StartsWith("photos/a.png: cannot be opened: Too many levels"));
}

TEST_CASE("a rank opens the images of its rows only") {
  const Folder folder("photos");
  for (const char* name : {"a.png", "b.png", "c.png"}) write_file(folder / name, grey_png(1, 1, 5));
  const ImageSource source({.folder = "photos"});
  write_file(folder / "b.png", "damaged since");
  CHECK(read_block<std::uint8_t>(source, 0, {2, 0}, {{0, 1}, {0, 1}, {0, 1}}) == Bytes{5, 5});
  CHECK_THROWS_WITH(read_block<std::uint8_t>(source, 0, {1}, {{0, 1}, {0, 1}, {0, 1}}),
                    "photos/b.png: is no PNG or JPEG image");
}

TEST_CASE("what would be left out silently is an error") {
  const Folder folder("photos");
  write_classes(folder, {"dog"}, 1);
  write_file(folder / "dog/1.webp", "RIFF");
  CHECK(error_of({.folder = "photos"}) ==
        "photos/dog/1.webp: PNG and JPEG images are read; convert it, or move it away");
  fs::remove(folder / "dog/1.webp");
  fs::create_directories(folder / "dog/x.png");
  CHECK(error_of({.folder = "photos"}) ==
        "photos/dog/x.png: is a folder in the folder of a class, which holds images alone");
}

TEST_CASE("a JPEG of four channels is refused by its header") {
  const Folder folder("photos");
  std::string cmyk = color_jpeg();
  const std::size_t frame = cmyk.find("\xFF\xC2");
  REQUIRE(frame != std::string::npos);
  cmyk[frame + 9] = 4;
  write_file(folder / "a.png", cmyk);
  CHECK(error_of({.folder = "photos"}) ==
        "photos/a.png: has 4 channels (CMYK); JPEG images of 1 or 3 are read");
}

TEST_CASE("a file far larger than its image is refused before memory is taken") {
  const Folder folder("photos");
  write_file(folder / "a.png", grey_png(3, 2, 1));
  fs::resize_file(folder / "a.png", std::uintmax_t{1} << 40);
  CHECK_THAT(error_of({.folder = "photos"}), Catch::Contains("an image of 2 x 3 pixels has"));
}

TEST_CASE("images that claim more pixels than any are refused before memory is taken") {
  const Folder folder("photos");
  write_file(folder / "a.png", png(60000, 60000, 8, 0, ""));
  CHECK_THAT(error_of({.folder = "photos"}), Catch::Contains("has 60000 x 60000 pixels"));
  write_file(folder / "a.png", png(0, 1, 8, 0, ""));
  CHECK_THAT(error_of({.folder = "photos"}), Catch::Contains("has 1 x 0 pixels"));
  write_file(folder / "a.png", png(0xFFFFFFFF, 0xFFFFFFFF, 8, 0, ""));
  CHECK_THAT(error_of({.folder = "photos"}), Catch::Contains("pixels"));
}

TEST_CASE("an image truncated anywhere is an error") {
  const Folder folder("photos");
  for (const std::string& whole : {png(3, 2, 8, 0, "abcdef"), grey_jpeg(), color_jpeg()}) {
    // Of a JPEG the marker at its end may be missing: all pixels are there.
    for (std::size_t length = 0; length + 4 < whole.size(); ++length) {
      write_file(folder / "a.png", whole.substr(0, length));
      INFO("length " << length << " of " << whole.size());
      REQUIRE_THAT(error_of({.folder = "photos"}), Catch::StartsWith("photos/a.png: "));
    }
  }
}

TEST_CASE("an image that Python writes has the pixels that Python has") {
  if (!has_numpy()) return;
  const Folder folder("photos");
  run_numpy(R"(
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
pixels = numpy.random.default_rng(1).integers(0, 256, (40, 30, 3), "u1")
# Every row is the difference to the one above: the filter "up".
rows = numpy.diff(pixels.reshape(40, 90), axis=0, prepend=numpy.zeros((1, 90), "u1"))
data = b"".join(b"\2" + row.tobytes() for row in rows)
with open("photos/a.png", "wb") as file:
    file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 30, 40, 8, 2, 0, 0, 0))
               + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))
pixels.tofile("pixels.bin")
)");
  const ImageSource source({.folder = "photos"});
  CHECK(source.field(0).shape == Shape{40, 30, 3});
  CHECK(elements_of(read_all<std::uint8_t>(source, 0)) == file_bytes("pixels.bin"));
}

}  // namespace meshwork::images_test
