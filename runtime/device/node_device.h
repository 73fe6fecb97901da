// The device of a rank among the ranks of its node.
//
// A process sees what CUDA_VISIBLE_DEVICES shows it: each rank of a node may be shown another GPU,
// or all of them the same one. Only together do ranks know whether they share: they compare the
// hardware that each has got.
#pragma once

#include <memory>
#include <string>

#include "collectives/communicator.h"
#include "runtime/device/device.h"

namespace meshwork {

/// `make_device` for a rank of `node`, the ranks of one node, which all call it. The device knows
/// how many of them share its hardware. Throws on all of them if one rank gets no device.
[[nodiscard]] std::unique_ptr<Device> make_device_on_node(const std::string& kind,
                                                          const Communicator& node);

}  // namespace meshwork
