// A device that runs the CUDA device's own kernels on the host, for their tests. Matrix products,
// which are a library's, it computes by the definition; convolutions are the direct ones or, with
// `unfolds`, products where there are no groups.
#pragma once

#include <memory>
#include <set>
#include <typeindex>

#include "runtime/device/device.h"

namespace meshwork::test {

inline constexpr int processors_of_cuda_on_host = 7;

[[nodiscard]] std::unique_ptr<Device> make_cuda_on_host(bool unfolds = false);

/// The specifications that it has kernels for.
[[nodiscard]] std::set<std::type_index> cuda_on_host_kernels();

}  // namespace meshwork::test
