#include "runtime/train/callbacks/event_messages.h"

#include "collectives/error.h"
#ifdef MESHWORK_HAS_PROTOBUF
// From a system folder, so without warnings. Compiled apart it would take twice as long.
#include "events.pb.cc"
#endif

namespace meshwork {

#ifdef MESHWORK_HAS_PROTOBUF

namespace {

constexpr const char* file_version = "brain.Event:2";
constexpr const char* our_name = "meshwork";
constexpr const char* histograms_plugin = "histograms";

events::Event new_event(double seconds, std::int64_t step) {
  events::Event event;
  event.set_wall_time(seconds);
  event.set_step(step);
  return event;
}

std::string bytes_of(const events::Event& event) {
  std::string bytes;
  if (!event.SerializeToString(&bytes)) internal_error("an event that has no bytes");
  return bytes;
}

// A value of the summary, shown by a plugin of TensorBoard's.
events::Summary::Value& add_value(events::Event& event, const std::string& tag, const char* plugin,
                                  events::SummaryMetadata::DataClass data_class) {
  events::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name(plugin);
  value.mutable_metadata()->set_data_class(data_class);
  return value;
}

}  // namespace

bool writes_events() {
  return true;
}

std::string version_event(double seconds) {
  events::Event event = new_event(seconds, 0);
  event.set_file_version(file_version);
  event.mutable_source_metadata()->set_writer(our_name);
  return bytes_of(event);
}

std::string start_event(double seconds, std::int64_t step) {
  events::Event event = new_event(seconds, step);
  event.mutable_session_log()->set_status(events::SessionLog::START);
  return bytes_of(event);
}

std::string scalars_event(double seconds, std::int64_t step,
                          std::span<const std::pair<std::string, double>> scalars) {
  events::Event event = new_event(seconds, step);
  for (const auto& [tag, number] : scalars) {
    events::TensorProto& tensor =
        *add_value(event, tag, "scalars", events::SummaryMetadata::SCALAR).mutable_tensor();
    tensor.set_dtype(events::TensorProto::FLOAT);
    (void)tensor.mutable_tensor_shape();
    tensor.add_float_val(static_cast<float>(number));
  }
  return bytes_of(event);
}

std::string histograms_event(double seconds, std::int64_t step,
                             std::span<const WeightHistogram> histograms) {
  events::Event event = new_event(seconds, step);
  for (const WeightHistogram& histogram : histograms) {
    events::TensorProto& tensor = *add_value(event, histogram.path + "/histogram",
                                             histograms_plugin, events::SummaryMetadata::TENSOR)
                                       .mutable_tensor();
    tensor.set_dtype(events::TensorProto::DOUBLE);
    const std::size_t buckets = histogram.counts.size();
    tensor.mutable_tensor_shape()->add_dim()->set_size(static_cast<std::int64_t>(buckets));
    tensor.mutable_tensor_shape()->add_dim()->set_size(3);
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
      tensor.add_double_val(histogram.edge(bucket));
      tensor.add_double_val(histogram.edge(bucket + 1));
      tensor.add_double_val(histogram.counts[bucket]);
    }
  }
  return bytes_of(event);
}

std::optional<EventFacts> facts_of(std::string_view event) {
  events::Event parsed;
  if (!parsed.ParseFromArray(event.data(), static_cast<int>(event.size()))) return std::nullopt;
  EventFacts facts{.step = parsed.step()};
  facts.is_our_version =
      parsed.file_version() == file_version && parsed.source_metadata().writer() == our_name;
  for (const events::Summary::Value& value : parsed.summary().value()) {
    const std::string_view tag = value.tag();
    facts.has_values = true;
    facts.counts_updates = value.metadata().plugin_data().plugin_name() != histograms_plugin &&
                           (tag.starts_with(batch_prefix) || tag.starts_with(evaluation_prefix));
  }
  return facts;
}

#else

namespace {

[[noreturn]] void fail_without_protobuf() {
  internal_error("events of a program that was built without protobuf");
}

}  // namespace

bool writes_events() {
  return false;
}

std::string version_event(double) {
  fail_without_protobuf();
}

std::string start_event(double, std::int64_t) {
  fail_without_protobuf();
}

std::string scalars_event(double, std::int64_t, std::span<const std::pair<std::string, double>>) {
  fail_without_protobuf();
}

std::string histograms_event(double, std::int64_t, std::span<const WeightHistogram>) {
  fail_without_protobuf();
}

std::optional<EventFacts> facts_of(std::string_view) {
  fail_without_protobuf();
}

#endif

}  // namespace meshwork
