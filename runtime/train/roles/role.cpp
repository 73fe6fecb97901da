#include "runtime/train/roles/role.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <set>
#include <thread>

#include "collectives/error.h"
#include "collectives/hosted.h"
#include "collectives/thread_without_signals.h"
#include "runtime/config/reader.h"

namespace meshwork {

namespace {

constexpr const char* end_of_training = "end of training";
constexpr const char* return_of_role = "a role has returned";
constexpr const char* stop_of_job = "stop";
constexpr double longest_limit = 1e9;                                        // seconds
constexpr std::chrono::milliseconds between_looks{100};                      // at what ends a wait
constexpr std::int64_t most_ranks_of_job = std::numeric_limits<int>::max();  // of a job

}  // namespace

void RoleEnd::come() {
  change([this] { has_come_ = true; });
}

bool RoleEnd::has_come() const {
  rpc_->open();
  if (!rpc_->has_threads()) {
    if (look_) look_();
    rpc_->progress();
  }
  const std::scoped_lock lock(mutex_);
  return has_come_;
}

void RoleEnd::wait() {
  static_cast<void>(wait_for([] { return false; }));
}

void RoleEnd::await(const std::function<bool()>& is_over) {
  rpc_->open();
  if (rpc_->has_threads()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, is_over);
    return;
  }
  const auto look = [&] {
    if (look_) look_();
    const std::scoped_lock lock(mutex_);
    return is_over();
  };
  constexpr double no_limit = std::numeric_limits<double>::infinity();
  static_cast<void>(rpc_->serve(look, no_limit, "waiting for calls or the end of training"));
}

namespace {

/// Passes on to a rank that trains what asks this one to stop.
class PassedStop {
 public:
  PassedStop(const StopRequest& asked, Rpc& rpc, int trainer)
      : asked_(&asked), rpc_(&rpc), trainer_(trainer) {}
  /// By one thread.
  void look() {
    if (asked_->reason() <= told_) return;
    told_ = asked_->reason();
    try {
      static_cast<void>(rpc_->call(trainer_, stop_of_job, told_));
    } catch (const std::exception&) {  // the service has ended, which its owner says
    }
  }

 private:
  const StopRequest* asked_;
  Rpc* rpc_;
  int trainer_;
  int told_ = 0;
};

/// A thread that does so as long as it lives.
class StopPasser {
 public:
  explicit StopPasser(PassedStop& passed)
      : thread_(thread_without_signals([this, &passed] {
          std::unique_lock lock(mutex_);
          while (!wake_.wait_for(lock, between_looks, [this] { return is_over_; })) passed.look();
        })) {}
  ~StopPasser() {
    {
      const std::scoped_lock lock(mutex_);
      is_over_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  StopPasser(const StopPasser&) = delete;
  StopPasser& operator=(const StopPasser&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace

RoleMap map_of(const std::vector<RoleRanks>& roles) {
  RoleMap map;
  for (const RoleRanks& role : roles) map.add(role.name, role.class_name, role.count);
  return map;
}

void play(const RoleRanks& own, const RoleMap& roles, const RunConfig& config,
          const Communicator& ranks, Rpc& rpc, const StopRequest* asked) {
  const int trainer = roles.ranks_of(training_role).front();
  std::optional<PassedStop> passed;
  if (asked != nullptr) passed.emplace(*asked, rpc, trainer);
  RoleEnd end(rpc, [&passed] {
    if (passed) passed->look();
  });
  RoleRun run{config, ranks, rpc, end, roles};
  rpc.define(end_of_training, [&end] { end.come(); });
  try {
    {
      std::optional<StopPasser> passer;
      if (passed && rpc.has_threads()) passer.emplace(*passed);
      own.role->run(run);
      end.wait();
    }
    static_cast<void>(rpc.call(trainer, return_of_role));
    rpc.close();
  } catch (const std::exception& error) {
    abort_job(1, fmt::format("role {}: {}", own.name, message_of(error)));
  }
}

struct RolesAtWork::Returned {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<int> ranks;
};

RolesAtWork::RolesAtWork(const RoleMap& roles, Rpc& rpc, std::function<void(int)> stop)
    : roles_(&roles), rpc_(&rpc), returned_(std::make_shared<Returned>()) {
  for (int rank = 0; rank < roles.size(); ++rank) {
    if (roles.role_of(rank) != training_role) ranks_.push_back(rank);
  }
  rpc.define(return_of_role, [returned = returned_](RpcCaller caller) {
    {
      const std::scoped_lock lock(returned->mutex);
      returned->ranks.insert(caller.rank);
    }
    returned->changed.notify_all();
  });
  rpc.define(stop_of_job, [stop = std::move(stop)](int reason) {
    if (stop) stop(reason);
  });
}

void RolesAtWork::end(double seconds) {
  std::vector<RpcAnswer<void>> heard;
  for (const int rank : ranks_) heard.push_back(rpc_->call_within(0, rank, end_of_training));
  using Clock = std::chrono::steady_clock;
  const std::chrono::duration<double> limit(
      std::min(seconds == 0 ? longest_limit : seconds, longest_limit));
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  const auto have_all = [this] { return returned_->ranks.size() == ranks_.size(); };
  const auto wait_until = [&](Clock::time_point time) {
    if (rpc_->has_threads()) {
      std::unique_lock lock(returned_->mutex);
      return returned_->changed.wait_until(lock, time, have_all);
    }
    const auto look = [&] {
      const std::scoped_lock lock(returned_->mutex);
      return have_all();
    };
    const std::chrono::duration<double> left = time - Clock::now();
    return rpc_->serve(look, left.count(), "the end of roles");
  };
  const auto returned_ranks = [this] {
    const std::scoped_lock lock(returned_->mutex);
    return returned_->ranks;
  };
  while (!wait_until(std::min(until, Clock::now() + between_looks))) {
    if (Clock::now() >= until) break;
    if (Hosted* const hosted = Hosted::current()) hosted->look();
    const std::set<int> returned = returned_ranks();
    for (const int rank : ranks_) {
      if (!returned.contains(rank)) rpc_->require_present(rank, "at the end of training");
    }
  }
  const std::set<int> returned = returned_ranks();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (returned.contains(ranks_[i])) continue;
    fail("roles: rank {} ({}) has not ended {:g} s after training: {}", ranks_[i],
         roles_->role_of(ranks_[i]), seconds,
         heard[i].is_ready() ? "its role has not returned from `run`"
                             : "it answers no calls: its role does not ask for the end, or a "
                               "function of it does not return");
  }
}

namespace {

/// How many ranks have the role `entry`: what it is, or its key "ranks".
std::int64_t count_of(const ConfigEntry& entry, bool has_options) {
  constexpr const char* expected = KindOf<SharedRole>::expected_ranks;
  ConfigNode written = entry.value;
  if (written.is_map()) {
    ConfigReader reader(entry.value);
    written = reader.required_node("ranks", expected);
    if (!has_options) reader.finish();
  }
  std::int64_t count = 0;
  ConfigErrors wrong;
  const bool is_integer = wrong.check([&] { count = written.as<std::int64_t>(); });
  if (!is_integer || (count < 1 && count != -1)) {
    written.fail("expected {}, found {}", expected, written.found());
  }
  if (count > most_ranks_of_job) {
    written.fail("\"{}\" has {} ranks; a job has {} at most", entry.name, count, most_ranks_of_job);
  }
  return count;
}

/// The role of a class, with the options of `entry` if it has any.
SharedRole role_of(const ConfigEntry& entry, const CatalogEntry<SharedRole>& found,
                   const Catalog& catalog) {
  if (!entry.value.is_map()) return catalog.make<SharedRole>(entry.key);
  return entry.value.located(
      [&] {
        SharedRole role = found.make(entry.value, catalog);
        if (role == nullptr) fail("the role class {} made no role", found.class_name);
        return role;
      },
      found.class_name + ": ");
}

}  // namespace

void from_config(const ConfigNode& node, WrittenRoles& roles, const Catalog& catalog) {
  roles.entries.clear();
  ConfigErrors errors;
  bool trains = false;
  std::string open;  // the role that has all remaining ranks
  for (const ConfigEntry& entry : node.entries()) {
    errors.check([&] {
      RoleRanks ranks{.name = entry.name, .class_name = "", .role = nullptr};
      if (entry.name == training_role) {
        trains = true;
      } else if (const auto* const found = catalog.find<SharedRole>(entry.name)) {
        const auto same =
            std::ranges::find(roles.entries, found->class_name, &RoleRanks::class_name);
        if (same != roles.entries.end()) {
          entry.key.fail("\"{}\" and \"{}\" are one role; name it once", same->name, entry.name);
        }
        ranks.class_name = found->class_name;
        ranks.role = role_of(entry, *found, catalog);
      } else {
        std::vector<std::string> names = catalog.names_like<SharedRole>(entry.name);
        names.emplace_back(training_role);
        throw entry.key.unknown(KindOf<SharedRole>::word, names);
      }
      ranks.count = count_of(entry, ranks.role != nullptr);
      if (ranks.count == -1) {
        if (!open.empty()) {
          entry.value.fail("\"{}\" has all remaining ranks (-1) already; one role only can", open);
        }
        open = entry.name;
      }
      roles.entries.push_back(std::move(ranks));
    });
  }
  errors.raise();
  if (!trains) node.fail("there is no \"train\" among the roles; expected {}", roles.expected);
}

std::string to_text(const WrittenRoles& roles) {
  std::string text;
  for (const RoleRanks& entry : roles.entries) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", entry.name, entry.count);
  }
  return "{" + text + "}";
}

std::int64_t WrittenRoles::trainers() const {
  const auto found = std::ranges::find(entries, nullptr, &RoleRanks::role);
  return found == entries.end() ? 0 : found->count;
}

std::vector<RoleRanks> WrittenRoles::on(std::int64_t ranks) const {
  std::int64_t taken = 0;
  bool is_open = false;
  for (const RoleRanks& entry : entries) {
    if (entry.count > 0) taken += entry.count;
    is_open = is_open || entry.count < 0;
  }
  if (is_open ? taken >= ranks : taken != ranks) {
    fail("roles: {} are for {} ranks{}, and the job has {}", to_text(*this), taken,
         is_open ? " and at least one more" : "", ranks);
  }
  std::vector<RoleRanks> split = entries;
  std::int64_t first = 0;
  for (RoleRanks& entry : split) {
    if (entry.count < 0) entry.count = ranks - taken;
    entry.first = first;
    first += entry.count;
  }
  return split;
}

}  // namespace meshwork
