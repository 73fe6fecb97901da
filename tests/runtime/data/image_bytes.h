// The bytes of small images, for tests of those who read them.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace meshwork::test {

inline std::string png_number(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

inline std::string png_chunk(const std::string& kind, const std::string& bytes) {
  const std::string checked = kind + bytes;
  const auto checksum =
      crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return png_number(static_cast<std::uint32_t>(bytes.size())) + checked +
         png_number(static_cast<std::uint32_t>(checksum));
}

// A PNG file (RFC 2083): `rows` each have a byte that names their filter before the samples; `more`
// chunks come before them.
inline std::string packed_png(std::uint32_t width, std::uint32_t height, int depth, int color,
                              int interlace, const std::string& rows,
                              const std::string& more = "") {
  uLongf length = compressBound(static_cast<uLong>(rows.size()));
  std::string packed(length, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &length,
           reinterpret_cast<const Bytef*>(rows.data()), static_cast<uLong>(rows.size()));
  packed.resize(length);
  const std::string header = png_number(width) + png_number(height) + static_cast<char>(depth) +
                             static_cast<char>(color) + std::string(2, '\0') +
                             static_cast<char>(interlace);
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + more + png_chunk("IDAT", packed) +
         png_chunk("IEND", "");
}

// `samples` are the rows, without filters.
inline std::string png(std::uint32_t width, std::uint32_t height, int depth, int color,
                       const std::string& samples, const std::string& more = "") {
  std::string rows;
  const std::size_t row_bytes = height == 0 ? 0 : samples.size() / height;
  // A height that is a lie has no rows.
  for (std::size_t row = 0; row_bytes > 0 && row < height; ++row) {
    rows += '\0';
    rows += samples.substr(row * row_bytes, row_bytes);
  }
  return packed_png(width, height, depth, color, 0, rows, more);
}

inline std::string grey_png(std::uint32_t width, std::uint32_t height, char value) {
  return png(width, height, 8, 0, std::string(std::size_t{width} * height, value));
}

inline std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

// 16 x 8 grey pixels, the left half 200 and the right half 50: each a block of the cosine transform.
inline std::string grey_jpeg() {
  return from_hex(
      "ffd8ffe000104a46494600010100000100010000ffdb00430002010101010102010101020202020204030202"
      "02020504040304060506060605060606070908060709070606080b08090a0a0a0a0a06080b0c0b0a0c090a0a"
      "0affc0000b080008001001011100ffc400150001010000000000000000000000000000090affc40014100100"
      "000000000000000000000000000000ffda0008010100003f0048134effd9");
}

// 16 x 16 pixels of red 200, green 40, blue 90, in several scans.
inline std::string color_jpeg() {
  return from_hex(
      "ffd8ffe000104a46494600010100000100010000ffdb00430002010101010102010101020202020204030202"
      "02020504040304060506060605060606070908060709070606080b08090a0a0a0a0a06080b0c0b0a0c090a0a"
      "0affdb004301020202020202050303050a0706070a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
      "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0affc200110800100010030122000211010311"
      "01ffc4001500010100000000000000000000000000000007ffc4001501010100000000000000000000000000"
      "000308ffda000c030100021003100000019d83a63fffc40014100100000000000000000000000000000020ff"
      "da00080101000105021fffc40014110100000000000000000000000000000000ffda0008010301013f017fff"
      "c40014110100000000000000000000000000000000ffda0008010201013f017fffc400141001000000000000"
      "00000000000000000020ffda0008010100063f021fffc40014100100000000000000000000000000000020ff"
      "da0008010100013f211fffda000c0301000200030000001003ffc40014110100000000000000000000000000"
      "000000ffda0008010301013f107fffc40014110100000000000000000000000000000000ffda000801020101"
      "3f107fffc40014100100000000000000000000000000000020ffda0008010100013f101fffd9");
}

}  // namespace meshwork::test
