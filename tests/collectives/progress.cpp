// Whether operations go on whatever others are under way: random sequences of started and blocking
// operations over communicators that are siblings, that overlap, and that hold the same ranks
// twice.
//
// All ranks draw the same script, and a rank does what concerns it: so the order is one order, as
// the contract asks, but ranks are at different places of it, since each rests now and then for a
// time of its own. Every result is held against arithmetic. What stops for ever is ended by the
// watchdog, which names the operation.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "collectives/shared_transport.h"
#include "collectives/watchdog.h"
#include "tests/support/catch.h"

namespace meshwork::progress_test {

namespace {

using Counts = std::vector<std::int64_t>;

/// A communicator that this rank may be outside of, and the numbers of its ranks in the job.
struct Group {
  std::unique_ptr<Communicator> communicator;  // null outside
  std::vector<int> members;
};

/// The groups of a job, the same list on all ranks; of siblings each rank has its own.
std::vector<Group> make_groups(const Communicator& world) {
  std::vector<Group> groups;
  const auto add = [&](int color, int key) {
    Communicator split = world.split(color + 1, key);
    Group group{nullptr, job_ranks_of(split)};
    if (color >= 0) group.communicator = std::make_unique<Communicator>(std::move(split));
    groups.push_back(std::move(group));
  };
  const int rank = world.rank();
  add(0, rank);
  add(0, rank);                                 // the same ranks once more
  add(0, -rank);                                // and in reverse
  add(rank % 2, rank);                          // siblings
  add(rank / 2, rank);                          // siblings across these
  add(rank < world.size() - 1 ? 0 : -1, rank);  // all but the last
  add(rank > 0 ? 0 : -1, rank);                 // all but the first
  return groups;
}

std::int64_t value_of(int job_rank, std::int64_t turn, std::int64_t i) {
  return (job_rank + 1) * 1000003 + turn * 977 + i % 1009;
}

/// One job's script, and what a rank keeps while it follows it.
class Script {
 public:
  Script(Transport& transport, const Communicator& world, CollectiveTrace& trace, unsigned seed)
      : transport_(transport),
        world_(world),
        trace_(trace),
        common_(seed),
        own_(seed * 1000 + static_cast<unsigned>(world.rank())),
        groups_(make_groups(world)),
        window_(transport.allocate(world, 8 * window_elements)) {}

  /// Returns the number of wrong elements.
  std::int64_t follow(int turns) {
    for (turn_ = 0; turn_ < turns; ++turn_) {
      do_one();
      rest();
    }
    while (!started_.empty()) wait_for(0);
    return wrong_;
  }

 private:
  static constexpr std::int64_t window_elements = 40'000;
  static constexpr std::size_t most_started = 12;

  /// An all-reduce under way.
  struct Started {
    std::string label;
    std::function<void()>
        finish;  // waits, and looks at the result; null where this rank is outside
  };

  int choose(int below) { return static_cast<int>(common_() % static_cast<unsigned>(below)); }

  /// Some time that is this rank's alone.
  void rest() {
    const unsigned drawn = own_() % 16;
    if (drawn == 0) std::this_thread::sleep_for(std::chrono::microseconds(own_() % 500));
    if (drawn < 4) std::this_thread::yield();
  }

  /// `operation`, as the watchdog shall see it; nothing where this rank is outside.
  void traced(const std::string& label, const std::function<void()>& operation) {
    const TracedCollective inside(&trace_, trace_.label(label));
    if (operation) operation();
  }

  void check(const std::int64_t* found, std::int64_t count,
             const std::function<std::int64_t(std::int64_t)>& expected) {
    for (std::int64_t i = 0; i < count; ++i) wrong_ += found[i] == expected(i) ? 0 : 1;
  }

  void wait_for(std::size_t index) {
    const Started started = std::move(started_[index]);
    started_.erase(started_.begin() + static_cast<std::ptrdiff_t>(index));
    traced("wait for " + started.label, started.finish);
    if (started_.empty()) window_taken_ = 0;
  }

  // Every draw is made by all ranks, whether or not they are in the group.
  void do_one() {
    const int kind = choose(10);
    const auto which = static_cast<std::size_t>(choose(static_cast<int>(groups_.size())));
    constexpr std::int64_t sizes[] = {1, 7, 60, 700, 5000, 30'000};
    const std::int64_t count = 1 + choose(static_cast<int>(sizes[choose(6)]));
    const bool in_window = choose(3) == 0;
    const int root = choose(64);
    if (kind >= 6 && !started_.empty() && choose(3) == 0) {
      wait_for(static_cast<std::size_t>(choose(static_cast<int>(started_.size()))));
      return;
    }
    if (kind == 9) {
      if (choose(8) != 0) return;
      traced("barrier", [&] { check_mpi(MPI_Barrier(world_.native()), "MPI_Barrier"); });
      return;
    }
    const Group& group = groups_[which];
    static constexpr const char* names[] = {"start",     "start",          "start",
                                            "start",     "all_reduce",     "all_gather",
                                            "broadcast", "reduce_scatter", "all_to_all"};
    const std::string label =
        fmt::format("turn {}: {} of {} in group {}", turn_, names[kind], count, which);
    const bool has_room = window_taken_ + count <= window_elements;
    std::int64_t* window = nullptr;
    if (in_window && has_room && kind < 4) {
      window = reinterpret_cast<std::int64_t*>(window_.data()) + window_taken_;
      window_taken_ += count;
    }
    if (kind < 4) {
      while (started_.size() >= most_started) wait_for(0);
      start(group, count, window, label);
      return;
    }
    traced(label, [&] {
      if (group.communicator != nullptr) block(kind, group, count, root);
    });
  }

  void start(const Group& group, std::int64_t count, std::int64_t* window,
             const std::string& label) {
    started_.push_back({label, nullptr});
    if (group.communicator == nullptr) return traced(label, nullptr);
    auto memory = std::make_shared<std::vector<std::int64_t>>(
        window == nullptr ? static_cast<std::size_t>(count) : 0);
    std::int64_t* buffer = window == nullptr ? memory->data() : window;
    for (std::int64_t i = 0; i < count; ++i) buffer[i] = value_of(world_.rank(), turn_, i);
    auto pending = std::make_shared<Pending>();
    traced(label, [&] {
      *pending = transport_.start(*group.communicator,
                                  AllReduce{ElementType::int64, Reduction::sum, count}, buffer);
    });
    started_.back().finish = [this, &group, memory, buffer, pending, count, turn = turn_] {
      pending->wait();
      check(buffer, count, [&](std::int64_t i) { return sum(group, turn, i); });
    };
  }

  static std::int64_t sum(const Group& group, std::int64_t turn, std::int64_t i) {
    std::int64_t total = 0;
    for (const int member : group.members) total += value_of(member, turn, i);
    return total;
  }

  void block(int kind, const Group& group, std::int64_t count, int root) {
    const Communicator& over = *group.communicator;
    const int ranks = over.size();
    const auto own = static_cast<std::size_t>(over.rank());
    std::vector<std::int64_t> send(static_cast<std::size_t>(count));
    std::vector<std::int64_t> receive(send.size(), -1);
    for (std::int64_t i = 0; i < count; ++i) {
      send[static_cast<std::size_t>(i)] = value_of(world_.rank(), turn_, i);
    }
    Counts counts, offsets;
    for (int part = 0; part < ranks; ++part) {
      offsets.push_back(count * part / ranks);
      counts.push_back(count * (part + 1) / ranks - offsets.back());
    }
    constexpr ElementType type = ElementType::int64;
    switch (kind) {
      case 4:
        transport_.run(over, AllReduce{type, Reduction::sum, count}, send.data());
        check(send.data(), count, [&](std::int64_t i) { return sum(group, turn_, i); });
        return;
      case 5:
        transport_.run(over, AllGather{type, counts, offsets}, send.data() + offsets[own],
                       receive.data());
        check(receive.data(), count, [&](std::int64_t i) {
          const auto from = std::ranges::upper_bound(offsets, i) - offsets.begin() - 1;
          return value_of(group.members[static_cast<std::size_t>(from)], turn_, i);
        });
        return;
      case 6: {
        const int from = root % ranks;
        transport_.run(over, Broadcast{type, count, from}, send.data());
        check(send.data(), count, [&](std::int64_t i) {
          return value_of(group.members[static_cast<std::size_t>(from)], turn_, i);
        });
        return;
      }
      case 7:
        transport_.run(over, ReduceScatter{type, counts}, send.data(), receive.data());
        check(receive.data(), counts[own],
              [&](std::int64_t i) { return sum(group, turn_, offsets[own] + i); });
        return;
      default: {
        // Everybody sends its block r to rank r, which has as many from each.
        Counts received(static_cast<std::size_t>(ranks), counts[own]), at;
        for (int part = 0; part < ranks; ++part) at.push_back(part * counts[own]);
        receive.assign(static_cast<std::size_t>(ranks * counts[own]), -1);
        transport_.run(over, AllToAll{type, counts, offsets, received, at}, send.data(),
                       receive.data());
        check(receive.data(), std::ssize(receive), [&](std::int64_t i) {
          const auto from = static_cast<std::size_t>(i / counts[own]);
          return value_of(group.members[from], turn_, offsets[own] + i % counts[own]);
        });
      }
    }
  }

  Transport& transport_;
  const Communicator& world_;
  CollectiveTrace& trace_;
  std::mt19937 common_, own_;
  std::vector<Group> groups_;
  TransportMemory window_;
  std::int64_t window_taken_ = 0;
  std::vector<Started> started_;
  std::int64_t turn_ = 0;
  std::int64_t wrong_ = 0;
};

}  // namespace

TEST_CASE("operations go on whatever others are under way") {
  const Communicator world = Communicator::world();
  Watchdog watchdog(world, {.seconds = 120});
  const bool little_room = GENERATE(false, true);
  const auto transport =
      little_room ? make_shared_transport(Communicator::world(), {.group = {.small_bytes = 64,
                                                                            .blocks_bytes = 128,
                                                                            .slot_bytes = 4096,
                                                                            .slots = 2,
                                                                            .calls = 3,
                                                                            .chunk_bytes = 256,
                                                                            .chunks = 2}})
                  : make_transport(GENERATE("shared", "auto"));
  for (unsigned seed = 1; seed <= 8; ++seed) {
    INFO("seed " << seed);
    Script script(*transport, world, watchdog.trace(), seed);
    CHECK(script.follow(150) == 0);
  }
}

}  // namespace meshwork::progress_test
