// Copying bytes, through the caches or past them.
//
// A copy through the caches reads the lines that it overwrites. Where the destination would not
// stay in the caches until it is read, stores past them save that and leave to others what is
// there.
#pragma once

#include <cstdint>

namespace meshwork {

/// How bytes are copied: one of the two below. The ranges do not overlap; `bytes` may be 0. Stores
/// are ordered before those that come after it.
using Copy = void (*)(void* to, const void* from, std::int64_t bytes);

void copy_bytes(void* to, const void* from, std::int64_t bytes);
void stream_bytes(void* to, const void* from, std::int64_t bytes);

/// The copy for a part of `bytes` that a rank writes before it reads any of them.
[[nodiscard]] Copy copy_of(std::int64_t bytes);

}  // namespace meshwork
