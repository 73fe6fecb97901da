#include "runtime/train/state/resume.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/path_text.h"
#include "collectives/printable.h"
#include "collectives/rank_names.h"
#include "collectives/text_list.h"
#include "collectives/wrong_input.h"
#include "runtime/checkpoint/new_file.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/checkpoint/verdict.h"
#include "runtime/config/load.h"
#include "runtime/train/reporting/history.h"
#include "runtime/train/state/kept_categories.h"
#include "runtime/train/state/parameter_snapshot.h"
#include "runtime/train/state/read_blocks.h"
#include "runtime/train/state/saved_run.h"

namespace meshwork {
namespace {

// After what pauses that is asked for again which the system has refused: the disk or the network
// may come back.
constexpr std::array<std::chrono::milliseconds, 3> pauses_before_asking_again{
    std::chrono::milliseconds{500}, std::chrono::milliseconds{1000},
    std::chrono::milliseconds{2000}};

// What keeps the model from taking the checkpoint, all of it.
std::vector<std::string> differences(const Model::State& model, const CheckpointReader& reader,
                                     const CheckpointState& now) {
  const CheckpointState& then = reader.state();
  std::vector<std::string> found = tensor_differences(model, reader, "checkpoint", true, true);
  for (std::string& line : category_differences(now.categories, then.categories)) {
    found.push_back(std::move(line));
  }
  if (then.batch > 0) {
    const auto compare = [&](const char* what, const auto& a, const auto& b) {
      if (a != b) {
        found.push_back(fmt::format(
            "the checkpoint lies inside epoch {}, which cannot be continued with {} {} instead of "
            "{}",
            then.epoch + 1, what, a, b));
      }
    };
    compare("seed", now.seed, then.seed);
    compare("batch_size", now.batch_size, then.batch_size);
    compare("a number of training samples of", now.data_rows, then.data_rows);
    compare("a number of steps of", now.steps_per_epoch, then.steps_per_epoch);
    compare("shuffle", now.shuffle, then.shuffle);
    std::string names_now;
    std::string names_then;
    for (const std::string& name : now.running.names) names_now += " " + name;
    for (const std::string& name : then.running.names) names_then += " " + name;
    compare("the metrics", names_now, names_then);
  }
  return found;
}

// Where kernels were timed, and are not taken up, or the other way round.
void compare_kernels(const KernelRecord& now, const KernelRecord& then,
                     std::vector<std::string>& found) {
  if (now.platform == then.platform) return;
  const auto words = [](const KernelRecord& record) {
    return record.platform.empty() ? std::string("fixed") : "timed for " + record.platform;
  };
  found.push_back(fmt::format("kernels: {}{}, were {}; numbers go on equal to rounding", words(now),
                              now.platform.empty() ? "" : " anew", words(then)));
}

// How the run differs from the checkpoint `file` without being kept from going on.
std::vector<std::string> notes(const CheckpointState& now, const CheckpointState& then,
                               const std::filesystem::path& file) {
  std::vector<std::string> found;
  const auto compare = [&](const char* what, const auto& a, const auto& b, const char* means = "") {
    if (a != b) {
      found.push_back(fmt::format("{}: {}, was {}{}", what, a, b, means));
    }
  };
  constexpr const char* rounding = "; numbers go on equal to rounding";
  compare("mesh", now.mesh, then.mesh, rounding);
  compare("device", now.device, then.device, rounding);
  compare("collectives", now.collectives, then.collectives, rounding);
  compare("precision", now.precision, then.precision, "; from here on products are rounded so");
  compare_kernels(now.kernels, then.kernels, found);
  if (!then.data.empty()) {  // weights that nothing here has trained
    compare("training data", in_one_line(now.data), in_one_line(then.data));
  }
  if (now.configuration.empty() || then.configuration.empty()) {
    compare("epochs", now.epochs, then.epochs);
    compare("seed", now.seed, then.seed);
    compare("batch_size", now.batch_size, then.batch_size);
  } else {
    for (std::string& difference :
         configuration_differences({now.configuration, "the configuration"},
                                   {then.configuration, file.string() + ": configuration"})) {
      found.push_back(std::move(difference));
    }
  }
  if (now.schedule != then.schedule) {
    found.push_back(fmt::format(
        "learning rate: {} as given now, was {}{}", now.schedule, then.schedule,
        then.constant_rate ? fmt::format(" and is {} in the checkpoint", then.learning_rate) : ""));
  }
  return found;
}

std::string described(const std::string& class_name, const std::string& subject) {
  return subject.empty() ? class_name : fmt::format("{} ({})", class_name, subject);
}

// What a saved callback was about; none if the checkpoint does not say.
std::optional<std::string> subject_of(const CallbackRecord& record) {
  const auto found = record.state.find(subject_key);
  if (found == record.state.end() || !std::holds_alternative<std::string>(found->second)) {
    return std::nullopt;
  }
  return std::get<std::string>(found->second);
}

// By saved callback: the one that takes it up, or null. It is of the same class and about the same;
// of several such they are matched in order, and that is said.
std::vector<Callback*> match(const std::vector<CallbackRecord>& records,
                             const std::vector<SharedCallback>& callbacks,
                             std::vector<std::string>& said) {
  std::vector<Callback*> matched;
  std::set<const Callback*> taken;
  std::map<std::string, std::pair<int, int>> counts;  // saved, and now, by description
  for (const CallbackRecord& record : records) {
    const std::optional<std::string> subject = subject_of(record);
    const auto found =
        std::find_if(callbacks.begin(), callbacks.end(), [&](const SharedCallback& callback) {
          return taken.count(callback.get()) == 0 && callback->class_name() == record.class_name &&
                 (!subject || callback->subject() == *subject);
        });
    matched.push_back(found == callbacks.end() ? nullptr : found->get());
    const std::string name = described(record.class_name, subject.value_or(""));
    ++counts[name].first;
    if (found == callbacks.end()) {
      said.push_back(fmt::format(
          "callback {}: was there, is not now{}", name,
          record.state.contains(restored_key) ? "; the weights stay those that it restored" : ""));
    } else {
      taken.insert(found->get());
    }
  }
  for (const SharedCallback& callback : callbacks) {
    const std::string name = described(callback->class_name(), callback->subject());
    ++counts[name].second;
    if (taken.count(callback.get()) == 0) {
      said.push_back(fmt::format("callback {}: was not there, begins anew", name));
    }
  }
  for (const auto& [name, count] : counts) {
    if (count.first != count.second && count.first > 0 && count.second > 0) {
      said.push_back(fmt::format("callback {}: {} now, {} before; they are taken up in their order",
                                 name, count.second, count.first));
    }
  }
  return matched;
}

// Reads one checkpoint into the model; "" or what is damaged.
std::string load(Model::State& model, const std::filesystem::path& file, const CheckpointState& now,
                 const std::vector<SharedCallback>& callbacks, std::vector<std::string>& said,
                 std::optional<CheckpointState>& loaded) {
  const Communicator& all = model.mesh().all();
  CollectiveTrace* trace = &model.watchdog->trace();
  const TracedActivity reads(TracePoint(trace, "reading of " + file.string()));
  std::optional<CheckpointReader> reader;
  std::string damage = joint_damage(all, [&] { reader.emplace(file); },
                                    {trace, "agreement that all can read " + file.string()});
  if (!damage.empty()) {
    return damage;
  }
  const CheckpointState& then = reader->state();
  const std::vector<std::string> different = differences(model, *reader, now);
  if (!different.empty()) {
    std::string text = fmt::format("{}: the run cannot go on from this checkpoint:", file);
    for (const std::string& line : different) {
      text += "\n  " + line;
    }
    throw CheckpointMisfit(text);
  }
  said = notes(now, then, file);
  const std::vector<Callback*> matched = match(then.callbacks, callbacks, said);

  std::vector<std::shared_ptr<ParameterSnapshot>> kept(matched.size());
  std::vector<BlockTarget> targets = model_targets(model, *reader, true);
  const std::vector<ModelTensor> tensors = tensors_of(model);
  for (std::size_t c = 0; c < matched.size(); ++c) {
    if (matched[c] == nullptr || !then.callbacks[c].keeps_weights) {
      continue;
    }
    kept[c] = std::make_shared<ParameterSnapshot>(model.engine->parameters().form());
    for (const ModelTensor& one : tensors) {
      if (one.slot != its_value) {
        continue;
      }
      const std::string name = name_of(one.kept_by(c), then.callbacks);
      const CheckpointTensor* tensor = reader->find(name);
      if (tensor == nullptr || tensor->shape.size() != one.span->block.size()) {
        fail("{}: {} is missing, or of another shape", file, name);
      }
      targets.push_back({.tensor = tensor, .span = one.span, .kept = kept[c]->value(*one.span)});
    }
  }
  damage = read_blocks(model, *reader, targets);
  if (!damage.empty()) {
    return damage;
  }
  const TracedActivity gives(TracePoint(trace, "callbacks, which get what they had saved"));
  for (std::size_t c = 0; c < matched.size(); ++c) {
    if (matched[c] != nullptr) {
      CallbackState remembered = then.callbacks[c].state;
      remembered.erase(subject_key);
      matched[c]->load(remembered);
      if (kept[c]) {
        matched[c]->keep_weights(kept[c]);
      }
    }
  }
  loaded = then;
  return "";
}

// Why a checkpoint is not taken: for one of these, or it is taken.
struct Obstacle {
  std::string damage;
  std::string refusal;  // of the system, to the last
  [[nodiscard]] bool none() const { return damage.empty() && refusal.empty(); }
};

// Reads one checkpoint into the model, patiently.
Obstacle load_patiently(Model::State& model, const std::filesystem::path& file,
                        const CheckpointState& now, const std::vector<SharedCallback>& callbacks,
                        const Say& say, std::vector<std::string>& said,
                        std::optional<CheckpointState>& loaded) {
  for (std::size_t pause = 0;; ++pause) {
    try {
      return {load(model, file, now, callbacks, said, loaded), ""};
    } catch (const JointSystemFailure& failure) {
      if (pause == pauses_before_asking_again.size()) {
        return {"", fmt::format("{} (tried {} times)", failure.what(), pause + 1)};
      }
      say(fmt::format("{}; trying again", failure.what()));
      const TracedActivity waits(
          TracePoint(&model.watchdog->trace(), "waiting until the system gives " + file.string()));
      std::this_thread::sleep_for(pauses_before_asking_again[pause]);
    }
  }
}

// Rank 0's list, on all ranks.
std::vector<FoundCheckpoint> share(const Communicator& all,
                                   const std::vector<FoundCheckpoint>& own) {
  std::string text;
  for (const FoundCheckpoint& found : own) {
    append_entry(text, found.file.string());
    append_entry(text, std::to_string(found.step));
    append_entry(text, found.damage);
  }
  const std::vector<std::string> fields = entries_of(broadcast_text(all, text));
  std::vector<FoundCheckpoint> list;
  for (std::size_t i = 0; i + 2 < fields.size(); i += 3) {
    list.push_back({fields[i], std::stoll(fields[i + 1]), 0, fields[i + 2], std::nullopt});
  }
  return list;
}

void flatten(const ConfigNode& node, std::map<std::string, std::string>& leaves) {
  if (node.is_map()) {
    for (const ConfigEntry& entry : node.entries()) {
      flatten(entry.value, leaves);
    }
  } else if (node.is_sequence()) {
    for (const ConfigNode& element : node.elements()) {
      flatten(element, leaves);
    }
  } else {
    leaves[node.path()] = node.found();
  }
}

std::map<std::string, std::string> leaves_of(const NamedConfiguration& configuration) {
  std::map<std::string, std::string> leaves;
  flatten(parse_config(configuration.text, configuration.name), leaves);
  return leaves;
}

// What is passed over, and what it costs, where it cannot be missed.
void warn_of_passed_over(const std::vector<Obstacle>& passed, std::int64_t newest,
                         std::int64_t step, const Say& say) {
  bool all_damaged = true;
  for (const Obstacle& obstacle : passed) {
    all_damaged = all_damaged && obstacle.refusal.empty();
    say(obstacle.refusal.empty()
            ? "WARNING: damaged checkpoint: " + obstacle.damage
            : fmt::format("WARNING: {}; whether it is whole is not known", obstacle.refusal));
  }
  if (!passed.empty()) {
    const bool one = passed.size() == 1;
    const std::int64_t lost = std::max<std::int64_t>(newest - step, 0);
    say(fmt::format("WARNING: {} {}checkpoint{} passed over; the run goes back to step {}: {} lost",
                    passed.size(), all_damaged ? "damaged " : "", one ? " is" : "s are", step,
                    lost == 1 ? std::string("1 step is") : fmt::format("{} steps are", lost)));
  }
}

// There are some, and none of them can be read.
[[noreturn]] void fail_for_all(const std::string& directory, const std::vector<Obstacle>& all) {
  const bool one = all.size() == 1;
  std::string text =
      fmt::format("checkpoint directory {}: {}:", directory,
                  one ? std::string("its only checkpoint cannot be read")
                      : fmt::format("none of the {} checkpoints can be read", all.size()));
  bool refused = false;
  for (const Obstacle& obstacle : all) {
    text += "\n  " + obstacle.damage + obstacle.refusal;
    refused = refused || !obstacle.refusal.empty();
  }
  const char* them = one ? "it" : "them";
  text += refused ? fmt::format("\nstart again when the system gives {}, or ", them) : "\n";
  text += fmt::format("move {} away to begin anew", them);
  if (refused) throw Error(text);
  throw WrongInput(text);
}

// Where the run stands that goes on, and what is another for it.
void tell_resumed(const std::filesystem::path& file, const CheckpointState& then,
                  const std::vector<std::string>& said, const Say& say) {
  say(fmt::format("resumed from {}: step {}, {}", file, then.step,
                  then.batch > 0
                      ? fmt::format("epoch {}, after batch {} of {}", then.epoch + 1, then.batch,
                                    then.steps_per_epoch)
                      : fmt::format("{} epoch{} done", then.epoch, then.epoch == 1 ? "" : "s")));
  for (const std::string& line : said) {
    say("  " + line);
  }
}

}  // namespace

std::vector<std::string> configuration_differences(const NamedConfiguration& now,
                                                   const NamedConfiguration& before) {
  const std::map<std::string, std::string> mine = leaves_of(now);
  const std::map<std::string, std::string> theirs = leaves_of(before);
  std::vector<std::string> found;
  std::set<std::string> paths;
  for (const auto& [path, value] : mine) paths.insert(path);
  for (const auto& [path, value] : theirs) paths.insert(path);
  for (const std::string& path : paths) {
    // How checkpoints are taken, and what is shown, belongs to each run.
    // What precision and kernels there are stands in the checkpoint itself.
    if (path.starts_with("checkpoint.") || path == "fit.verbose" || path == "fit.profile" ||
        path == "precision" || path == "kernels") {
      continue;
    }
    const auto a = mine.find(path);
    const auto b = theirs.find(path);
    const std::string is = a == mine.end() ? "not given" : a->second;
    const std::string was = b == theirs.end() ? "not given" : b->second;
    if (is != was) {
      found.push_back(fmt::format("{}: {}, was {}", path, is, was));
    }
  }
  return found;
}

ResumeChoice resume_from(Model::State& model, const CheckpointOptions& options,
                         const CheckpointState& now, const std::vector<SharedCallback>& callbacks,
                         bool alone, const Say& say) {
  const Communicator& all = model.mesh().all();
  CollectiveTrace* trace = &model.watchdog->trace();
  const std::string directory = options.directory.string();
  CheckpointListing listing;
  {
    const TracedActivity lists(TracePoint(trace, "listing of " + directory));
    together(all,
             [&] {
               if (all.rank() == 0) {
                 listing = list_checkpoints(options.directory, options.best);
               }
             },
             {trace, fmt::format("waiting for rank {}'s list of {}", name_of_rank(0), directory)});
  }
  // The run begins, or goes on, beside what is none. Only the checkpoint of this name cannot be
  // written, if it comes to that.
  std::erase_if(listing.checkpoints, [&](const FoundCheckpoint& found) {
    std::error_code problem;
    const bool is_directory = std::filesystem::is_directory(found.file, problem);
    if (is_directory) {
      say(fmt::format("WARNING: {}: is a directory; no checkpoint can be written under its name",
                      found.file));
    }
    return is_directory;
  });
  ResumeChoice choice;
  choice.checkpoints = listing.checkpoints;
  const std::vector<FoundCheckpoint> candidates = [&] {
    const TracedCollective inside(TracePoint(trace, "sharing of the list of " + directory));
    return share(all, listing.checkpoints);
  }();
  for (const std::filesystem::path& file : listing.unfinished) {
    std::error_code problem;
    if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(file, problem))) {
      say(
          fmt::format("WARNING: {}: no run left this file, and it blocks the writing of a "
                      "checkpoint; move it elsewhere",
                      file));
      continue;
    }
    const bool removed = alone && remove_unfinished(file);
    say(fmt::format("{}: a checkpoint that was being written when a run was cut off; it is {}",
                    file, removed ? "removed" : "not read"));
  }
  if (options.resume == Resume::never) {
    together(all, [&] {
      if (all.rank() == 0) check_unused(options.directory);
    });
    return choice;
  }
  std::vector<Obstacle> passed;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const FoundCheckpoint& candidate = candidates[i];
    std::vector<std::string> said;
    const Obstacle obstacle =
        candidate.damage.empty()
            ? load_patiently(model, candidate.file, now, callbacks, say, said, choice.state)
            : Obstacle{candidate.damage, ""};
    if (obstacle.none()) {
      choice.file = candidate.file;
      if (all.rank() == 0) {
        choice.checkpoints[i].refusal.clear();  // it has given it after all
      }
      warn_of_passed_over(passed, candidates.front().step, choice.state->step, say);
      tell_resumed(candidate.file, *choice.state, said, say);
      return choice;
    }
    if (options.resume == Resume::strict) {
      const std::string text =
          fmt::format("the newest checkpoint cannot be read, and checkpoint.resume is strict: {}",
                      obstacle.damage + obstacle.refusal);
      if (obstacle.damage.empty()) throw Error(text);
      throw WrongInput(text);
    }
    if (all.rank() == 0) {
      choice.checkpoints[i].damage = obstacle.damage;
      choice.checkpoints[i].refusal = obstacle.refusal;
    }
    passed.push_back(obstacle);
  }
  if (!passed.empty()) {
    fail_for_all(directory, passed);
  }
  say(fmt::format("no checkpoint in {}: starting from scratch", directory));
  return choice;
}

}  // namespace meshwork
