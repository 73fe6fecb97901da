#include "runtime/data/image_files.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "collectives/error.h"
#include "collectives/printable.h"

namespace meshwork {
namespace {

constexpr std::string_view png_signature = "\x89PNG\r\n\x1a\n";
constexpr std::int64_t png_header_bytes = 26;  // with the first fields of the chunk IHDR

constexpr std::int64_t most_other_bytes = std::int64_t{64} << 20;  // profiles, texts, previews

std::int64_t big_endian_at(std::span<const unsigned char> bytes, std::size_t at, int count) {
  std::int64_t number = 0;
  for (int i = 0; i < count; ++i) number = number << 8 | bytes[at + static_cast<std::size_t>(i)];
  return number;
}

ImageSize png_size(const PlainFile& file) {
  std::array<unsigned char, png_header_bytes> begin{};
  file.read(0, begin.data(), png_header_bytes);
  if (std::string_view(reinterpret_cast<const char*>(begin.data()) + 12, 4) != "IHDR") {
    fail("{}: damaged: its first chunk is not IHDR", file.name());
  }
  const int color = begin[25];
  return {big_endian_at(begin, 20, 4), big_endian_at(begin, 16, 4),
          color == 0 || color == 4 ? 1 : 3};
}

// Whether a marker begins a frame (SOF0 to SOF15, without DHT, JPG and DAC).
bool begins_frame(int marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

// From segment to segment, each a marker of two bytes and its length.
ImageSize jpeg_size(const PlainFile& file) {
  constexpr int most_segments = 10'000;
  std::int64_t at = 2;
  for (int segment = 0; segment < most_segments; ++segment) {
    std::array<unsigned char, 10> begin{};
    file.read(at, begin.data(), 4);
    if (begin[0] != 0xFF) break;
    if (begin[1] == 0xFF) {  // bytes that only fill
      ++at;
      continue;
    }
    if (begins_frame(begin[1])) {
      file.read(at, begin.data(), 10);
      if (begin[9] != 1 && begin[9] != 3) {
        fail("{}: has {} channels{}; JPEG images of 1 or 3 are read", file.name(),
             static_cast<int>(begin[9]), begin[9] == 4 ? " (CMYK)" : "");
      }
      return {big_endian_at(begin, 5, 2), big_endian_at(begin, 7, 2), begin[9]};
    }
    const std::int64_t length = big_endian_at(begin, 2, 2);
    if (begin[1] == 0xDA || length < 2) break;
    at += 2 + length;
  }
  fail("{}: damaged: no frame of JPEG begins where one should", file.name());
}

}  // namespace

std::string to_string(const ImageSize& size) {
  return fmt::format("{} x {}", size.height, size.width);
}

ImageHeader read_image_header(const PlainFile& file) {
  std::array<char, 8> begin{};
  file.read(0, begin.data(), std::min<std::int64_t>(8, file.bytes()));
  const std::string_view text(begin.data(), begin.size());
  ImageHeader header;
  if (text == png_signature) {
    header = {ImageFormat::png, png_size(file)};
  } else if (text.starts_with("\xFF\xD8\xFF")) {
    header = {ImageFormat::jpeg, jpeg_size(file)};
  } else {
    fail("{}: {}", file.name(), file.bytes() == 0 ? "is empty" : "is no PNG or JPEG image");
  }
  const ImageSize& size = header.size;
  if (size.height < 1 || size.width < 1 || size.height > longest_side ||
      size.width > longest_side || size.height * size.width > most_pixels) {
    fail("{}: has {} pixels; sides of 1 to {} and {} pixels in all are read", file.name(),
         to_string(size), longest_side, most_pixels);
  }
  // A PNG has up to 8 bytes a pixel.
  const std::int64_t most_bytes = 8 * size.height * size.width + most_other_bytes;
  if (file.bytes() > most_bytes) {
    fail("{}: has {} bytes; an image of {} pixels has {} at most", file.name(), file.bytes(),
         to_string(size), most_bytes);
  }
  return header;
}

void decode_image(std::span<const std::byte> bytes, const ImageHeader& header, int channels,
                  const std::string& name, std::byte* pixels) {
  image_detail::DecodeTask task{.bytes = reinterpret_cast<const unsigned char*>(bytes.data()),
                                .size = bytes.size(),
                                .height = static_cast<unsigned>(header.size.height),
                                .width = static_cast<unsigned>(header.size.width),
                                .channels = channels,
                                .pixels = reinterpret_cast<unsigned char*>(pixels)};
  const bool decoded = header.format == ImageFormat::png ? image_detail::decode_png(task)
                                                         : image_detail::decode_jpeg(task);
  if (!decoded) fail("{}: cannot be decoded: {}", name, in_one_line(task.problem));
}

}  // namespace meshwork
