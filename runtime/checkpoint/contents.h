// What a checkpoint holds, as values: the tensors of a model at their global shapes, and the state
// of the run that trained it.
//
// Everything needed to go on as if nothing had happened is here: on the same mesh bit for bit, on
// another one to rounding. Random numbers need no state, since they are functions of the seed, the
// step and the position (philox.h, order.h).
//
// A *tensor* has a *name*, its place in the file, and the *path* of the variable that it belongs
// to:
//
//     params/d1/kernel                              the variable d1/kernel
//     slots/d1/kernel/velocity                      an optimizer slot of it
//     callbacks/0-EarlyStopping/weights/d1/kernel   its value as a callback keeps it
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/device/kernel_record.h"
#include "runtime/shape/shape.h"

namespace meshwork {

/// The version of the format that this program writes; it reads all from 1 up to it.
inline constexpr std::int64_t checkpoint_format_version = 2;

enum class TensorKind : std::uint8_t {
  variable,
  slot,  // of the optimizer
  kept   // a variable's value that a callback keeps
};

/// One array of float32.
struct CheckpointTensor {
  TensorKind kind = TensorKind::variable;
  std::string path;       // of its variable: "d1/kernel"
  std::string slot;       // of a slot: its name, "velocity"
  int callback = -1;      // of a kept value: whose, an index into CheckpointState::callbacks
  bool trainable = true;  // whether its variable is trained
  Shape shape;            // global
  std::string layout;     // how it lay on the mesh: "[~, model]"
  /// The sum over all elements, modulo 2^64, of a mix of index and bits (checksum.h). It does not
  /// depend on any partition.
  std::uint64_t sum = 0;

  bool operator==(const CheckpointTensor&) const = default;
};

/// Where a variable stands in a Keras weights file.
struct KerasPlace {
  std::string variable;  // "d1/kernel"
  std::string place;     // "layers/dense/vars/0"

  bool operator==(const KerasPlace&) const = default;
};

/// One of the texts that the numbers of a column of the training data stand for; those of a column
/// follow each other in the order of their numbers (categories.h in runtime/data).
struct CategoryRecord {
  std::string column;
  std::string text;

  bool operator==(const CategoryRecord&) const = default;
};

/// What one callback remembers.
struct CallbackRecord {
  std::string class_name;
  std::map<std::string, std::variant<double, std::string>> state;
  bool keeps_weights = false;  // its tensors are among the checkpoint's

  bool operator==(const CallbackRecord&) const = default;
};

/// What the running means of an epoch are made of, where a checkpoint lies inside one.
struct RunningSums {
  std::vector<std::string> names;  // of the loss and the metrics
  std::vector<double> sums;        // by name
  double penalties = 0;
  std::int64_t rows = 0;

  bool operator==(const RunningSums&) const = default;
};

/// Everything but the tensors. Equal on all ranks.
struct CheckpointState {
  std::string program;  // that wrote it: "meshwork 0.1.0"
  std::string writer;   // how: "parallel, ompio with fcoll dynamic_gen2"
  std::string created;  // UTC: "2026-01-31T12:00:00Z"

  // Where the run stands.
  std::int64_t step = 0;     // updates of the parameters so far, over all epochs
  std::int64_t epoch = 0;    // of the next batch
  std::int64_t batch = 0;    // of the next batch, in its epoch; as many as an epoch has: only the
                             // epoch's end is left
  std::int64_t samples = 0;  // seen in this epoch
  RunningSums running;       // in this epoch
  bool stopped = false;      // a callback has ended the run
  bool averaged = false;     // weights and their running means have changed places

  // What it trains on. Inside an epoch these must be the same for going on.
  std::uint64_t seed = 0;
  std::string data;                        // fingerprint of the training data
  std::vector<CategoryRecord> categories;  // of the training data
  std::int64_t data_rows = 0;
  std::int64_t batch_size = 0;
  std::int64_t steps_per_epoch = 0;
  bool shuffle = false;
  std::int64_t epochs = 0;  // as asked for

  // How it trains.
  std::string optimizer;              // class
  std::vector<std::string> slots;     // names, in the optimizer's order
  std::string schedule;               // the learning rate as given: a number, or a schedule's class
  std::vector<double> keras_numbers;  // what Keras keeps behind the slots
  double learning_rate = 0;           // of the next update
  bool constant_rate = true;          // whether it is a number, which callbacks change
  std::string configuration;          // YAML; empty for a program of one's own
  std::vector<KerasPlace> keras_places;  // of all variables, in Keras's order (keras_places.h)

  // What fixes rounding. If one of these is another, the run goes on equal to rounding.
  std::string mesh;                   // "data=2 x model=4"
  std::string device;                 // kind and description
  std::string collectives;            // transport
  std::string precision = "float32";  // of products; what files of the first days do not say
  KernelRecord kernels;               // chosen by timing; none: they were not

  // What it has seen.
  std::vector<std::int64_t> history_epochs;
  std::map<std::string, std::vector<double>> history;  // by log: one value an epoch that had it
  std::vector<std::pair<std::string, double>> logs;    // of the epoch that has just ended
  std::vector<CallbackRecord> callbacks;

  bool operator==(const CheckpointState&) const = default;
};

/// The place of `tensor` in the file, with the class names of `callbacks`.
[[nodiscard]] std::string name_of(const CheckpointTensor& tensor,
                                  const std::vector<CallbackRecord>& callbacks);

}  // namespace meshwork
