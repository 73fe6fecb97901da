#include "runtime/device/device.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/cpu/cpu_device.h"
#ifdef MESHWORK_HAS_CUDA
#include "runtime/device/cuda/library.h"
#endif

namespace meshwork {

bool Device::is_faster_in(Precision) const {
  return false;
}

std::vector<KernelCandidate> Device::candidates(const KernelSpec&) {
  return {};
}

namespace {

struct DeviceKind {
  std::string_view name;
  bool computes_in_host_memory;
  bool (*reads_narrow_operands)();
  bool reads_relu_masks;
  std::unique_ptr<Device> (*make)(const DeviceOptions&);  // null if it is not in this build
  std::string (*why_unavailable)();  // on this machine, or empty; null if it is everywhere
};

bool always() {
  return true;
}

/// Every kind that is built in, the one that `auto` prefers first.
constexpr std::array<DeviceKind, 2> built_in_kinds{{
#ifdef MESHWORK_HAS_CUDA
    {"cuda", false, always, true, cuda::make_cuda_device, cuda::why_unavailable},
#else
    {"cuda", false, always, true, nullptr, nullptr},
#endif
    {"cpu", true, cpu::reads_narrow_operands, false, cpu::make_cpu_device, nullptr},
}};

struct AddedKind {
  std::string name;
  DeviceFactory make;
};

/// Those of this process, the last that was added first: `main` adds them, for all that it makes.
std::deque<AddedKind>& added_kinds() {
  static std::deque<AddedKind> kinds;
  return kinds;
}

/// Whether `auto` may take it.
bool is_available(const DeviceKind& kind) {
  return kind.why_unavailable == nullptr || kind.why_unavailable().empty();
}

}  // namespace

void add_device_kind(std::string name, DeviceFactory make) {
  const auto has_name = [&](const auto& kind) { return kind.name == name; };
  if (name.empty() || name == "auto" ||
      std::any_of(added_kinds().begin(), added_kinds().end(), has_name) ||
      std::any_of(built_in_kinds.begin(), built_in_kinds.end(), has_name)) {
    fail("a kind of device cannot be added as \"{}\": {}", name,
         name.empty() || name == "auto" ? "that is no name for one" : "there is one of that name");
  }
  added_kinds().push_front({std::move(name), std::move(make)});
}

std::vector<std::string> device_kinds() {
  std::vector<std::string> names;
  for (const AddedKind& kind : added_kinds()) names.push_back(kind.name);
  for (const DeviceKind& kind : built_in_kinds) names.emplace_back(kind.name);
  return names;
}

DeviceTraits traits_of_device(const std::string& kind) {
  for (const AddedKind& added : added_kinds()) {
    if (kind == "auto" || kind == added.name) return traits_of(*added.make({.kind = kind}));
  }
  for (const DeviceKind& one : built_in_kinds) {
    if (kind == one.name || (kind == "auto" && one.make != nullptr && is_available(one))) {
      return {std::string(one.name), one.computes_in_host_memory, one.reads_narrow_operands(),
              one.reads_relu_masks};
    }
  }
  fail("there is no device \"{}\"", kind);
}

DeviceTraits traits_of(const Device& device) {
  return {std::string(device.kind()), device.computes_in_host_memory(),
          device.reads_narrow_operands(), device.reads_relu_masks()};
}

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  if (options.ranks_on_node < 1 || options.rank_on_node < 0 ||
      options.rank_on_node >= options.ranks_on_node) {
    internal_error(fmt::format("a device was asked for as rank {} of {} on its node",
                               options.rank_on_node, options.ranks_on_node));
  }
  std::string built;
  for (const AddedKind& kind : added_kinds()) {
    if (options.kind == "auto" || options.kind == kind.name) return kind.make(options);
    built += fmt::format("{}{}", built.empty() ? "" : ", ", kind.name);
  }
  for (const DeviceKind& kind : built_in_kinds) {
    if (kind.make == nullptr) continue;
    if (options.kind == kind.name || (options.kind == "auto" && is_available(kind))) {
      return kind.make(options);
    }
    built += fmt::format("{}{}", built.empty() ? "" : ", ", kind.name);
  }
  for (const DeviceKind& kind : built_in_kinds) {
    if (options.kind == kind.name) {
      fail("device \"{}\" is not in this build, which has: {}", options.kind, built);
    }
  }
  fail("there is no device \"{}\"; this build has: {} (or auto)", options.kind, built);
}

}  // namespace meshwork
