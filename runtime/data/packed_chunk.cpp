#include "runtime/data/packed_chunk.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#ifdef MESHWORK_HAS_AEC
#include <libaec.h>
#endif

#include "collectives/error.h"

namespace meshwork {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t window_bytes = 1 << 16;
constexpr std::size_t checksum_bytes = 4;

[[noreturn]] void fail_to_unpack(const std::string& subject) {
  fail("{}: a chunk cannot be unpacked; it is damaged", subject);
}

bool packs_numbers(H5Z_filter_t filter) {
  return filter == H5Z_FILTER_NBIT || filter == H5Z_FILTER_SCALEOFFSET;
}

bool packs_bytes(H5Z_filter_t filter) {
  return filter == H5Z_FILTER_DEFLATE || filter == H5Z_FILTER_SZIP || filter == lzf_filter;
}

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  }
  return value;
}

// How many bytes the numbers take, of `width` bytes, whose `bits` stand in `packed` bytes without
// gaps: of all `elements`, or of those that are whole.
std::uint64_t bytes_of_numbers(std::uint64_t packed, std::uint64_t bits, std::uint64_t elements,
                               std::uint64_t width) {
  return (bits == 0 ? elements : std::min(elements, packed * 8 / bits)) * width;
}

// How many bytes a stream of deflate makes, which need not fill `packed`; appends them to `kept`, if
// given. Stops soon after `most`.
std::uint64_t bytes_of_deflate(std::span<const std::byte> packed, std::uint64_t most, Bytes* kept,
                               const std::string& subject) {
  std::array<std::byte, window_bytes> window;
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) fail("{}: no memory to unpack a chunk", subject);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  int status = Z_OK;
  while (status == Z_OK && stream.total_out <= most) {
    stream.next_out = reinterpret_cast<Bytef*>(window.data());
    stream.avail_out = window.size();
    status = inflate(&stream, Z_NO_FLUSH);
    if (kept) kept->insert(kept->end(), window.begin(), window.end() - stream.avail_out);
  }
  const std::uint64_t made = stream.total_out;
  inflateEnd(&stream);
  if (made <= most && status != Z_STREAM_END) fail_to_unpack(subject);
  return made;
}

// A stream of LibLZF (lzf_d.c) is a row of runs: a byte below 32 is one less than the number of bytes
// that follow as they are. Any other begins a copy: its upper three bits are the length less two, 7 of
// which a second byte is added to. The rest, and one more byte, say where the copied bytes stand.
std::uint64_t bytes_of_lzf(std::span<const std::byte> packed, const std::string& subject) {
  std::uint64_t made = 0;
  std::size_t at = 0;
  while (at < packed.size()) {
    const auto control = std::to_integer<std::size_t>(packed[at++]);
    if (control < 32) {
      at += control + 1;
      made += control + 1;
    } else {
      std::size_t length = control >> 5;
      if (length == 7 && at < packed.size()) length += std::to_integer<std::size_t>(packed[at++]);
      ++at;
      made += length + 2;
    }
  }
  if (at > packed.size()) fail_to_unpack(subject);
  return made;
}

#ifdef MESHWORK_HAS_AEC

// Szip stores the length, then a stream of pixels in blocks, of which some make a scanline (H5Zszip.c
// and szlib.h of libaec). A scanline fills its last block with pixels that are dropped. Numbers of 32
// and 64 bits are packed as four and eight times as many pixels of a byte.
std::uint64_t bytes_of_szip(std::span<const std::byte> packed, std::span<const unsigned> settings,
                            std::uint64_t most, const std::string& subject) {
  constexpr std::size_t length_bytes = 4;
  if (packed.size() < length_bytes || settings.size() < 4) fail_to_unpack(subject);
  const std::uint64_t length = little_endian(packed.first(length_bytes));
  if (length > most) return length;
  const unsigned mask = settings[0], pixels_of_block = settings[1], bits = settings[2],
                 pixels_of_scanline = settings[3];
  constexpr unsigned most_pixels_of_block = 32, most_blocks = 128, most_bits = 24;
  const bool apart = bits == 32 || bits == 64;
  if (pixels_of_block == 0 || pixels_of_block % 2 != 0 || pixels_of_block > most_pixels_of_block ||
      pixels_of_scanline == 0 || pixels_of_scanline > most_blocks * pixels_of_block || bits == 0 ||
      (bits > most_bits && !apart)) {
    fail_to_unpack(subject);
  }
  const unsigned blocks = (pixels_of_scanline + pixels_of_block - 1) / pixels_of_block;
  std::array<std::byte, window_bytes> window;
  aec_stream stream{};
  stream.bits_per_sample = apart ? 8 : bits;
  stream.block_size = pixels_of_block;
  stream.rsi = blocks;
  stream.flags = AEC_NOT_ENFORCE;
  constexpr unsigned most_significant_first = 16;  // SZ_MSB_OPTION_MASK
  if ((mask & most_significant_first) != 0) stream.flags |= AEC_DATA_MSB;
  if ((mask & H5_SZIP_NN_OPTION_MASK) != 0) stream.flags |= AEC_DATA_PREPROCESS;
  if (aec_decode_init(&stream) != AEC_OK) fail_to_unpack(subject);
  const unsigned bytes_of_pixel = stream.bits_per_sample > 16  ? 4
                                  : stream.bits_per_sample > 8 ? 2
                                                               : 1;
  const std::uint64_t scanline = std::uint64_t{bytes_of_pixel} * pixels_of_scanline;
  const std::uint64_t filled = std::uint64_t{bytes_of_pixel} * blocks * pixels_of_block;
  const auto without_fill = [&](std::uint64_t made) {
    return made / filled * scanline + std::min(made % filled, scanline);
  };
  stream.next_in = reinterpret_cast<const unsigned char*>(packed.data() + length_bytes);
  stream.avail_in = packed.size() - length_bytes;
  int status = AEC_OK;
  std::size_t before = 0;
  do {
    before = stream.total_out;
    stream.next_out = reinterpret_cast<unsigned char*>(window.data());
    stream.avail_out = window.size();
    status = aec_decode(&stream, AEC_NO_FLUSH);
  } while (status == AEC_OK && stream.total_out > before &&
           without_fill(stream.total_out) < length);
  aec_decode_end(&stream);
  if (status != AEC_OK) fail_to_unpack(subject);
  return std::min(without_fill(stream.total_out), length);
}

#else

std::uint64_t bytes_of_szip(std::span<const std::byte>, std::span<const unsigned>, std::uint64_t,
                            const std::string& subject) {
  fail("{}: a chunk is packed by szip, which this program was built without", subject);
}

#endif

// Nbit stores the bits of each number that its type uses, without gaps (H5Znbit.c). Where a type uses
// all, it stores the numbers as they are.
std::uint64_t bytes_of_nbit(std::uint64_t packed, std::span<const unsigned> settings,
                            std::uint64_t chunk_bytes, const std::string& subject) {
  if (settings.size() < 8) fail_to_unpack(subject);
  const bool uses_all = settings[1] != 0;
  if (uses_all) return std::min(packed, chunk_bytes);
  const std::uint64_t elements = settings[2], width = settings[4], bits = settings[6],
                      unused_below = settings[7];
  if (bits == 0 || bits + unused_below > 8 * width) fail_to_unpack(subject);
  return bytes_of_numbers(packed, bits, elements, width);
}

// Scaleoffset stores how many bits each number takes, the least number behind its length, and then
// the bits without gaps (H5Zscaleoffset.c). If all bits were asked for, it stores the numbers as they
// are. `beginning` is that of `packed` bytes.
std::uint64_t bytes_of_scaleoffset(std::uint64_t packed, std::span<const std::byte> beginning,
                                   std::span<const unsigned> settings, std::uint64_t chunk_bytes,
                                   const std::string& subject) {
  constexpr std::uint64_t header_bytes = 21;
  constexpr unsigned most_bytes_of_least = 16;
  if (settings.size() < 5) fail_to_unpack(subject);
  const std::uint64_t elements = settings[2], width = settings[4];
  if (settings[0] == H5Z_SO_INT && settings[1] == 8 * width) return std::min(packed, chunk_bytes);
  if (packed < header_bytes || beginning.size() < header_bytes) return 0;
  const std::uint64_t bits = little_endian(beginning.first(4));
  if (bits > 8 * width || std::to_integer<unsigned>(beginning[4]) > most_bytes_of_least) {
    fail_to_unpack(subject);
  }
  return bytes_of_numbers(packed - header_bytes, bits, elements, width);
}

// Shuffle stores the first bytes of all elements, then the second ones (H5Zshuffle.c).
Bytes unshuffled(std::span<const std::byte> shuffled, std::size_t width) {
  Bytes bytes(shuffled.begin(), shuffled.end());
  const std::size_t elements = width > 0 ? shuffled.size() / width : 0;
  for (std::size_t i = 0; i < elements * width; ++i) {
    bytes[i % elements * width + i / elements] = shuffled[i];
  }
  return bytes;
}

}  // namespace

bool follows_szip() {
#ifdef MESHWORK_HAS_AEC
  return true;
#else
  return false;
#endif
}

std::string_view order_problem(std::span<const H5Z_filter_t> before, H5Z_filter_t filter) {
  const bool is_only_shuffled =
      std::ranges::all_of(before, [](H5Z_filter_t other) { return other == H5Z_FILTER_SHUFFLE; });
  const bool packs = packs_bytes(filter);
  if (std::ranges::any_of(before, packs_bytes)) {
    if (packs) return "beside another that packs";
    if (filter != H5Z_FILTER_FLETCHER32) return "behind one that packs";
  }
  if (packs_numbers(filter) && !is_only_shuffled) return "behind another";
  // What scaleoffset stores begins with its number of bits, which only deflate is unpacked for.
  if (packs && filter != H5Z_FILTER_DEFLATE && std::ranges::any_of(before, packs_numbers)) {
    return "behind one that packs numbers";
  }
  return {};
}

std::uint64_t most_bytes_stored(std::uint64_t chunk_bytes) {
  return chunk_bytes + chunk_bytes / 8 + 1024;
}

std::uint64_t unpacked_bytes(std::span<const ChunkFilter> filters, std::uint32_t skipped,
                             std::span<const std::byte> stored, std::uint64_t chunk_bytes,
                             const std::string& subject) {
  const std::uint64_t most = most_bytes_stored(chunk_bytes);
  const auto is_skipped = [&](std::size_t filter) { return (skipped >> filter & 1) != 0; };
  bool keeps = false;  // what is unpacked, and not only its size
  for (std::size_t i = 0; i < filters.size(); ++i) {
    keeps |= filters[i].filter == H5Z_FILTER_SCALEOFFSET && !is_skipped(i);
  }
  std::uint64_t bytes = stored.size();
  std::span<const std::byte> packed = stored;  // those bytes, if they are kept
  Bytes kept;
  for (std::size_t i = filters.size(); i-- > 0;) {
    if (is_skipped(i)) continue;
    const auto& [filter, settings] = filters[i];
    switch (filter) {
      case H5Z_FILTER_FLETCHER32:
        if (bytes < checksum_bytes) fail_to_unpack(subject);
        bytes -= checksum_bytes;
        packed = packed.first(std::min<std::size_t>(packed.size(), bytes));
        break;
      case H5Z_FILTER_SHUFFLE:
        if (keeps) {
          kept = unshuffled(packed, settings.empty() ? 0 : settings[0]);
          packed = kept;
        }
        break;
      case H5Z_FILTER_DEFLATE:
        bytes = bytes_of_deflate(packed, most, keeps ? &kept : nullptr, subject);
        packed = kept;
        break;
      case lzf_filter:
        bytes = bytes_of_lzf(packed, subject);
        break;
      case H5Z_FILTER_SZIP:
        bytes = bytes_of_szip(packed, settings, most, subject);
        break;
      case H5Z_FILTER_NBIT:
        bytes = bytes_of_nbit(bytes, settings, chunk_bytes, subject);
        break;
      case H5Z_FILTER_SCALEOFFSET:
        bytes = bytes_of_scaleoffset(bytes, packed, settings, chunk_bytes, subject);
        keeps = false;  // a shuffle before it keeps the size
        break;
      default:
        fail("{}: a chunk is packed by the filter {}, which is not read", subject, filter);
    }
  }
  return bytes;
}

}  // namespace meshwork
