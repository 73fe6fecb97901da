// Memory: a stretch of bytes and its owner, wherever it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace meshwork {

/// Owns a stretch of memory, of a device or of the host, aligned to 64 bytes at least.
class Memory {
 public:
  Memory() = default;
  Memory(void* data, std::int64_t bytes, std::function<void(void*)> release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::byte* bytes_at(std::int64_t offset) const {
    return static_cast<std::byte*>(data_) + offset;
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
  std::function<void(void*)> release_;
};

}  // namespace meshwork
