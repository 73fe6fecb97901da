// Copies and sums of boxes, and zeroing.
//
// Boxes are simplified (copy_boxes.h). A single contiguous one is a copy of bytes. Others are
// listed in a table in device memory, with as many boxes to a launch as stand one behind the other
// and write to intervals that do not meet; a thread an element finds its box, then its place in it,
// in the order of the destination, so that writes are coalesced. Bound by memory traffic where
// sources are contiguous too, by sectors of 32 bytes read for 4 where they are not.
#include <type_traits>
#include <vector>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/copy_table.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/elementwise.h"

namespace meshwork::cuda {

namespace {

template <class T>
struct CopyElements {
  const CopyEntry* entries;
  int entry_count;
  const T* source;
  T* destination;

  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const CopyEntry& entry = entries[entry_of(entries, entry_count, i)];
    const CopyPlace place = place_of(entry, i - entry.first);
    if constexpr (std::is_floating_point_v<T>) {
      if (entry.add) {
        destination[place.destination] += source[place.source];
        return;
      }
    }
    destination[place.destination] = source[place.source];
  }
};

template <class T>
KernelPointer copy(const CopyTable& table, const Context& context) {
  if (table.entries.empty()) return make_kernel([](void* const*) {});
  if (table.is_contiguous()) {
    const CopyEntry& only = table.entries.front();
    return make_kernel([from = only.source_offset, to = only.destination_offset,
                        bytes = only.count() * static_cast<std::int64_t>(sizeof(T)),
                        launcher = context.launcher](void* const* operands) {
      copy_bytes(launcher, at<T>(operands, 1) + to, at<const T>(operands, 0) + from, bytes);
    });
  }
  const auto uploaded = context.upload(
      table.entries.data(), static_cast<std::int64_t>(table.entries.size() * sizeof(CopyEntry)));
  return make_kernel(
      [uploaded, launches = table.launches, launcher = context.launcher](void* const* operands) {
        const auto* entries = static_cast<const CopyEntry*>(uploaded->data());
        for (const CopyLaunch& launch : launches) {
          for_elements(launcher, launch.elements,
                       CopyElements<T>{entries + launch.first, launch.count,
                                       at<const T>(operands, 0), at<T>(operands, 1)});
        }
      });
}

KernelPointer compile(const CopySpec& spec, const Context& context) {
  const CopyTable table = copy_table(spec, *context.launcher.name);
  if (table.adds()) {
    return spec.type == ElementType::float64 ? copy<double>(table, context)
                                             : copy<float>(table, context);
  }
  switch (element_bytes(spec.type)) {
    case 1:
      return copy<std::uint8_t>(table, context);
    case 4:
      return copy<std::uint32_t>(table, context);
    default:
      return copy<std::uint64_t>(table, context);
  }
}

KernelPointer compile(const ZeroSpec& spec, const Context& context) {
  return make_kernel([bytes = spec.bytes, launcher = context.launcher](void* const* operands) {
    zero_bytes(launcher, operands[0], bytes);
  });
}

}  // namespace

void add_copy(Kernels& kernels) {
  kernels.add<CopySpec, ZeroSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda
