// The collectives of a few ranks on one node, through memory that all of them map.
//
// Words. The ranks of a group *call* the same operations in the same order; calls are numbered from
// 1. A rank *posts* a call by a note that says what it calls, with how many elements, and in which
// place of a window (shared_windows.h) its buffer is, if it is in one. Notes are kept for the last
// `calls` calls, each with room for `small_bytes` of data behind it. What a rank owes to others in
// a call, it has *finished* when it neither reads nor writes anything of theirs for it any more.
//
// Three ways, chosen by what all ranks know:
//   small     The data is posted with the note; everybody reads everybody's. One trip, and every
//             byte moves to every rank.
//   direct    All buffers are in windows: each rank works on its part of the result in everybody's
//             buffers, in place. Two trips, and every byte is moved once.
//   staged    In rounds through `slots` slots of `slot_bytes` a rank, that stay in the cache: a
//             rank *stages* its data, reduces its part (if there is something to reduce), and
//             takes what the others have made; later rounds are staged while earlier ones are on
//             their way.
// A reduction in parts is an all-reduce whose direct way leaves out writing the result to others: a
// barrier, which is a note without data, says when all have read what they needed.
// Small and direct meet where nothing is written to others: data in a window is read there and not
// posted with the note. That saves a copy and costs a trip, to say that all have read it: a bargain
// on cores that the ranks have to themselves, and not where they take turns.
// Messages between two ranks (exchange between few) have *channels*, a ring of chunks for each
// ordered pair, in which a chunk may also point to a place in a window. An all-to-all posts where
// its blocks are, with the note, in a window, or in channels.
//
// Invariants. Every counter has one writer, stands on a cache line of its own, only grows, and is
// never reset; it is stored with release and loaded with acquire order after, and before, the data
// that it speaks of. A slot is staged again only when all ranks have consumed the round before in
// it, a note is posted again only when all have finished its call. A reduction takes the ranks in
// their order whichever way it goes, so results are the same bit for bit on all ranks, in all ways,
// and on all later calls.
//
// Progress. A started all-reduce is posted at once. The started ones of a group are advanced in
// their order, as far as it goes without waiting, by every start, and by every wait over *any*
// group of the transport (the agenda knows which have some). Two rules make that enough:
//   - A call that is *done* on a rank needs nothing more of that rank for the others to be done
//     too.
//   - Ranks enter calls in one order (transport.h). So of all calls that are not done take the
//     first in that order: every rank of it has entered it or is on its way there, and each of
//     those that has is in a wait that advances it; nothing that it waits for is behind it.
// A wait for started calls therefore waits for a *state* (none left, this one done), never for an
// advance of its own: while it waits, the agenda may have brought the state about, and then there
// is nothing left to advance.
//
// While a rank waits, it looks whether another has given up or has died (shared_memory.h); it then
// throws, after leaving word for the others. A group is of no use after that. A rank that has
// waited for long sleeps, and whoever stores a counter rings (shared_bells.h). It listens for the
// one rank that it saw missing; or for anyone, where it could go on at several places or has
// started calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/collective.h"
#include "collectives/communicator.h"
#include "collectives/copy.h"
#include "collectives/element_type.h"
#include "collectives/shared_bells.h"
#include "collectives/shared_memory.h"
#include "collectives/shared_waiting.h"
#include "collectives/shared_windows.h"

namespace meshwork {

/// All sizes are multiples of 64 bytes. All ranks give the same.
struct SharedGroupOptions {
  std::int64_t small_bytes = 8192;
  /// The blocks of an all-to-all that go with its note, together: each is for one rank.
  std::int64_t blocks_bytes = 64 << 10;
  /// Data in a window of more bytes than this, though small, is worked on there,
  std::int64_t direct_bytes = 1024;
  /// unless ranks take turns on the cores, as this rank finds: the others read where its note says.
  bool crowded = false;
  std::int64_t slot_bytes = 64 << 10;  // at least; 64 a rank where that is more
  std::int64_t slots = 4;              // at least 2
  std::int64_t calls = 8;              // at least 2
  std::int64_t chunk_bytes = 64 << 10;
  std::int64_t chunks = 2;
};

class SharedGroup;

/// The groups of one transport with started operations.
class SharedAgenda {
 public:
  /// From now on `action` follows every `advance`.
  void follow_with(std::function<void()> action) { followed_by_ = std::move(action); }
  void add(SharedGroup* group) { groups_.push_back(group); }
  void remove(SharedGroup* group) { std::erase(groups_, group); }
  /// Does what can be done without waiting.
  void advance();
  /// Returns when nothing is left.
  void finish();
  [[nodiscard]] bool empty() const { return groups_.empty(); }

 private:
  std::vector<SharedGroup*> groups_;
  std::function<void()> followed_by_;
};

class SharedGroup : public std::enable_shared_from_this<SharedGroup> {
 public:
  /// Every rank of `node` calls it; there are at least two, on one node. Throws on all ranks if
  /// they cannot share memory.
  SharedGroup(const Communicator& node, const SharedGroupOptions& options,
              std::shared_ptr<const SharedWindows> windows,
              std::shared_ptr<const SharedBells> bells, std::shared_ptr<SharedAgenda> agenda);
  ~SharedGroup();
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  // As in collective.h, for at least one element. Blocks fit the group.
  void all_reduce(const AllReduce& what, void* buffer);
  [[nodiscard]] Compiled started(const AllReduce& what);
  void barrier();
  void reduce_scatter(const ReduceScatter& what, const void* send, void* receive);
  void all_gather(const AllGather& what, const void* send, void* receive);
  void broadcast(const Broadcast& what, void* buffer);
  void exchange(const Exchange& what, const void* send, void* receive);
  void all_to_all(const AllToAll& what, const void* send, void* receive);
  /// Asks for the pages that this rank needs to post the blocks of an all-to-all with its notes, so
  /// that no step has to.
  void expect_blocks(const AllToAll& what);

  /// Advances started operations as far as it goes without waiting; whether it went on.
  bool advance_started();
  /// Returns when all of them are done on this rank.
  void finish_started() { wait_until_left(0); }

 private:
  enum class Kind : std::uint8_t {
    all_reduce,
    reduce_in_parts,
    barrier,
    reduce_scatter,
    all_gather,
    broadcast,
    all_to_all
  };
  /// What ranks must agree on.
  struct What {
    Kind kind{};
    ElementType type{};
    Reduction reduction{};
    std::uint8_t unused = 0;
    std::int32_t root = 0;
    std::int64_t count = 0;
    bool operator==(const What&) const = default;
  };
  struct Note {
    std::uint64_t number;  // stored last
    What what;
    SharedPlace place;
  };
  enum class Way : std::uint8_t { undecided, small, direct, staged };
  /// An all-reduce on its way.
  struct Call {
    std::uint64_t number = 0;
    What what;
    std::byte* buffer = nullptr;
    Way way = Way::undecided;
    int seen = 0;  // ranks whose note was there
    std::uint64_t first_round = 0;
    std::int64_t rounds = 0, round_count = 0;  // elements
    std::int64_t staged = 0, reduced = 0, taken = 0;
    bool done = false;  // this rank has finished
  };
  class Started;
  struct ChunkNote {
    std::uint64_t number;  // of the chunk in its channel, from 1; stored last
    std::int64_t message_bytes;
    SharedPlace place;
  };
  /// A block of an all-to-all: where it begins in the sender's window, or behind its note.
  struct BlockNote {
    std::int64_t place, bytes;
  };
  [[nodiscard]] std::int64_t list_bytes() const {
    return size_ * static_cast<std::int64_t>(sizeof(BlockNote));
  }
  /// A message on its way, or coming.
  struct Message {
    int peer = 0;
    std::byte* data = nullptr;
    std::int64_t bytes = 0, moved = 0;
    SharedPlace place;
    std::uint64_t last_chunk = 0;  // of one that has to be read before it is sent
  };

  /// Asks for the pages of the bytes `from` to `to` of each place of `rank`'s for a call.
  void touch_calls(int rank, std::int64_t from, std::int64_t to);

  // Where things are.
  [[nodiscard]] std::byte* of_rank(int rank) const;
  [[nodiscard]] std::uint64_t& counter(int rank, int which) const;
  [[nodiscard]] Note& note(int rank, std::uint64_t number) const;
  [[nodiscard]] std::byte* small(int rank, std::uint64_t number) const;
  [[nodiscard]] std::byte* slot(int rank, std::uint64_t round) const;
  [[nodiscard]] std::byte* channel(int from, int to) const;
  [[nodiscard]] ChunkNote& chunk(int from, int to, std::uint64_t number) const;
  [[nodiscard]] std::byte* address(const SharedPlace& place, int rank) const;
  /// Where others may read `bytes` of `data`, if that pays: up to `room` could be posted instead.
  [[nodiscard]] SharedPlace place_to_read(const void* data, std::int64_t bytes,
                                          std::int64_t room) const;

  // Calls.
  std::uint64_t begin_call(const What& what, const SharedPlace& place);
  void post(std::uint64_t number);
  bool is_posted(int rank, std::uint64_t number, const What& what);
  bool all_posted(std::uint64_t number, const What& what, int& seen);
  [[nodiscard]] int count_in_windows(std::uint64_t number) const;
  /// Stores what others may wait for.
  void publish(std::uint64_t& word, std::uint64_t value);
  void publish(int which, std::uint64_t value) { publish(counter(rank_, which), value); }
  void finish(std::uint64_t number);
  void wait_until_all_finished(std::uint64_t number);
  // A call whose data is only read: in a window, or behind the note where it is small.
  void post_data(std::uint64_t number, const std::byte* data, std::int64_t bytes, bool is_small);
  /// Whether that is so of every rank's. Waits for their notes where it is not known at once.
  bool all_readable(std::uint64_t number, const What& what, bool is_small, int& seen);
  [[nodiscard]] const std::byte* posted(int rank, std::uint64_t number) const;
  /// The data of this rank, if it is in a window, is its caller's again afterwards.
  void finish_once_read(std::uint64_t number);
  bool all_reached(int which, std::uint64_t value);
  /// Waits until at most `count` started calls are left.
  void wait_until_left(std::ptrdiff_t count);
  bool may_stage(std::uint64_t round);

  // All-reduce, whole or in parts.
  static What what_of(const AllReduce& what);
  void begin_reduce(Call& call, const What& what, void* buffer);
  bool step(Call& call);
  bool step_staged(Call& call);
  void begin_rounds(Call& call);
  void reduce_small(const Call& call);
  void reduce_direct(const Call& call);

  // Waiting. `ready` leaves in `awaited_` a rank that is missing; if it can be made true by others
  // as well, they are several ways on.
  enum class Ways : std::uint8_t { one, several };
  template <class Ready>
  void wait_until(const Ready& ready, Ways ways = Ways::one);
  void at_leisure(double seconds);
  [[noreturn]] void give_up(const std::string& why);
  [[nodiscard]] std::string name_of_rank(int rank) const;

  // Messages.
  void move_messages();
  [[noreturn]] void part_over(int peer, std::int64_t sent, std::int64_t expected);
  bool push(Message& message);
  bool pull(Message& message);
  bool has_left(const Message& message);

  SharedGroupOptions options_;
  int rank_;
  int size_;
  std::vector<int> job_ranks_;
  std::shared_ptr<const SharedWindows> windows_;
  std::shared_ptr<const SharedBells> bells_;
  std::shared_ptr<SharedAgenda> agenda_;
  std::vector<SharedBells::Bell*> bells_of_others_;
  std::int64_t call_bytes_ = 0, rank_bytes_ = 0, channel_bytes_ = 0;
  std::int64_t touched_bytes_ = 64 + options_.small_bytes;  // of this rank's place of every call
  SharedMemory memory_;
  SharedWaiting waiting_;

  std::uint64_t calls_ = 0;
  std::uint64_t rounds_ = 0;                    // of all calls that were begun
  std::array<std::uint64_t, 4> reached_{};      // by all other ranks, as last seen
  std::vector<std::uint64_t> pushed_, pulled_;  // chunks, by rank
  std::vector<Message> outgoing_, incoming_;
  Copy copy_direct_ = copy_bytes;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> buffers_;

  std::vector<Started*> queue_;  // in the order of their start

  int awaited_ = 0;  // a rank that has not come yet
  Ways ways_ = Ways::one;
  int suspect_ = -1;
  double next_check_ = 0;  // seconds
};

template <class Ready>
void SharedGroup::wait_until(const Ready& ready, Ways ways) {
  ways_ = ways;
  suspect_ = -1;
  next_check_ = 0;
  waiting_.until(ready);
}

}  // namespace meshwork
