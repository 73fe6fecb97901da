// Role: what ranks do that do not train.
//
//     roles: {train: 6, evaluate: 1}       # -1: all remaining ranks
//     roles: {train: 6, sample: {ranks: 2, exploration: 0.3}}     # with options
//
// The ranks of the job are split in the order in which the roles are written. Those that train are
// a job of their own: the mesh and checkpoints have their ranks alone, and results are the same as
// without the others. Messages name every rank by its number among all. All ranks can call each
// other's functions (runtime/rpc).
//
// A role is a class of the catalog. One of one's own is a page of an extension:
//
//     catalog.add<SharedRole, NoRoleOptions>("Sample", {"sample"}, [](const NoRoleOptions&) {
//       return std::make_shared<const Sample>();
//     });
//
// Its `run` defines functions and waits for the end of training. Asking for the end opens the
// service:
//
//     void run(RoleRun& run) const override {
//       auto& sampler = run.keep<Sampler>();
//       run.rpc.define("sample", [&sampler](std::int64_t count) { return sampler.samples(count); });
//       run.end.wait();
//     }
//
// It finds other roles' ranks in `run.roles`, and a callback in `Training::roles` (role_map.h).
//
// A signal that asks a rank to stop stops the job, whichever role the rank has. A role whose `run`
// has not returned some time after training has ended ends the job with an error that names it.
//
// **Functions outlive `run`**: other ranks may call them until all ranks have closed the service.
// So they use what `keep` makes, or `run` itself, and never variables of `run`.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "runtime/config/catalog.h"
#include "runtime/rpc/rpc.h"
#include "runtime/train/loop/stop_request.h"
#include "runtime/train/roles/role_map.h"

namespace meshwork {

class RunConfig;

/// Whether training has ended. Any thread may ask. Asking opens the service, since the news comes
/// by a call, so a role defines its functions first. Where calls have no threads, functions run in
/// the thread that asks.
class RoleEnd {
 public:
  /// `look` is called now and then by a thread that asks, where calls have no threads.
  explicit RoleEnd(Rpc& rpc, std::function<void()> look = {})
      : rpc_(&rpc), look_(std::move(look)) {}
  void come();
  [[nodiscard]] bool has_come() const;
  void wait();
  /// Waits until `ready()`, which `change` may have made true, or until it has come. Whether it is
  /// ready.
  template <class Ready>
  bool wait_for(const Ready& ready) {
    await([&] { return has_come_ || ready(); });
    const std::scoped_lock lock(mutex_);
    return ready();
  }
  /// Changes what `wait_for` looks at.
  template <class Change>
  void change(const Change& change) {
    {
      const std::scoped_lock lock(mutex_);
      change();
    }
    changed_.notify_all();
  }

 private:
  /// Returns when `is_over`, which is called with the mutex.
  void await(const std::function<bool()>& is_over);

  Rpc* rpc_;
  std::function<void()> look_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool has_come_ = false;
};

/// What a role has while it runs.
struct RoleRun {
  const RunConfig& config;    // as it is written, with what is for the ranks that train
  const Communicator& ranks;  // that have the role: the job, as long as it runs
  Rpc& rpc;                   // between all ranks, by their numbers among these
  RoleEnd& end;
  const RoleMap& roles;                       // of all ranks
  std::vector<std::shared_ptr<void>> kept{};  // by `keep`

  /// Makes what functions use. It lives until nobody can call them.
  template <class State, class... Arguments>
  State& keep(Arguments&&... arguments) {
    auto made = std::make_shared<State>(std::forward<Arguments>(arguments)...);
    kept.push_back(made);
    return *made;
  }
};

class Role {
 public:
  virtual ~Role() = default;
  /// Every rank that has the role calls it. What it throws ends the job. Returns after `run.end`.
  virtual void run(RoleRun& run) const = 0;
};
using SharedRole = std::shared_ptr<const Role>;

struct NoRoleOptions {};
template <class Visitor>
void describe(NoRoleOptions&, Visitor&) {}

template <>
struct KindOf<SharedRole> {
  static constexpr const char* word = "role";
  static constexpr const char* article = "a role, such as evaluate";
  static std::vector<std::string> other_keys() { return {"ranks"}; }
  static OptionText common_key() {
    return {.name = "ranks",
            .expected = expected_ranks,
            .initial = "",
            .help = "number of ranks with the role",
            .required = true};
  }
  static constexpr const char* expected_ranks = "a positive integer, or -1 for all remaining ranks";
};

/// Ranks that do the same, from `first` on.
struct RoleRanks {
  std::string name;        // as it is written
  std::string class_name;  // of the catalog; "": they train
  SharedRole role;         // null: they train
  std::int64_t first = 0, count = 0;
};

/// The section `roles`.
struct WrittenRoles {
  static constexpr const char* expected =
      "a map of roles and how many ranks have them, such as {train: 6, evaluate: 1}; with options: "
      "{train: 6, sample: {ranks: 1, speed: 3}}";
  std::vector<RoleRanks> entries;  // -1: all remaining ranks
  /// How many ranks train, as it is written; -1: all remaining; 0: there is no section.
  [[nodiscard]] std::int64_t trainers() const;
  /// Of a job of `ranks`. Throws `Error` if they are not for all of these.
  [[nodiscard]] std::vector<RoleRanks> on(std::int64_t ranks) const;
};
/// The same for callbacks and roles.
[[nodiscard]] RoleMap map_of(const std::vector<RoleRanks>& roles);

/// Does what `own` is, a role of this rank, until training has ended, and closes `rpc`. `ranks`
/// have the role. What the role throws ends the job. `asked`, which may be null, asks this rank to
/// stop: the first rank that trains is told.
void play(const RoleRanks& own, const RoleMap& roles, const RunConfig& config,
          const Communicator& ranks, Rpc& rpc, const StopRequest* asked = nullptr);

/// What the first rank that trains has to do with the ranks that do not. Made before `rpc` opens.
class RolesAtWork {
 public:
  /// `stop` is called, where functions run (rpc.h), with the reason for which one of them was asked
  /// to stop.
  RolesAtWork(const RoleMap& roles, Rpc& rpc, std::function<void(int reason)> stop = {});
  /// Tells them that training has ended, and waits until each has returned from its `run`. Throws
  /// `Error` with the role and the number of a rank that has not within `seconds`; 0: waits for
  /// ever. Throws `RanksParted` with those of a rank that is gone, on this node.
  void end(double seconds);

 private:
  struct Returned;

  std::vector<int> ranks_;
  const RoleMap* roles_;
  Rpc* rpc_;
  std::shared_ptr<Returned> returned_;
};

void from_config(const ConfigNode& node, WrittenRoles& roles, const Catalog& catalog);
[[nodiscard]] std::string to_text(const WrittenRoles& roles);

}  // namespace meshwork
