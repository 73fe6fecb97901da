// The fields of a checkpoint, described once: how each is called in the file, and what it is. From
// it follow the writing (format.cpp), the reading (parse.cpp) and what `meshwork inspect` lists.
//
// A visitor gets the fields in the order in which the file has them:
//
//     field(name, value)            an attribute: a number, a truth as 0 or 1, or a short text
//     field.dataset(name, value)    a dataset: a text, or a list of texts or numbers
//     field.columns(a, b, pairs)    two datasets as long as each other, of the pairs of a list
//
// History and callbacks, whose names are not known beforehand, have functions of their own.
#pragma once

#include <string_view>
#include <utility>

#include "runtime/checkpoint/contents.h"

namespace meshwork {

/// Whether files of the first days lack the attribute, or the columns of which this is the first;
/// then the initial value stands.
[[nodiscard]] constexpr bool came_later(std::string_view name) {
  return name == "precision" || name == "averaged" || name == "keras_variables" ||
         name == "keras_numbers" || name == "category_columns" || name.starts_with("kernel");
}

/// Attributes of the file itself.
template <class State, class Field>
void describe_file(State& state, Field& field) {
  field("program", state.program);
  field("writer", state.writer);
  field("created", state.created);
  field("step", state.step);
  field("epoch", state.epoch);
  field("mesh", state.mesh);
}

/// What stands below /state.
template <class State, class Field>
void describe_state(State& state, Field& field) {
  field("batch", state.batch);
  field("samples", state.samples);
  field("stopped", state.stopped);
  field("averaged", state.averaged);
  field("seed", state.seed);
  field("data_rows", state.data_rows);
  field("batch_size", state.batch_size);
  field("steps_per_epoch", state.steps_per_epoch);
  field("shuffle", state.shuffle);
  field("epochs", state.epochs);
  field("learning_rate", state.learning_rate);
  field("constant_rate", state.constant_rate);
  field("running_penalties", state.running.penalties);
  field("running_rows", state.running.rows);
  field("optimizer", state.optimizer);
  field("schedule", state.schedule);
  field("device", state.device);
  field("collectives", state.collectives);
  field("precision", state.precision);
  field("kernels_platform", state.kernels.platform);
  field.dataset("running_names", state.running.names);
  field.dataset("running_sums", state.running.sums);
  field.dataset("slots", state.slots);
  field.dataset("keras_numbers", state.keras_numbers);
  field.dataset("data", state.data);
  field.dataset("configuration", state.configuration);
  field.columns("keras_variables", "keras_places", state.keras_places);
  field.columns("category_columns", "category_texts", state.categories);
  field.columns("log_names", "log_values", state.logs);
  field.columns("kernel_specifications", "kernel_candidates", state.kernels.chosen);
}

/// Attributes of a tensor's dataset.
template <class Tensor, class Field>
void describe_tensor(Tensor& tensor, Field& field) {
  field("kind", tensor.kind);
  field("path", tensor.path);
  field("slot", tensor.slot);
  field("callback", tensor.callback);
  field("trainable", tensor.trainable);
  field("layout", tensor.layout);
  field("sum", tensor.sum);
}

/// Attributes of a callback's group.
template <class Record, class Field>
void describe_callback(Record& record, Field& field) {
  field("class", record.class_name);
  field("keeps_weights", record.keeps_weights);
}

template <class Pair>
[[nodiscard]] auto second_of(const Pair& pair) {
  const auto& [first, second] = pair;
  return second;
}
/// The type of the second column of such pairs.
template <class Pairs>
using SecondOf = decltype(second_of(*std::declval<const Pairs&>().begin()));

/// How kinds of tensors are called in files.
struct TensorKindName {
  TensorKind kind;
  const char* name;
};
inline constexpr TensorKindName tensor_kinds[] = {
    {TensorKind::variable, "variable"}, {TensorKind::slot, "slot"}, {TensorKind::kept, "kept"}};

}  // namespace meshwork
