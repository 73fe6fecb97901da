// Workspaces of libraries: aligned to 256 bytes, of which the program's arena promises 64, and cut
// into pieces.
#pragma once

#include <cstddef>
#include <cstdint>

namespace meshwork::cuda {

constexpr std::int64_t workspace_alignment = 256;

[[nodiscard]] constexpr std::int64_t rounded_up(std::int64_t bytes) {
  return (bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
}

/// What to ask for so that `bytes` fit behind an aligned address.
[[nodiscard]] constexpr std::int64_t with_alignment(std::int64_t bytes) {
  return rounded_up(bytes) + workspace_alignment;
}

/// The first aligned address from `workspace` on.
[[nodiscard]] inline std::byte* aligned_workspace(void* workspace) {
  const auto address = reinterpret_cast<std::uintptr_t>(workspace);
  constexpr auto alignment = static_cast<std::uintptr_t>(workspace_alignment);
  return static_cast<std::byte*>(workspace) + (alignment - address % alignment) % alignment;
}

}  // namespace meshwork::cuda
