// ResidentData: all samples of a source in the memory of a device, for as long as a run goes over
// them again and again.
//
// They lie there as they are stored, bytes as bytes: of each field the rows one behind the other,
// each the block of a sample that this rank feeds. It may need any row, since samples are shuffled
// over all batches, so it has all of them. A step then gathers its rows and converts them
// (GatherSpec); what travels to the device are the numbers of the samples. The numbers that a step
// computes with are those that it would have been fed.
//
// Whether a set is kept so is decided by its size: it takes no more than `share_of_free_memory` of
// what is free of the device's own memory when it is loaded, so that most is left for what comes
// later. Where a rank has no room, none keeps it: steps that gather are other steps, and all ranks
// make them together. A device that computes in the host's memory has none of its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/batches.h"
#include "runtime/device/device.h"

namespace meshwork {

constexpr double share_of_free_memory = 0.25;

class ResidentData {
 public:
  ResidentData() = default;  // of nothing
  /// Loads the blocks of `fields` of all samples, in pieces. Throws `Error` for data that cannot be
  /// read, and for values that are no class where the field has classes.
  ResidentData(Device& device, const std::shared_ptr<const Source>& source,
               std::span<const FeedField> fields);

  /// Whether they may be kept there, as far as this rank can see.
  [[nodiscard]] static bool fits(Device& device, const Source& source,
                                 std::span<const FeedField> fields);

  [[nodiscard]] bool is_there() const { return !addresses_.empty(); }
  /// Where the rows of each field begin on the device.
  [[nodiscard]] std::span<const void* const> tables() const { return addresses_; }

 private:
  std::vector<Memory> tables_;
  std::vector<const void*> addresses_;
};

}  // namespace meshwork
