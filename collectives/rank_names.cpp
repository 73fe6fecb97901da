#include "collectives/rank_names.h"

#include <atomic>

#include "collectives/nodes.h"

namespace meshwork {

namespace {

std::atomic<const RankNames*> current_names{nullptr};

}  // namespace

RankNames::RankNames(const Communicator& part, const Communicator& whole)
    : names_(ranks_in(whole, part)) {
  current_names = this;
}

RankNames::~RankNames() {
  current_names = nullptr;
}

int name_of_rank(int rank) {
  const RankNames* const names = current_names;
  if (names == nullptr || rank < 0 || rank >= static_cast<int>(names->names_.size())) return rank;
  return names->names_[static_cast<std::size_t>(rank)];
}

}  // namespace meshwork
