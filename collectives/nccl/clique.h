// Owners of what NCCL hands out, the check of its return codes, and the watch over what fails
// later.
//
// A *clique* is NCCL's communicator.
#pragma once

#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/element_type.h"

namespace meshwork::nccl {

/// Throws `Error` naming `call`, NCCL's own words and the caller, unless `code` is ncclSuccess.
void check_nccl(ncclResult_t code, std::string_view call,
                std::source_location where = std::source_location::current());

[[nodiscard]] ncclDataType_t native_type(ElementType type);

/// Calls between the making of a group and its end are one operation.
class Group {
 public:
  Group() { check_nccl(ncclGroupStart(), "ncclGroupStart"); }
  ~Group() {
    // Left by an error, which says what was wrong.
    if (!ended_) static_cast<void>(ncclGroupEnd());
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  void end(std::source_location where = std::source_location::current()) {
    ended_ = true;
    check_nccl(ncclGroupEnd(), "ncclGroupEnd", where);
  }

 private:
  bool ended_ = false;
};

/// Those that are made of parts of one share what they take of the GPU and of the network.
class Clique {
 public:
  /// Every rank of the communicator makes it at the same time, with the identifier that
  /// ncclGetUniqueId gave to one of them.
  Clique(const Communicator& ranks, const ncclUniqueId& identifier);
  /// Of the ranks of `whole`, which outlives it and of which nothing is under way, those of
  /// `part`, in their order there. Every rank of `whole` makes one at the same time, with the same
  /// `number` as the ranks of its part and no others; a part of one rank has none: `exists` says
  /// so.
  Clique(const Clique& whole, const Communicator& part, int number);
  /// Waits for all ranks' last operations; where an error unwinds it, aborts.
  ~Clique();
  Clique(const Clique&) = delete;
  Clique& operator=(const Clique&) = delete;

  [[nodiscard]] bool exists() const { return native_ != nullptr; }
  [[nodiscard]] ncclComm_t native() const { return native_; }
  [[nodiscard]] int size() const { return size_; }
  /// Takes NCCL's out of it, to be aborted: `exists` is false then.
  [[nodiscard]] ncclComm_t release() { return std::exchange(native_, nullptr); }
  /// Notes what is started, for messages. `operation` is a literal.
  void note(const char* operation) { last_.store(operation, std::memory_order_relaxed); }
  /// What went wrong after it was started; empty if nothing did. From any thread.
  [[nodiscard]] std::string failure() const;

 private:
  ncclComm_t native_ = nullptr;
  int size_;
  std::atomic<const char*> last_{"nothing"};
};

/// Ends what these have under way, without the ranks that never join it: parts before what they are
/// parts of. NCCL itself lets go of a communicator when the other ranks of the node do, or are gone,
/// which may be when this rank's error has ended the job: so it is waited for some seconds at most.
void abort_all(const std::vector<ncclComm_t>& cliques);

/// A thread that ends the job when an operation of a clique fails after it was started: some seconds
/// later, since it may have failed because a rank gives up after an error, which that rank reports.
class Watch {
 public:
  Watch();
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  /// The clique outlives this.
  void add(const Clique& clique);

 private:
  void look();

  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::vector<const Clique*> cliques_;
  std::thread thread_;
};

}  // namespace meshwork::nccl
