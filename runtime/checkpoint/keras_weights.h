// Keras 3's weights file, `.weights.h5`: read and written as Keras itself does
// (keras/src/saving/saving_lib.py). HDF5 alone, no MPI; any number of processes may read one file.
//
// A *place* is the path of one array in the file, `layers/dense/vars/0`. Everything that has
// variables has a group `vars` of arrays that are called 0, 1, ...; other groups, and attributes,
// mean nothing. The optimizer's are `optimizer/vars`: how many updates it has made, its learning
// rate unless that follows a schedule, then its slots, in an order of its own. Where the variables
// of a model stand is said in runtime/train/state/keras_places.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/contents.h"
#include "runtime/checkpoint/new_file.h"
#include "runtime/checkpoint/written_file.h"
#include "runtime/data/hdf5_handles.h"
#include "runtime/mesh/layout.h"

namespace meshwork {

/// Whether a file of this name is, or is to be, one of Keras's.
[[nodiscard]] bool has_keras_name(const std::filesystem::path& file);
/// Whether the HDF5 file in `file` says that it is a checkpoint of Meshwork. Throws `Error` for
/// what cannot be read as HDF5.
[[nodiscard]] bool is_checkpoint_file(const std::filesystem::path& file);

struct KerasArray {
  std::string place;
  Shape shape;
};

class KerasWeightsReader {
 public:
  /// Throws `Error` that says what `file` is if it is no such file.
  explicit KerasWeightsReader(const std::filesystem::path& file);

  [[nodiscard]] const std::filesystem::path& file() const { return path_; }
  /// All arrays, by group in alphabetical order and by number in it.
  [[nodiscard]] const std::vector<KerasArray>& arrays() const { return arrays_; }
  /// The array at `place`, or null.
  [[nodiscard]] const KerasArray* find(std::string_view place) const;
  /// Reads `block` of `array` as float32, row-major, from whatever numbers it has.
  void read(const KerasArray& array, const Block& block, std::span<float> destination) const;
  /// The number at `place`. Throws `Error` if there is not one number.
  [[nodiscard]] double read_number(std::string_view place) const;

 private:
  /// Adds what stands in the group `prefix`, "" or "layers/dense/". `met` is where groups are that
  /// were visited.
  void visit(const Hdf5Group& group, const std::string& prefix, int depth, std::set<haddr_t>& met);

  std::filesystem::path path_;
  std::string name_;
  Hdf5File file_;
  std::vector<KerasArray> arrays_;
  std::map<std::string, std::size_t, std::less<>> places_;
};

/// The optimizer as such a file has it.
struct KerasOptimizer {
  bool constant_rate = true;           // or it follows a schedule
  std::vector<std::string> slots;      // names, as Meshwork's optimizers have them
  std::vector<std::string> variables;  // the trained ones, in Keras's order
  std::vector<double> numbers = {};    // behind the slots
};

/// Writes a file under another name, which becomes `file` when it is whole. For one process to use.
/// All throw `FailedWrite`, and `Error` for what the format does not take.
class KerasWeightsWriter {
 public:
  explicit KerasWeightsWriter(const std::filesystem::path& file);
  /// Removes what has not been finished.
  ~KerasWeightsWriter();
  KerasWeightsWriter(const KerasWeightsWriter&) = delete;
  KerasWeightsWriter& operator=(const KerasWeightsWriter&) = delete;

  void write(const std::string& place, const Shape& shape, std::span<const float> values);
  /// A single int32, as the number of updates is.
  void write_integer(const std::string& place, std::int64_t value);
  /// What `optimizer` has behind its slots.
  void write_numbers(const KerasOptimizer& optimizer);
  /// Flushes, brings the file to the disk and gives it its name.
  void finish();

 private:
  void write_array(const std::string& place, hid_t stored, hid_t given, const Shape& shape,
                   const void* values);

  std::string name_;
  NewFile new_;
  WrittenFile file_;
};

/// What stands in `optimizer/vars` before the slots.
inline constexpr const char* keras_iteration_place = "optimizer/vars/0";
inline constexpr const char* keras_rate_place = "optimizer/vars/1";

/// Whether Keras's files have the state of an optimizer with these slots, in an order that is known.
/// They have in another form that of Muon, where slots of each variable follow from how it is
/// updated, and of Adafactor, where they follow from its dimensions.
[[nodiscard]] bool keras_keeps_state(const std::vector<std::string>& slots);

/// The place of slot number `slot` of variable number `variable`. The pairs of Adam
/// and its kin, Adadelta and Ftrl stand side by side; of everything else there is first one slot of
/// all variables.
[[nodiscard]] std::string keras_slot_place(const KerasOptimizer& optimizer, std::size_t slot,
                                           std::size_t variable);
/// The place of number `number` behind the slots.
[[nodiscard]] std::string keras_number_place(const KerasOptimizer& optimizer, std::size_t number);
/// How many arrays `optimizer/vars` has.
[[nodiscard]] std::size_t keras_optimizer_arrays(const KerasOptimizer& optimizer);

/// An array by its name in a checkpoint ("params/d1/kernel") and its place in Keras's file.
struct KerasName {
  std::string name;
  std::string place;
};
/// The optimizer of a checkpoint.
[[nodiscard]] KerasOptimizer keras_optimizer(const CheckpointState& state,
                                             const std::vector<CheckpointTensor>& tensors);
/// Of all variables of a checkpoint, and of all slots.
[[nodiscard]] std::vector<KerasName> keras_variables(const CheckpointState& state);
[[nodiscard]] std::vector<KerasName> keras_slots(const CheckpointState& state,
                                                 const std::vector<CheckpointTensor>& tensors);

}  // namespace meshwork
