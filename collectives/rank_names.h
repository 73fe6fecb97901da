// The numbers by which messages name ranks.
//
// A job may be a part of a program's ranks: its ranks have roles (runtime/train/roles). The job
// numbers its ranks from 0. A user sees one program and one numbering, so messages name ranks by
// their numbers in the whole. `RankNames` says which these are. Without one, messages have the
// job's own numbers.
#pragma once

#include <vector>

#include "collectives/communicator.h"

namespace meshwork {

/// While it lives, messages name ranks of the job by their numbers in the program. A process has
/// one. No other thread asks for names while it is made or destroyed.
class RankNames {
 public:
  /// `part` are the ranks that are the job, or are about to be; `whole` are those of the program.
  RankNames(const Communicator& part, const Communicator& whole);
  ~RankNames();
  RankNames(const RankNames&) = delete;
  RankNames& operator=(const RankNames&) = delete;

 private:
  std::vector<int> names_;
  friend int name_of_rank(int rank);
};

/// The number by which messages name `rank` of the job.
[[nodiscard]] int name_of_rank(int rank);

}  // namespace meshwork
