// What a call carries: bytes, the small ones in front, the large ones in blocks.
//
// The *front* is copied. A *block* is not: it is sent from where it lies, and it arrives in memory of
// its own, aligned to 64 bytes at least, which whoever received it may keep or send on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace meshwork {

struct CallBlock {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void>
      owner;  // keeps them until they are sent; null: they outlive the service
};

struct CallPayload {
  static constexpr std::size_t most_blocks = 64;

  std::string front;
  std::vector<CallBlock> blocks;
};

/// Memory for blocks that arrive. While calls are under way, that of blocks which nobody holds any
/// more is used again: fresh pages cost as long as the message. From any thread.
class CallMemory : public std::enable_shared_from_this<CallMemory> {
 public:
  /// Throws std::bad_alloc.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes);
  /// Gives what is kept back to the system.
  void trim() noexcept;
  /// Bytes that are kept and that nobody holds.
  [[nodiscard]] std::size_t kept() const;

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept;
  };
  using Owner = std::unique_ptr<std::byte, Free>;
  struct Kept {
    std::size_t bytes;
    Owner data;
  };
  void take_back(Owner data, std::size_t bytes) noexcept;

  mutable std::mutex mutex_;
  std::vector<Kept> kept_;  // the latest last
};

}  // namespace meshwork
