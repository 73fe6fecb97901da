#include "runtime/train/state/saved_run.h"

#include <utility>

#include "collectives/error.h"
#include "runtime/checkpoint/regions.h"
#include "runtime/train/state/parameter_snapshot.h"

namespace meshwork {

std::vector<ModelTensor> tensors_of(const Model::State& model) {
  const Parameters& parameters = model.engine->parameters();
  std::vector<ModelTensor> tensors;
  for (const ParameterSpan& span : parameters.form().spans) {
    const Variable& variable = model.graph->variables[span.variable];
    CheckpointTensor tensor{.path = variable.path,
                            .trainable = span.trainable,
                            .shape = variable.options.shape,
                            .layout = to_string(span.layout, model.mesh().shape())};
    tensors.push_back({tensor, &span});
    tensor.kind = TensorKind::slot;
    for (int slot = 0; slot < parameters.slot_count(span.variable); ++slot) {
      tensor.slot = parameters.slots()[slot].name;
      tensors.push_back({tensor, &span, slot});
    }
  }
  return tensors;
}

CheckpointTensor ModelTensor::kept_by(std::size_t callback) const {
  CheckpointTensor kept = tensor;
  kept.kind = TensorKind::kept;
  kept.callback = static_cast<int>(callback);
  return kept;
}

CheckpointState state_of(const Model::State& model, bool with_optimizer) {
  CheckpointState state;
  state.step = model.iteration;
  state.seed = model.options.seed;
  if (with_optimizer && model.compiled) {
    const Optimizer& optimizer = model.compiled->optimizer;
    state.optimizer = optimizer.class_name();
    state.slots = optimizer.slot_names();
    if (const std::optional<double> number = optimizer.keras_number(model.iteration)) {
      state.keras_numbers.push_back(*number);
    }
    state.schedule = optimizer.schedule().name();
    state.learning_rate = optimizer.learning_rate(model.iteration);
    state.constant_rate = optimizer.schedule().is_constant();
  }
  state.keras_places = keras_places(*model.graph, model.keras_model);
  state.mesh = to_string(model.mesh().shape());
  state.device = model.device->traits().kind + ": " + model.device->description();
  state.collectives = model.options.collectives.name_of(*model.transport);
  state.precision = std::string(name_of(model.options.precision));
  if (model.chooser) {
    state.kernels = model.chooser->record();
  }
  return state;
}

SavedRun::SavedRun(Model::State& model) : model_(&model), tensors_(tensors_of(model)) {
  std::int64_t offset = 0;
  for (const auto& [tensor, span, slot] : tensors_) {
    if (add_part(tensor, *span)) {
      const Block& region = parts_.back().region;
      const std::int64_t count = element_count(shape_of(region));
      copies_.push_back(
          {parts_.size() - 1,
           model.engine->parameters().block(span->variable, slot) + offset_of(region, span->block),
           count, offset});
      offset += count;
    }
  }
  own_parts_ = parts_.size();
  memory_.assign(static_cast<std::size_t>(offset), 0.0f);
  for (const Copy& copy : copies_) {
    parts_[copy.part].values = memory_.data() + copy.offset;
  }
}

bool SavedRun::add_part(CheckpointTensor tensor, const ParameterSpan& span) {
  const DeviceMesh& mesh = model_->mesh();
  Block region =
      region_of(span.layout, tensor.shape, mesh.shape(), mesh.rank(), std::ssize(parts_));
  parts_.push_back({std::move(tensor), std::move(region), nullptr});
  return !is_empty(parts_.back().region);
}

void SavedRun::capture(CheckpointState state, const std::vector<SharedCallback>& callbacks) {
  for (const Copy& copy : copies_) {
    model_->device->copy_out(memory_.data() + copy.offset, copy.source, copy.count * float32_bytes);
  }
  state_ = std::move(state);
  state_.callbacks.clear();
  parts_.resize(own_parts_);
  kept_.clear();
  for (std::size_t i = 0; i < callbacks.size(); ++i) {
    CallbackRecord record{callbacks[i]->class_name(), callbacks[i]->save(), false};
    if (const std::string subject = callbacks[i]->subject(); !subject.empty()) {
      record.state.emplace(subject_key, subject);
    }
    if (const std::shared_ptr<const WeightsSnapshot> weights = callbacks[i]->kept_weights()) {
      const auto* values = dynamic_cast<const ParameterSnapshot*>(weights.get());
      if (values == nullptr) {
        internal_error("a callback keeps weights of another kind");
      }
      record.keeps_weights = true;
      for (const ModelTensor& one : tensors_) {
        if (one.slot == its_value && add_part(one.kept_by(i), *one.span)) {
          TensorPart& part = parts_.back();
          part.values = values->value(*one.span) + offset_of(part.region, one.span->block);
        }
      }
      kept_.push_back(weights);
    }
    state_.callbacks.push_back(std::move(record));
  }
}

}  // namespace meshwork
