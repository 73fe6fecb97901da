#include "runtime/device/device.h"

#include <array>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/cpu/cpu_device.h"

namespace meshwork {

bool Device::is_faster_in(Precision) const {
  return false;
}

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

namespace {

struct DeviceKind {
  std::string_view name;
  std::unique_ptr<Device> (*make)(const DeviceOptions&);  // null if it is not in this build
};

/// Every kind there is, the one that `auto` prefers first.
constexpr std::array<DeviceKind, 2> device_kinds{{
    {"cuda", nullptr},
    {"cpu", cpu::make_cpu_device},
}};

}  // namespace

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  if (options.ranks_on_node < 1 || options.rank_on_node < 0 ||
      options.rank_on_node >= options.ranks_on_node) {
    internal_error(fmt::format("a device was asked for as rank {} of {} on its node",
                               options.rank_on_node, options.ranks_on_node));
  }
  std::string built;
  for (const DeviceKind& kind : device_kinds) {
    if (kind.make == nullptr) continue;
    if (options.kind == "auto" || options.kind == kind.name) return kind.make(options);
    built += fmt::format("{}{}", built.empty() ? "" : ", ", kind.name);
  }
  for (const DeviceKind& kind : device_kinds) {
    if (options.kind == kind.name) {
      fail("device \"{}\" is not in this build, which has: {}", options.kind, built);
    }
  }
  fail("there is no device \"{}\"; this build has: {} (or auto)", options.kind, built);
}

}  // namespace meshwork
