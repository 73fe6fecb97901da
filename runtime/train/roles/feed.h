// The role `feed`: ranks that read the training data for the others: find the rows, unpack files,
// decode images.
//
//     roles: {train: 6, feed: 2}
//
// Every rank opens the data and knows their fields and rows. Each rank that trains has one feeder, and
// gets its samples from it. The bytes are those that it would have read itself, so no number changes.
// The thread that reads ahead asks for them, so training waits only if the feeder is too slow.
#pragma once

#include <memory>

#include "runtime/data/source.h"
#include "runtime/rpc/rpc.h"

namespace meshwork {

/// Its class in the catalog.
inline constexpr const char* feeding_role = "Feed";

/// `source` as the feeder `rank` reads it, which has opened the same. It has to answer within
/// `seconds`; 0: when it likes. `rpc` outlives it. Waits for the feeder, and throws `Error` with both
/// fingerprints if it has other data.
[[nodiscard]] std::shared_ptr<const Source> fed_by(Rpc& rpc, int rank, double seconds,
                                                   std::shared_ptr<const Source> source);

}  // namespace meshwork
