#include "runtime/device/launched_kernels.h"

#include <algorithm>
#include <typeindex>

#include "runtime/device/kernel_set.h"

namespace meshwork::gpu {

namespace {

/// What extensions of this process have entered.
std::vector<std::function<void(Kernels&)>>& extensions() {
  static std::vector<std::function<void(Kernels&)>> all;
  return all;
}

}  // namespace

void Kernels::add(const std::type_info& type, std::function<Launch(const KernelSpec&)> make) {
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return *entry.type == type; });
  if (found == entries_.end()) {
    entries_.push_back({&type, std::move(make)});
    return;
  }
  if (found->type != &type) refuse_types(*found->type, type);
  found->make = std::move(make);
}

std::optional<Launch> Kernels::find(const KernelSpec& spec) const {
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return spec.type() == *entry.type; });
  if (found == entries_.end()) return std::nullopt;
  spec.check();
  return found->make(spec);
}

void extend_kernels(std::function<void(Kernels&)> enter) {
  extensions().push_back(std::move(enter));
}

Kernels extended_kernels() {
  Kernels kernels;
  for (const auto& enter : extensions()) enter(kernels);
  return kernels;
}

}  // namespace meshwork::gpu
