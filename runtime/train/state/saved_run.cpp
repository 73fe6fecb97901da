#include "runtime/train/state/saved_run.h"

#include <utility>

#include "collectives/error.h"
#include "runtime/checkpoint/regions.h"
#include "runtime/train/state/parameter_snapshot.h"

namespace meshwork {

std::vector<CheckpointTensor> tensors_of(const Model::State& model) {
  const Parameters& parameters = model.engine->parameters();
  const MeshShape& mesh = model.mesh().shape();
  std::vector<CheckpointTensor> tensors;
  for (const ParameterSpan& span : parameters.form().spans) {
    const Variable& variable = model.graph->variables[static_cast<std::size_t>(span.variable)];
    CheckpointTensor tensor{TensorKind::variable,
                            variable.path,
                            "",
                            -1,
                            span.trainable,
                            variable.options.shape,
                            to_string(span.layout, mesh),
                            0};
    tensors.push_back(tensor);
    if (span.trainable) {
      tensor.kind = TensorKind::slot;
      for (const std::string& slot : parameters.slot_names()) {
        tensor.slot = slot;
        tensors.push_back(tensor);
      }
    }
  }
  return tensors;
}

CheckpointState state_of(const Model::State& model, bool with_optimizer) {
  CheckpointState state;
  state.step = model.iteration;
  state.seed = model.options.seed;
  if (with_optimizer && model.compiled) {
    const Optimizer& optimizer = model.compiled->optimizer;
    state.optimizer = optimizer.class_name();
    state.slots = optimizer.slot_names();
    state.schedule = optimizer.schedule().name();
    state.learning_rate = optimizer.learning_rate(model.iteration);
    state.constant_rate = optimizer.schedule().is_constant();
  }
  state.keras_places = keras_places(*model.graph, model.keras_model);
  state.mesh = to_string(model.mesh().shape());
  state.device = model.device->traits().kind + ": " + model.device->description();
  state.collectives = std::string(model.transport->name());
  state.precision = std::string(name_of(model.options.precision));
  if (model.chooser) {
    state.kernels = model.chooser->record();
  }
  return state;
}

SavedRun::SavedRun(Model::State& model) : model_(&model) {
  Parameters& parameters = model.engine->parameters();
  const MeshShape& mesh = model.mesh().shape();
  std::int64_t offset = 0;
  std::size_t next = 0;
  const std::vector<CheckpointTensor> tensors = tensors_of(model);
  const auto add = [&](const ParameterSpan& span, const float* block) {
    const CheckpointTensor& tensor = tensors[next];
    TensorPart part{tensor,
                    region_of(span.layout, tensor.shape, mesh, model.mesh().rank(),
                              static_cast<std::int64_t>(next)),
                    nullptr};
    ++next;
    if (!is_empty(part.region)) {
      const std::int64_t count = element_count(shape_of(part.region));
      copies_.push_back(
          {parts_.size(), block + offset_of(part.region, span.block), count, offset});
      offset += count;
    }
    parts_.push_back(std::move(part));
  };
  for (const ParameterSpan& span : parameters.form().spans) {
    add(span, parameters.value(span.variable));
    for (int slot = 0; span.trainable && slot < static_cast<int>(parameters.slot_names().size());
         ++slot) {
      add(span, parameters.slot(slot, span.variable));
    }
  }
  own_parts_ = parts_.size();
  memory_.assign(static_cast<std::size_t>(offset), 0.0f);
  for (const Copy& copy : copies_) {
    parts_[copy.part].values = memory_.data() + copy.offset;
  }
}

void SavedRun::capture(CheckpointState state, const std::vector<SharedCallback>& callbacks) {
  for (const Copy& copy : copies_) {
    model_->device->copy_out(memory_.data() + copy.offset, copy.source, copy.count * float32_bytes);
  }
  state_ = std::move(state);
  state_.callbacks.clear();
  parts_.resize(own_parts_);
  kept_.clear();
  const ParameterForm& form = model_->engine->parameters().form();
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
      for (const ParameterSpan& span : form.spans) {
        const Variable& variable =
            model_->graph->variables[static_cast<std::size_t>(span.variable)];
        TensorPart part{{TensorKind::kept, variable.path, "", static_cast<int>(i), span.trainable,
                         variable.options.shape, to_string(span.layout, model_->mesh().shape()), 0},
                        region_of(span.layout, variable.options.shape, model_->mesh().shape(),
                                  model_->mesh().rank(), static_cast<std::int64_t>(parts_.size())),
                        nullptr};
        if (!is_empty(part.region)) {
          part.values = values->value(span) + offset_of(part.region, span.block);
        }
        parts_.push_back(std::move(part));
      }
      kept_.push_back(weights);
    }
    state_.callbacks.push_back(std::move(record));
  }
}

}  // namespace meshwork
