#include "runtime/train/roles/role.h"

#include <algorithm>

#include "collectives/error.h"
#include "runtime/config/range.h"
#include "runtime/config/reader.h"

namespace meshwork {

namespace {

constexpr const char* training_role = "train";
constexpr const char* end_of_training = "end of training";
constexpr std::int64_t most_ranks_of_a_role = std::int64_t{1} << 31;

}  // namespace

void RoleEnd::come() {
  change([this] { has_come_ = true; });
}

bool RoleEnd::has_come() const {
  rpc_->open();
  const std::scoped_lock lock(mutex_);
  return has_come_;
}

void RoleEnd::wait() {
  static_cast<void>(wait_for([] { return false; }));
}

void play(const RoleRanks& own, const RunConfig& config, const Communicator& ranks, Rpc& rpc) {
  RoleEnd end(rpc);
  RoleRun run{config, ranks, rpc, end};
  rpc.define(end_of_training, [&end] { end.come(); });
  try {
    own.role->run(run);
    end.wait();
    rpc.close();
  } catch (const std::exception& error) {
    abort_job(1, fmt::format("role {}: {}", own.name, message_of(error)));
  }
}

void end_roles(const std::vector<RoleRanks>& roles, Rpc& rpc) {
  for (const RoleRanks& role : roles) {
    for (std::int64_t i = 0; role.role != nullptr && i < role.count; ++i) {
      static_cast<void>(rpc.call(static_cast<int>(role.first + i), end_of_training));
    }
  }
}

void from_config(const ConfigNode& node, WrittenRoles& roles, const Catalog& catalog) {
  roles.entries.clear();
  ConfigErrors errors;
  bool trains = false;
  int open = 0;
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
        ranks.role = catalog.make<SharedRole>(entry.key);
      } else {
        std::vector<std::string> names = catalog.names_like<SharedRole>(entry.name);
        names.emplace_back(training_role);
        throw entry.key.unknown(KindOf<SharedRole>::word, names);
      }
      ranks.count = entry.value.as<std::int64_t>(at_least(-1).up_to(most_ranks_of_a_role));
      if (ranks.count == 0) {
        entry.value.fail(
            "\"{}\" has 0 ranks; expected a positive integer, or -1 for all remaining ranks",
            entry.name);
      }
      if (ranks.count == -1 && ++open > 1) {
        entry.value.fail("one role only can have all remaining ranks (-1)");
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
