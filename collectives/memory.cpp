#include "collectives/memory.h"

namespace meshwork {

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      release_(std::exchange(other.release_, nullptr)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  if (this == &other) return *this;
  if (release_) release_(data_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  release_ = std::exchange(other.release_, nullptr);
  return *this;
}

Memory::~Memory() {
  if (release_) release_(data_);
}

}  // namespace meshwork
