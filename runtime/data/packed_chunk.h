// Follows the stored bytes of an HDF5 chunk through its filters, before the library unpacks them.
//
// The library gives a filter memory for a whole chunk. If the file stores too little, nbit,
// scaleoffset and szip leave the rest of that memory as it is, or read on behind their input, and
// report success: whatever lay there becomes values. Deflate and LZF, in turn, take as much memory as
// their stream asks for. So the sizes are computed here first.
//
// Filters fall into four groups, named in the order in which a pipeline packs:
//
//   - shuffle, which keeps the size;
//   - those that pack numbers, nbit and scaleoffset, whose settings hold how many numbers there are;
//   - those that pack bytes, deflate, szip and LZF, whose streams end by themselves;
//   - fletcher32, a checksum of four bytes.
//
// foreign_hdf5.cpp refuses pipelines in which a size cannot be followed: `order_problem`.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

inline constexpr H5Z_filter_t lzf_filter = 32000;  // h5py's, by its number in HDF5's registry

struct ChunkFilter {
  H5Z_filter_t filter = 0;
  std::vector<unsigned> settings;  // as the file holds them, at most `most_filter_settings`
};
inline constexpr std::size_t most_filter_settings = 32;

/// Whether this program was built with libaec, without which szip's streams cannot be followed.
[[nodiscard]] bool follows_szip();

/// Why the size of a chunk cannot be followed through `filter` behind `before`, in the order in which
/// they pack: "behind one that packs". Empty if it can.
[[nodiscard]] std::string_view order_problem(std::span<const H5Z_filter_t> before,
                                             H5Z_filter_t filter);

/// The most bytes that a chunk takes in the file: its own, and what filters add that pack nothing.
[[nodiscard]] std::uint64_t most_bytes_stored(std::uint64_t chunk_bytes);

/// How many bytes of a chunk of `chunk_bytes` come out of `stored`, behind all `filters` except those
/// whose bit is set in `skipped`. Counting stops somewhere above `chunk_bytes`. Throws an `Error` that
/// begins with `subject` if a filter cannot unpack its input.
[[nodiscard]] std::uint64_t unpacked_bytes(std::span<const ChunkFilter> filters,
                                           std::uint32_t skipped, std::span<const std::byte> stored,
                                           std::uint64_t chunk_bytes, const std::string& subject);

}  // namespace meshwork
