// PNG and JPEG files: how large an image is, and its pixels.
//
// The first bytes of a file tell its format; its name does not matter. Pixels are bytes, row by row, with
// one channel (grey) or three (red, green, blue). Everything else is converted: 16 bits keep the upper
// eight, palettes become colours, transparency is dropped. Grey is 0.299 red + 0.587 green + 0.114 blue
// (ITU-R BT.601) of the bytes as they are: gamma, colour profiles and a camera's orientation are ignored.
//
// A file is not trusted. Sizes have limits (`most_pixels`), and the caller, who knows the right size,
// takes the memory for pixels. Both libraries report errors by setjmp and longjmp, which stay inside
// png_image.cpp and jpeg_image.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/plain_file.h"

namespace meshwork {

struct ImageSize {
  std::int64_t height = 0, width = 0;
  std::int64_t channels = 0;  // as the file has them, 1 or 3
  bool operator==(const ImageSize&) const = default;
};

/// "28 x 28" (height, width).
[[nodiscard]] std::string to_string(const ImageSize& size);

enum class ImageFormat : std::uint8_t { png, jpeg };

/// What the beginning of an image file says.
struct ImageHeader {
  ImageFormat format = ImageFormat::png;
  ImageSize size;
};

inline constexpr std::int64_t longest_side = 65500;  // what JPEG can have
inline constexpr std::int64_t most_pixels = std::int64_t{1} << 28;

/// Reads as much of `file` as it takes to know the size. Throws `Error` for a file that is no image or
/// has no pixels, more than `most_pixels`, or far more bytes than such an image can have, and for a
/// JPEG of other than 1 or 3 channels.
[[nodiscard]] ImageHeader read_image_header(const PlainFile& file);

/// Decodes `bytes`, a file whose header is `header`, to `pixels`, which has room for height times
/// width times `channels` (1 or 3). Throws `Error` that begins with `name` for a damaged file.
void decode_image(std::span<const std::byte> bytes, const ImageHeader& header, int channels,
                  const std::string& name, std::byte* pixels);

namespace image_detail {

/// What a decoder gets, and what it says: nothing that longjmp would leave behind.
struct DecodeTask {
  const unsigned char* bytes = nullptr;
  std::size_t size = 0;
  unsigned height = 0, width = 0;  // as they have to be
  int channels = 0;
  unsigned char* pixels = nullptr;
  char problem[256] = {};  // what is wrong
};

/// Whether `task.pixels` was filled; else `task.problem` says why not.
[[nodiscard]] bool decode_png(DecodeTask& task);
[[nodiscard]] bool decode_jpeg(DecodeTask& task);

}  // namespace image_detail

}  // namespace meshwork
