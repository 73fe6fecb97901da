#include "runtime/device/device.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cuda/library.h"
#include "runtime/device/kernel_set.h"

namespace meshwork {

bool Device::is_faster_in(Precision) const {
  return false;
}

void refuse_kernel(const KernelSpec& spec) {
  fail("this device has no kernel for {}", spec.text());
}

// The file that has `type`.
static std::string library_of(const std::type_info& type) {
  Dl_info info{};
  return dladdr(&type, &info) != 0 ? info.dli_fname : "a library";
}

void refuse_types(const std::type_info& one, const std::type_info& other) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(one.name(), nullptr, nullptr, &status), std::free);
  fail(
      "{} and {} each have a specification of kernels called {}; it belongs in an unnamed "
      "namespace",
      library_of(one), library_of(other), name ? name.get() : one.name());
}

std::vector<KernelCandidate> Device::candidates(const KernelSpec&) {
  return {};
}

namespace {

struct DeviceKind {
  DeviceTraits (*traits)();
  std::unique_ptr<Device> (*make)(const DeviceOptions&);  // null if it is not in this build
  std::string (*why_unavailable)();  // on this machine, or empty; null if it is everywhere

  [[nodiscard]] std::string name() const { return traits().kind; }
};

/// Every kind that is built in, the one that `auto` prefers first.
constexpr std::array<DeviceKind, 2> built_in_kinds{{
#ifdef MESHWORK_HAS_CUDA
    {cuda::traits, cuda::make_cuda_device, cuda::why_unavailable},
#else
    {cuda::traits, nullptr, nullptr},
#endif
    {cpu::traits, cpu::make_cpu_device, nullptr},
}};

struct AddedKind {
  DeviceTraits traits;
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

void add_device_kind(DeviceTraits traits, DeviceFactory make) {
  const std::string& name = traits.kind;
  const std::vector<std::string> taken = device_kinds();
  if (name.empty() || name == "auto" || std::ranges::find(taken, name) != taken.end()) {
    fail("a kind of device cannot be added as \"{}\": {}", name,
         name.empty() || name == "auto" ? "that is no name for one" : "there is one of that name");
  }
  added_kinds().push_front({std::move(traits), std::move(make)});
}

void remove_device_kind(const std::string& kind) {
  std::erase_if(added_kinds(), [&](const AddedKind& one) { return one.traits.kind == kind; });
}

std::vector<std::string> device_kinds() {
  std::vector<std::string> names;
  for (const AddedKind& kind : added_kinds()) names.push_back(kind.traits.kind);
  for (const DeviceKind& kind : built_in_kinds) names.push_back(kind.name());
  return names;
}

DeviceTraits traits_of_device(const std::string& kind) {
  for (const AddedKind& added : added_kinds()) {
    if (kind == "auto" || kind == added.traits.kind) return added.traits;
  }
  for (const DeviceKind& one : built_in_kinds) {
    if (kind == one.name() || (kind == "auto" && one.make != nullptr && is_available(one))) {
      return one.traits();
    }
  }
  fail("there is no device \"{}\"", kind);
}

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  if (options.ranks_on_node < 1 || options.rank_on_node < 0 ||
      options.rank_on_node >= options.ranks_on_node) {
    internal_error(fmt::format("a device was asked for as rank {} of {} on its node",
                               options.rank_on_node, options.ranks_on_node));
  }
  std::string built;
  for (const AddedKind& kind : added_kinds()) {
    if (options.kind == "auto" || options.kind == kind.traits.kind) return kind.make(options);
    built += fmt::format("{}{}", built.empty() ? "" : ", ", kind.traits.kind);
  }
  for (const DeviceKind& kind : built_in_kinds) {
    if (kind.make == nullptr) continue;
    if (options.kind == kind.name() || (options.kind == "auto" && is_available(kind))) {
      return kind.make(options);
    }
    built += fmt::format("{}{}", built.empty() ? "" : ", ", kind.name());
  }
  for (const DeviceKind& kind : built_in_kinds) {
    if (options.kind == kind.name()) {
      fail("device \"{}\" is not in this build, which has: {}", options.kind, built);
    }
  }
  fail("there is no device \"{}\"; this build has: {} (or auto)", options.kind, built);
}

}  // namespace meshwork
