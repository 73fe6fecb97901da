// A group of ranks that talk to each other: an owner of one MPI communicator.
//
// `Communicator::world()` borrows MPI_COMM_WORLD, or what a `JobWithin` puts in its place; every
// other communicator is split or duplicated from one that exists and is freed by its owner. Errors
// of MPI calls are returned, never fatal inside MPI, and become exceptions here. Splitting and duplicating is done by all ranks of the
// parent, in the same order on all of them: communicators are made when a mesh or a plan is made,
// never inside a step.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace meshwork {

/// Whether mpirun, srun or the like started this process, as one rank of a job.
[[nodiscard]] bool started_by_launcher();

/// Initialises MPI for the life of the object (thread level MPI_THREAD_FUNNELED at least), unless
/// it was initialised before, and finalises it if it initialised it. `main` owns the only one, and
/// catches and reports exceptions inside its life: an exception that unwinds it ends the job, since
/// MPI_Finalize could wait forever for ranks that have not failed. A process without a launcher stays
/// alone: a program that calls MPI_Comm_spawn initialises MPI itself.
class MpiEnvironment {
 public:
  MpiEnvironment(int* argc, char*** argv);
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

 private:
  bool owned_ = false;
  int exceptions_outside_ = 0;
};

/// Ends the job on all ranks at once: flushes standard output, prints "rank R (host): message" on
/// standard error, then MPI_Abort with `exit_code`. Without a running MPI the process alone ends. In
/// a job that is a part of somebody's program (hosted.h), throws an `Error` instead.
[[noreturn]] void abort_job(int exit_code, const std::string& message);

class Communicator {
 public:
  /// Borrows the communicator of the job: MPI_COMM_WORLD unless there is a `JobWithin`. MPI must be
  /// initialised.
  static Communicator world();
  /// Duplicates `native`, which stays the caller's. Collective over it.
  static Communicator duplicate_of(MPI_Comm native);
  /// The calling rank alone; borrows MPI_COMM_SELF.
  static Communicator self();

  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  /// This rank's number in the communicator, from 0.
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// A new communicator of the ranks that give the same `color` (>= 0), numbered by `key`.
  /// Collective: every rank of this communicator calls it.
  [[nodiscard]] Communicator split(int color, int key) const;
  /// A new communicator of the same ranks with message matching of its own. Collective.
  [[nodiscard]] Communicator duplicate() const;
  /// A new communicator of the ranks that share this rank's memory (its node). Collective.
  [[nodiscard]] Communicator split_by_node() const;

  [[nodiscard]] MPI_Comm native() const { return native_; }
  /// Never frees it: MPI may still work on it (hosted.h).
  void leave() { owned_ = false; }

  /// What `owner`, a transport, keeps for this group of ranks, or null. It goes with this object.
  [[nodiscard]] void* attachment(const void* owner) const {
    for (const auto& [of, what] : attachments_) {
      if (of.get() == owner) return what.get();
    }
    return nullptr;
  }
  /// Keeps `what`, and `owner` so that no other owner can have its address.
  void attach(std::shared_ptr<const void> owner, std::shared_ptr<void> what) const {
    attachments_.emplace_back(std::move(owner), std::move(what));
  }

 private:
  Communicator(MPI_Comm native, bool owned);
  MPI_Comm native_ = MPI_COMM_NULL;
  bool owned_ = false;
  int rank_ = 0;
  int size_ = 1;
  mutable std::vector<std::pair<std::shared_ptr<const void>, std::shared_ptr<void>>> attachments_;
};

/// While it lives, `ranks` are the job: `Communicator::world()` borrows them, and messages name ranks
/// by their numbers in them. For a program that gives Meshwork some of its ranks. Made and destroyed
/// on these ranks alone, while nothing of an earlier job is alive. It ends before `ranks` does.
class JobWithin {
 public:
  explicit JobWithin(const Communicator& ranks);
  ~JobWithin();
  JobWithin(const JobWithin&) = delete;
  JobWithin& operator=(const JobWithin&) = delete;

 private:
  MPI_Comm around_;
};

}  // namespace meshwork
