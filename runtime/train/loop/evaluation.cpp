#include <algorithm>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "runtime/data/mixed_reader.h"
#include "runtime/data/views.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/train/model_state.h"

namespace meshwork {

FedSource::FedSource(Model::State& model, Mode mode, std::shared_ptr<const Source> source,
                     std::int64_t batch_size, const std::string& what, DataOnDevice on_device,
                     StepWalk walk, std::vector<SharedMixing> augment)
    : model_(&model),
      mode_(mode),
      source_(std::move(source)),
      batch_size_(batch_size),
      walk_(std::move(walk)),
      augment_(std::move(augment)) {
  source_ = as_mixed(std::move(source_), augment_);
  const Objective& objective = model.objective;
  const Graph& graph = *objective.graph;
  const std::size_t features = static_cast<std::size_t>(source_->feature_count());
  if (features != graph.inputs.size()) {
    fail("{}: the model has {} inputs, the data set {} features", what, graph.inputs.size(),
         features);
  }
  if (source_->rows() < 1 || batch_size < 1) {
    fail("{}: {} samples in batches of {}: both must be at least 1", what, source_->rows(),
         batch_size);
  }
  const auto join = [&](int field, TensorId tensor, std::int64_t classes) {
    const Shape& shape = graph.tensors[tensor].shape;
    const Shape sample(shape.begin() + 1, shape.end());
    try {
      source_ = with_shape(source_, field, sample);
    } catch (const Error& error) {
      const bool is_input = graph.tensors[tensor].role == TensorRole::input;
      fail("{}: {}\"{}\"{}: {}", what, is_input ? "input " : "", graph.tensors[tensor].path,
           is_input ? " of the model" : "", error.what());
    }
    tensors_.push_back(tensor);
    const ElementType type = source_->field(field).type;
    fields_.push_back(
        {.field = field,
         .blocks = {},
         .classes = classes,
         .whole = classes == 0 && may_be_no_whole_number(type, graph.tensors[tensor].type)});
    fed_[tensor] = type;
  };
  for (std::size_t i = 0; i < features; ++i) {
    join(static_cast<int>(i), graph.inputs[i], graph.classes_of(graph.inputs[i]));
  }
  if (mode != Mode::predict) {
    if (source_->target_count() == 0) {
      fail("{}: the data set has no targets, which a loss needs", what);
    }
    const int targets = static_cast<int>(objective.targets.size());
    if (source_->target_count() != targets) {
      fail("{}: the model compares {} of its outputs with targets, the data set has {}", what,
           targets, source_->target_count());
    }
    for (int i = 0; i < targets; ++i) {
      join(static_cast<int>(features) + i, objective.targets[i], objective.target_classes[i]);
      fields_.back().no_class = objective.ignored_classes[i];
    }
    if (objective.weights) {
      if (!source_->weights_field()) source_ = with_equal_weights(source_, *objective.data.weights);
      join(*source_->weights_field(), *objective.weights, 0);
      fields_.back().weights = true;
    }
  }
  // A damaged file is found on every rank before anybody begins.
  together(model.mesh().all(), [&] {
    for (const FeedField& field : fields_) {
      source_->prepare(field.field);
    }
  });
  add_blocks();
  if (on_device == DataOnDevice::automatic && augment_.empty()) {
    const Communicator& ranks = model.mesh().all();
    const std::span first_parts = std::span(fields_).first(tensors_.size());
    bool fits = false;
    together(ranks, [&] { fits = ResidentData::fits(*model.device, *source_, first_parts); });
    if (on_all(ranks, fits)) {
      together(ranks, [&] { resident_ = ResidentData(*model.device, source_, first_parts); });
    }
  }
  std::map<TensorId, const void*> tables;
  for (std::size_t i = 0; i < resident_.tables().size(); ++i) {
    tables[tensors_[i]] = resident_.tables()[i];
  }
  for (const auto& [tensor, table] : tables) tables_.push_back(table);
}

// The fields, once for each micro-batch. Of a batch of fewer rows than micro-batches the last ones
// read nothing.
void FedSource::add_blocks() {
  const Plan& plan = model_->engine->plan();
  const std::vector<std::int64_t> row_counts = batch_row_counts(source_->rows(), batch_size_);
  const std::vector<FeedField> fields = fields_;
  for (std::size_t batch = 1; batch < walk_.of(row_counts.front()).size(); ++batch) {
    fields_.insert(fields_.end(), fields.begin(), fields.end());
  }
  const std::vector<TensorId> order = fed_tensors(*plan.graph, mode_);
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const auto place = std::ranges::find(order, tensors_[i % tensors_.size()]) - order.begin();
    part_of_.push_back(i / tensors_.size() * tensors_.size() + static_cast<std::size_t>(place));
  }
  for (const std::int64_t rows : row_counts) {
    const std::vector<FedPart> parts =
        fed_parts(plan, mode_, walk_.of(rows), model_->mesh().rank());
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      const bool fed = part_of_[i] < parts.size();
      Block block = parts[fed ? part_of_[i] : part_of_[i % tensors_.size()]].block;
      if (!fed) block.front() = {0, 0};
      fields_[i].blocks.push_back(std::move(block));
    }
  }
}

std::vector<Range> FedSource::rows_read() const {
  std::vector<Range> rows;
  for (const FeedField& field : fields_) rows.push_back(field.blocks.front().front());
  return rows;
}

void FedSource::make_steps(const StopRequest* stop_request) {
  steps_.clear();
  for (const std::int64_t rows : batch_row_counts(source_->rows(), batch_size_)) {
    steps_.push_back(
        &model_->engine->step({mode_, rows, fed_, resident_.is_there(), walk_}, stop_request));
  }
  model_->say_remarks();
}

std::unique_ptr<Feeder> FedSource::feeder(bool shuffle, BatchPosition start, std::int64_t epochs,
                                          bool prefetch) const {
  const bool resident = resident_.is_there();
  return std::make_unique<Feeder>(
      FeederOptions{.source = source_,
                    .fields = resident ? std::vector<FeedField>() : fields_,
                    .batch_size = batch_size_,
                    .shuffle = shuffle,
                    .seed = model_->options.seed,
                    .start = start,
                    .epochs = epochs,
                    .lists_samples = resident,
                    .augment = augment_,
                    .prefetch = prefetch ? Prefetch::when_slow : Prefetch::never});
}

Step& FedSource::run(const HostBatch& batch, const StepScalars& scalars) {
  const Model::State::InStep in_step(*model_);
  Step& step = *steps_[batch.row_count_index];
  if (resident_.is_there()) {
    step.feed_rows(tables_, batch.samples);
  } else {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (part_of_[i] < step.fed_parts().size()) step.feed(part_of_[i], batch.fields[i]);
    }
  }
  StepProfile* profile = model_->profile.get();
  if (profile != nullptr) profile->spent_on(StepProfile::Part::feeding);
  step.run(scalars);
  if (profile != nullptr) profile->spent_on(StepProfile::Part::program);
  return step;
}

BatchStops::BatchStops(Model::State& model, const StopRequest* request, std::string what)
    : request_(request),
      what_(std::move(what)),
      agreement_(*model.transport, model.mesh().all(), request != nullptr, false,
                 &model.watchdog->trace()) {}

void BatchStops::after_batch(std::int64_t batches) {
  ++batch_;
  if (batch_ == batches || !agreement_.due(batch_)) {
    return;
  }
  const StepWish wish = agreement_.agree(batch_, {.stop_reason = request_->reason()});
  if (wish.stop_reason > 0) {
    throw Stopped(wish.stop_reason,
                  fmt::format("stopped by {} after batch {} of {} of the {}",
                              stop_reason_name(wish.stop_reason), batch_, batches, what_));
  }
}

Evaluation::Evaluation(Model::State& model, std::shared_ptr<const Source> source,
                       std::int64_t batch_size, bool prefetch, const std::string& prefix,
                       const std::string& what, const StopRequest* stop_request,
                       DataOnDevice on_device)
    : model_(&model),
      what_(what),
      stop_request_(stop_request),
      fed_(model, Mode::evaluate, std::move(source), batch_size, what, on_device),
      means_(*model.device, model.objective, prefix),
      feeder_(fed_.feeder(false, {}, -1, prefetch)),
      leaving_(model) {}

void Evaluation::run(const std::function<void(std::int64_t)>& before,
                     const std::function<void(std::int64_t)>& after) {
  means_.reset();
  BatchStops stops(*model_, stop_request_, what_);
  for (std::int64_t batch = 0; batch < fed_.batches(); ++batch) {
    if (before) {
      before(batch);
    }
    means_.add(fed_.run(*feeder_->next(), {}));
    if (after) {
      after(batch);
    }
    stops.after_batch(fed_.batches());
  }
}

}  // namespace meshwork
