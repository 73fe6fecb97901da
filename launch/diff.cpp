// meshwork diff: how two files differ, array by array and in the state of their runs.
//
// Arrays are compared by value, element by element; a NaN equals a NaN. What decides is what a run
// is: variables, slots, weights that callbacks keep, and where the run stands. How it was run
// (mesh, layouts, device, program, configuration) is said and does not count.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "collectives/error.h"
#include "collectives/path_text.h"
#include "launch/checkpoint_files.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/keras_weights.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/checkpoint/regions.h"
#include "runtime/config/text_table.h"
#include "runtime/graph/plan_report.h"
#include "runtime/shape/block_parts.h"
#include "runtime/train/state/resume.h"
#include "runtime/train/state/weights.h"

namespace meshwork {
namespace {

// Elements that are read of both files at once.
constexpr std::int64_t part_elements = std::int64_t{1} << 22;

// A file as it is compared: arrays by name, and numbers of its state by name.
class Compared {
 public:
  virtual ~Compared() = default;
  struct Array {
    Shape shape;
    TensorKind kind = TensorKind::variable;
  };
  [[nodiscard]] const std::map<std::string, Array>& arrays() const { return arrays_; }
  /// Reads a part. The last part of an array has been read when `finish` is called for it.
  virtual void read(const std::string& name, const Block& block, std::span<float> values) = 0;
  /// Throws `Error` if what was read of an array is not what was written.
  virtual void finish(const std::string& name) = 0;
  [[nodiscard]] virtual const CheckpointState* state() const = 0;

 protected:
  std::map<std::string, Array> arrays_;
};

class ComparedCheckpoint final : public Compared {
 public:
  explicit ComparedCheckpoint(const std::filesystem::path& file) : reader_(file) {
    for (const CheckpointTensor& tensor : reader_.tensors()) {
      const std::string name = name_of(tensor, reader_.state().callbacks);
      arrays_[name] = {tensor.shape, tensor.kind};
    }
  }
  void read(const std::string& name, const Block& block, std::span<float> values) override {
    const CheckpointTensor& tensor = *reader_.find(name);
    reader_.read(tensor, block, values);
    sum_ += sum_of(tensor.shape, block, values);
  }
  void finish(const std::string& name) override {
    if (sum_ != reader_.find(name)->sum) {
      fail("{}: {}: the data differ from those written; `meshwork verify` names the regions",
           reader_.file(), name);
    }
    sum_ = 0;
  }
  [[nodiscard]] const CheckpointState* state() const override { return &reader_.state(); }
  [[nodiscard]] std::string name() const { return reader_.file().string(); }
  [[nodiscard]] const std::vector<CheckpointTensor>& tensors() const { return reader_.tensors(); }

 private:
  CheckpointReader reader_;
  std::uint64_t sum_ = 0;  // of what was read of one array
};

// Weights of Keras, under the names that `checkpoint` has for them, or their own if that is null.
class ComparedKeras final : public Compared {
 public:
  ComparedKeras(const std::filesystem::path& file, const ComparedCheckpoint* checkpoint)
      : reader_(file) {
    std::map<std::string, std::string> names;  // by place
    if (checkpoint != nullptr) {
      const CheckpointState& state = *checkpoint->state();
      for (const auto& [name, place] : keras_variables(state)) names[place] = name;
      for (const auto& [name, place] : keras_slots(state, checkpoint->tensors())) {
        names[place] = name;
      }
    }
    for (const KerasArray& array : reader_.arrays()) {
      if (checkpoint != nullptr &&
          (array.place == keras_iteration_place || array.place == keras_rate_place) &&
          array.shape.empty()) {
        continue;  // compared with the state
      }
      const auto name = names.find(array.place);
      const std::string shown = name == names.end() ? array.place : name->second;
      arrays_[shown] = {array.shape, array.place.starts_with("optimizer/") ? TensorKind::slot
                                                                           : TensorKind::variable};
      places_[shown] = array.place;
    }
  }
  void read(const std::string& name, const Block& block, std::span<float> values) override {
    reader_.read(*reader_.find(places_.at(name)), block, values);
  }
  void finish(const std::string&) override {}
  [[nodiscard]] const CheckpointState* state() const override { return nullptr; }
  [[nodiscard]] const KerasWeightsReader& reader() const { return reader_; }

 private:
  KerasWeightsReader reader_;
  std::map<std::string, std::string> places_;  // by name
};

struct Difference {
  std::int64_t elements = 0;
  std::int64_t different = 0;  // by more than the tolerance
  double absolute = 0;         // the largest; NaN if a number stands against a NaN
  double relative = 0;         // to the larger of the two
  std::int64_t at = -1;        // where the largest is, row-major
};

void compare(std::span<const float> a, std::span<const float> b, double tolerance,
             Difference& found) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i];
    const double y = b[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) {
      continue;
    }
    const double absolute = std::abs(x - y);
    if (absolute <= tolerance) {
      continue;
    }
    ++found.different;
    if (!std::isnan(found.absolute) && !(absolute <= found.absolute)) {
      found.absolute = absolute;
      found.at = found.elements + static_cast<std::int64_t>(i);
    }
    const double relative = absolute / std::max(std::abs(x), std::abs(y));
    if (!std::isnan(found.relative) && !(relative <= found.relative)) {
      found.relative = relative;
    }
  }
  found.elements += static_cast<std::int64_t>(a.size());
}

// "[3, 17]".
std::string place_text(std::int64_t at, const Shape& shape) {
  std::string text;
  for (std::size_t d = shape.size(); d-- > 0;) {
    text = std::to_string(at % shape[d]) + (text.empty() ? "" : ", ") + text;
    at /= shape[d];
  }
  return "[" + text + "]";
}

// What differs, as lines under a heading.
struct Differences {
  std::vector<std::string> decisive;
  std::vector<std::string> notes;
  std::string table;
  std::int64_t equal_arrays = 0;
  std::int64_t different_arrays = 0;
};

void compare_arrays(Compared& a, Compared& b, const CommandLine& line, Differences& findings) {
  const auto has = [](const Compared& file, TensorKind kind) {
    return std::any_of(file.arrays().begin(), file.arrays().end(),
                       [&](const auto& entry) { return entry.second.kind == kind; });
  };
  // Weights without an optimizer's state are no other weights; nor is a file of Keras different for
  // having no place for what callbacks keep.
  std::set<TensorKind> kinds{TensorKind::variable};
  for (const auto& [kind, what] : {std::pair{TensorKind::slot, "the state of an optimizer"},
                                   {TensorKind::kept, "weights that callbacks keep"}}) {
    if (line.weights_only || !has(a, kind) || !has(b, kind)) {
      if (!line.weights_only && has(a, kind) != has(b, kind)) {
        findings.notes.push_back(
            fmt::format("only {} has {}; it is not compared", has(a, kind) ? "A" : "B", what));
      }
      continue;
    }
    kinds.insert(kind);
  }
  TextTable table({"array", "shape", "different", "largest difference", "relative", "at"},
                  {2, 3, 4});
  std::vector<float> mine;
  std::vector<float> theirs;
  for (const auto& [name, array] : a.arrays()) {
    if (kinds.count(array.kind) == 0) {
      continue;
    }
    const auto other = b.arrays().find(name);
    if (other == b.arrays().end()) {
      findings.decisive.push_back(fmt::format("only A has {} {}", name, to_string(array.shape)));
      continue;
    }
    if (array.shape != other->second.shape) {
      findings.decisive.push_back(fmt::format("{} has shape {} in A, {} in B", name,
                                              to_string(array.shape),
                                              to_string(other->second.shape)));
      continue;
    }
    Difference found;
    for_each_part(whole(array.shape), part_elements, [&](const Block& part) {
      const auto count = static_cast<std::size_t>(size_of(part));
      mine.resize(count);
      theirs.resize(count);
      a.read(name, part, mine);
      b.read(name, part, theirs);
      compare(mine, theirs, line.tolerance, found);
    });
    a.finish(name);
    b.finish(name);
    if (found.different == 0) {
      ++findings.equal_arrays;
      continue;
    }
    ++findings.different_arrays;
    table.add({name, to_string(array.shape),
               fmt::format("{} of {}", found.different, found.elements),
               fmt::format("{:.3g}", found.absolute), fmt::format("{:.3g}", found.relative),
               place_text(found.at, array.shape)});
  }
  for (const auto& [name, array] : b.arrays()) {
    if (kinds.count(array.kind) > 0 && a.arrays().count(name) == 0) {
      findings.decisive.push_back(fmt::format("only B has {} {}", name, to_string(array.shape)));
    }
  }
  if (findings.different_arrays > 0) {
    findings.table = table.text(2, text_width(STDOUT_FILENO));
  }
}

// Whether two numbers are equal, or within the tolerance that the user gives for rounding. Two NaN
// are equal.
bool near(double a, double b, double tolerance) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance;
}

bool near(const RunningSums& a, const RunningSums& b, double tolerance) {
  bool equal = a.names == b.names && a.sums.size() == b.sums.size() && a.rows == b.rows;
  // Sums over rows; what is compared are the means.
  const double scale = tolerance * static_cast<double>(std::max<std::int64_t>(a.rows, 1));
  for (std::size_t i = 0; equal && i < a.sums.size(); ++i) {
    equal = near(a.sums[i], b.sums[i], scale);
  }
  return equal && near(a.penalties, b.penalties, scale);
}

bool near(const CallbackRecord& a, const CallbackRecord& b, double tolerance) {
  if (tolerance == 0) return a == b;
  if (a.class_name != b.class_name || a.keeps_weights != b.keeps_weights ||
      a.state.size() != b.state.size()) {
    return false;
  }
  return std::equal(a.state.begin(), a.state.end(), b.state.begin(),
                    [&](const auto& mine, const auto& theirs) {
                      const double* x = std::get_if<double>(&mine.second);
                      const double* y = std::get_if<double>(&theirs.second);
                      return mine.first == theirs.first &&
                             (x != nullptr && y != nullptr ? near(*x, *y, tolerance)
                                                           : mine.second == theirs.second);
                    });
}

// Adds "what: a, b" where they differ.
template <class Value>
void compare_value(const char* what, const Value& a, const Value& b,
                   std::vector<std::string>& found) {
  if (a != b) {
    found.push_back(fmt::format("{}: {} in A, {} in B", what, a, b));
  }
}

void compare_history(const CheckpointState& a, const CheckpointState& b, double tolerance,
                     std::vector<std::string>& found) {
  compare_value("epochs in the history", a.history_epochs.size(), b.history_epochs.size(), found);
  std::set<std::string> logs;
  for (const auto& [log, values] : a.history) logs.insert(log);
  for (const auto& [log, values] : b.history) logs.insert(log);
  for (const std::string& log : logs) {
    const auto mine = a.history.find(log);
    const auto theirs = b.history.find(log);
    if (mine == a.history.end() || theirs == b.history.end()) {
      found.push_back(
          fmt::format("history: only {} has {}", theirs == b.history.end() ? "A" : "B", log));
      continue;
    }
    const std::size_t common = std::min(mine->second.size(), theirs->second.size());
    for (std::size_t e = 0; e < common; ++e) {
      const double x = mine->second[e];
      const double y = theirs->second[e];
      if (!near(x, y, tolerance)) {
        found.push_back(fmt::format("history: {}: value {} is {} in A, {} in B", log, e + 1, x, y));
        break;  // what follows differs as well, as a rule
      }
    }
  }
}

void compare_states(const ComparedCheckpoint& file_a, const ComparedCheckpoint& file_b,
                    double tolerance, Differences& findings) {
  const CheckpointState& a = *file_a.state();
  const CheckpointState& b = *file_b.state();
  std::vector<std::string>& decisive = findings.decisive;
  compare_value("step", a.step, b.step, decisive);
  compare_value("epoch", a.epoch, b.epoch, decisive);
  compare_value("batch", a.batch, b.batch, decisive);
  compare_value("samples", a.samples, b.samples, decisive);
  compare_value("ended by a callback", a.stopped, b.stopped, decisive);
  compare_value("seed", a.seed, b.seed, decisive);
  compare_value("optimizer", a.optimizer, b.optimizer, decisive);
  if (!near(a.learning_rate, b.learning_rate, tolerance)) {
    compare_value("learning rate", a.learning_rate, b.learning_rate, decisive);
  }
  if (!near(a.running, b.running, tolerance)) {
    decisive.push_back("the sums of the epoch that they lie in differ");
  }
  compare_history(a, b, tolerance, decisive);
  compare_value("callbacks", a.callbacks.size(), b.callbacks.size(), decisive);
  for (std::size_t i = 0; i < std::min(a.callbacks.size(), b.callbacks.size()); ++i) {
    if (!near(a.callbacks[i], b.callbacks[i], tolerance)) {
      decisive.push_back(
          fmt::format("callback {} ({}): remembers something else", i, a.callbacks[i].class_name));
    }
  }
  std::vector<std::string>& notes = findings.notes;
  compare_value("mesh", a.mesh, b.mesh, notes);
  compare_value("device", a.device, b.device, notes);
  compare_value("collectives", a.collectives, b.collectives, notes);
  compare_value("precision", a.precision, b.precision, notes);
  if (a.kernels != b.kernels) notes.push_back("kernels: chosen by timing, not alike");
  compare_value("program", a.program, b.program, notes);
  compare_value("training data", a.data, b.data, notes);
  compare_value("batch size", a.batch_size, b.batch_size, notes);
  if (a.configuration.empty() != b.configuration.empty()) {
    notes.push_back(
        fmt::format("only {} has a configuration", a.configuration.empty() ? "B" : "A"));
  } else if (!a.configuration.empty()) {
    for (const std::string& difference :
         configuration_differences({b.configuration, file_b.name() + ": configuration"},
                                   {a.configuration, file_a.name() + ": configuration"})) {
      notes.push_back("configuration, B against A: " + difference);
    }
  }
}

// A checkpoint's state against the two numbers that Keras keeps of one.
void compare_with_keras(const CheckpointState& state, const KerasWeightsReader& keras,
                        std::vector<std::string>& found) {
  if (keras.find(keras_iteration_place) == nullptr) {
    return;
  }
  const double updates = keras.read_number(keras_iteration_place);
  if (updates != static_cast<double>(state.step)) {
    found.push_back(
        fmt::format("step: {} in the checkpoint, {} in Keras's file", state.step, updates));
  }
  if (state.constant_rate && keras.find(keras_rate_place) != nullptr) {
    const double rate = keras.read_number(keras_rate_place);
    if (static_cast<float>(rate) != static_cast<float>(state.learning_rate)) {
      found.push_back(fmt::format("learning rate: {} in the checkpoint, {} in Keras's file",
                                  state.learning_rate, rate));
    }
  }
}

}  // namespace

Said diff(const CommandLine& line) {
  const std::filesystem::path names[2] = {weights_file(line.files[0]), weights_file(line.files[1])};
  std::unique_ptr<ComparedCheckpoint> checkpoints[2];
  std::unique_ptr<ComparedKeras> keras[2];
  for (int i = 0; i < 2; ++i) {
    if (is_checkpoint_file(names[i])) {
      checkpoints[i] = std::make_unique<ComparedCheckpoint>(names[i]);
    }
  }
  Compared* files[2];
  for (int i = 0; i < 2; ++i) {
    if (!checkpoints[i]) {
      keras[i] = std::make_unique<ComparedKeras>(names[i], checkpoints[1 - i].get());
    }
    files[i] = checkpoints[i] ? static_cast<Compared*>(checkpoints[i].get()) : keras[i].get();
  }
  Differences findings;
  compare_arrays(*files[0], *files[1], line, findings);
  if (line.weights_only) {
    // Nothing else counts.
  } else if (checkpoints[0] && checkpoints[1]) {
    compare_states(*checkpoints[0], *checkpoints[1], line.tolerance, findings);
  } else if (checkpoints[0] || checkpoints[1]) {
    const int checkpoint = checkpoints[0] ? 0 : 1;
    compare_with_keras(*checkpoints[checkpoint]->state(), keras[1 - checkpoint]->reader(),
                       findings.decisive);
  }
  const bool different = findings.different_arrays > 0 || !findings.decisive.empty();
  Said said{different ? 1 : 0, fmt::format("A: {}\nB: {}\n", names[0].string(), names[1].string()),
            ""};
  const std::size_t width = text_width(STDOUT_FILENO);
  said.text += findings.table;
  for (const std::string& found : findings.decisive) {
    said.say(wrapped("  " + found, width), Colour::yellow);
    said.text += '\n';
  }
  for (const std::string& note : findings.notes) {
    said.text += wrapped("  note: " + note + '\n', width);
  }
  said.say(different ? "DIFFERENT" : "equal", different ? Colour::red : Colour::green);
  said.text += fmt::format(": {} arrays are equal{}, {} differ{}\n", findings.equal_arrays,
                           line.tolerance > 0 ? fmt::format(" within {}", line.tolerance) : "",
                           findings.different_arrays,
                           findings.decisive.empty()
                               ? ""
                               : fmt::format("; {} other differences", findings.decisive.size()));
  return said;
}

}  // namespace meshwork
