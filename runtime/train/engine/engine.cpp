#include "runtime/train/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/hosted.h"
#include "collectives/joined_text.h"
#include "runtime/config/options.h"
#include "runtime/data/sample_copy.h"
#include "runtime/mesh/sharded_tensor.h"
#include "runtime/train/engine/agreement.h"
#include "runtime/train/engine/kernel_choice.h"
#include "runtime/train/engine/plan_check.h"

namespace meshwork {
namespace {

constexpr std::int64_t word_bytes = 8;  // bytes of an address and of a row's number
constexpr std::int64_t words_of_scalars = sizeof(StepScalars) / word_bytes;
static_assert(sizeof(StepScalars) % word_bytes == 0);

std::string what_it_is_of(const LoweringRequest& request) {
  return fmt::format(
      "{} rows{} ({})", request.rows,
      request.piece ? fmt::format(", {} positions of each", request.piece->positions) : "",
      name_of(request.mode));
}

// Lowers without a device or communicators, compares, and gives the specifications of the kernels.
// Binding comes after: to split communicators is collective, so that ranks which disagree would
// wait for each other there.
std::vector<KernelSpec> require_same_collectives(const LoweringRequest& request, DeviceMesh& mesh,
                                                 Transport& transport) {
  LoweringRequest planned = request;
  planned.parameters = nullptr;
  planned.kept = {};
  std::vector<KernelSpec> specs;
  ProgramBuilder builder(&specs);
  const std::unique_ptr<MeshCollectives> collectives = plan_collectives(mesh.shape(), mesh.rank());
  // What is wrong with an operation, only the ranks find that run it.
  together(mesh.all(), [&] { (void)lower(planned, builder, *collectives); });
  agree_on_collectives(mesh, transport, request.plan->placing, *collectives,
                       "the collectives of a step of " + what_it_is_of(request));
  return specs;
}

// Whether ranks of the mesh may share memory of the transport that the device computes in.
bool may_share(const Transport& transport, const Device& device) {
  return device.traits().computes_in_host_memory && transport.shares_memory();
}

// Ranks that share memory reduce gradients where these stand, with no copies between, if they stand
// in the transport's memory.
Memory gradient_memory(const DeviceMesh& mesh, Transport& transport, Device& device,
                       std::int64_t bytes) {
  if (!may_share(transport, device)) {
    return device.allocate(bytes);
  }
  auto memory = std::make_shared<TransportMemory>(transport.allocate(mesh.all(), bytes));
  return {memory->data(), bytes, [memory](void*) {}};
}

// `bytes` for all sharers over `axes`, in the memory of the first of them.
Memory memory_of_sharers(const DeviceMesh& mesh, Transport& transport,
                         const std::vector<Axis>& axes, std::int64_t bytes) {
  const Communicator& ranks = mesh.communicator(axes);
  auto memory = std::make_shared<TransportMemory>(
      transport.allocate(ranks, transport.sharers(ranks).index == 0 ? bytes : 0));
  for (int rank = 0; rank < ranks.size(); ++rank) {
    if (const std::span<std::byte> part = memory->of(rank); std::ssize(part) == bytes) {
      return {part.data(), bytes, [memory](void*) {}};
    }
  }
  internal_error(fmt::format("{} bytes for several ranks, which this one does not see", bytes));
}

std::string named(const std::string& name, const Settings& settings) {
  if (name.empty()) return "none";
  return settings.empty() ? name : fmt::format("{} of {}", name, words_of(settings));
}

// The form of the parameters, which decides what memory the ranks make together: they agree about
// it first, so that a job whose ranks differ is told how instead of hanging.
ParameterForm agreed_form(DeviceMesh& mesh, Transport& transport, const Device& device,
                          const Plan& plan, bool may_be_one_copy, Precision precision,
                          const std::vector<Slot>& slots) {
  std::vector<std::string> entries{
      fmt::format("device {}, collectives by {}", device.traits().kind, transport.name())};
  for (const ParameterSpan& span : parameter_form(plan, mesh.rank()).spans) {
    const Variable& variable = plan.graph->variables[span.variable];
    const VariableOptions& of = variable.options;
    entries.push_back(
        fmt::format("{} of shape {}, layout {}, initializer {}, regularizer {}, constraint {}",
                    variable.path, to_string(of.shape), to_string(span.layout, mesh.shape()),
                    named(of.initializer.name, of.initializer.settings),
                    named(of.regularizer.name, of.regularizer.settings),
                    named(of.constraint.name, of.constraint.settings)));
  }
  std::vector<std::string> kept;
  for (const Slot& slot : slots) kept.push_back(slot.name);
  entries.push_back(fmt::format("optimizer slots: {}", joined_text(kept, ", ")));
  entries.push_back(may_be_one_copy ? "one copy for ranks that share memory"
                                    : "a copy for every rank");
  require_agreement(mesh.all(), entries, "how variables are kept");
  ParameterFormOptions options;
  // Of ranks on unlike processors all do, or none.
  options.narrow_copies =
      precision == Precision::bfloat16 && on_all(mesh.all(), device.traits().reads_narrow_operands);
  options.one_copy = may_be_one_copy;
  if (may_share(transport, device)) {
    options.sharers = [&](const std::vector<Axis>& axes) {
      mesh.prepare(axes);
      const Communicator& ranks = mesh.communicator(axes);
      transport.prepare(ranks);
      return transport.sharers(ranks);
    };
  }
  return parameter_form(plan, mesh.rank(), options);
}

}  // namespace

Step::Step(const LoweringRequest& request, DeviceMesh& mesh, Transport& transport, Device& device,
           ArenaPool& pool, StepScalars* scalars, CollectiveTrace* trace,
           CountingTransport* counting, KernelChooser* chooser, const StopRequest* stop_request)
    : device_(&device),
      rows_(request.rows),
      collectives_(bind_collectives(mesh, transport, trace, request.plan->placing.empty())),
      parts_(meshwork::fed_parts(*request.plan, request.mode, request.micro_batches(), mesh.rank(),
                                 request.piece ? &*request.piece : nullptr)),
      counting_(counting),
      name_("the step of " + what_it_is_of(request)) {
  LoweringRequest bound = request;
  const Graph& graph = *request.plan->graph;
  const std::int64_t tables = std::ssize(fed_tensors(graph, request.mode));
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const auto& [id, block] = parts_[part];
    const std::int64_t count = element_count(shape_of(block)), rows = block.front().length();
    const ElementType type = request.fed_type(id);
    if (!request.gathers) {
      Memory& feed = feeds_.emplace_back(device.allocate(count * element_bytes(type)));
      feed_rings_.emplace_back(device, feed.data(), feed.bytes());
      bound.feeds.push_back(feed.data());
    }
    if (type == ElementType::float32) {
      const GraphTensor& tensor = graph.tensors[id];
      const char* role = tensor.role == TensorRole::target ? "the targets" : "an input";
      std::string name = tensor.path.empty() ? role : tensor.path;
      if (std::ssize(parts_) > tables) {
        name += fmt::format(" of micro-batch {}", static_cast<std::int64_t>(part) / tables + 1);
      }
      fed_floats_.push_back({part, std::move(name), static_cast<std::int64_t>(part) % tables,
                             block.front(), rows == 0 ? 0 : count / rows});
    }
  }
  if (request.gathers) {
    gathered_on_host_.resize(static_cast<std::size_t>(words_of_scalars + tables + request.rows));
    gathered_ = device.allocate(std::ssize(gathered_on_host_) * word_bytes);
    gathered_ring_ = FeedRing(device, gathered_.data(), gathered_.bytes());
    bound.step_scalars = gathered_.data();
    bound.gathered_rows = gathered_.bytes_at(words_of_scalars * word_bytes);
  } else {
    bound.step_scalars = scalars;
    scalars_ = FeedRing(device, scalars, sizeof(StepScalars));
  }
  const std::vector<KernelSpec> specs = require_same_collectives(request, mesh, transport);
  if (chooser != nullptr) {
    chooser->choose(specs, stop_request);
  }
  ProgramBuilder builder(device, chooser != nullptr ? &chooser->record() : nullptr);
  lowered_ = lower(bound, builder, *collectives_);
  sums_.resize(static_cast<std::size_t>(lowered_.sum_count) + (lowered_.has_penalty ? 1 : 0) +
               (lowered_.has_gradient_norm ? 1 : 0));
  if (request.mode == Mode::predict) {
    for (const TensorId output : graph.outputs) {
      Shape shape = graph.shape_of(output, request.rows);
      if (request.piece) shape = request.piece->shape_of(output, std::move(shape));
      output_counts_.push_back(element_count(shape));
    }
  }
  program_ = builder.finish(pool);
  if (counting_ != nullptr) {
    planned_ = planned_traffic(collectives_->records(), mesh.shape());
  }
  if (trace != nullptr) {
    program_.record_in(*trace);
  }
  program_.agree_by([&mesh, trace](bool here) {
    const TracedCollective inside(TracePoint(trace, "agreement on capturing a step"));
    return on_all(mesh.all(), here);
  });
}

void Step::feed(std::size_t part, const void* host) {
  device_->make_current();
  feed_rings_[part].feed(host);
}

void Step::feed_rows(std::span<const void* const> tables, std::span<const std::int64_t> samples) {
  if (words_of_scalars + std::ssize(tables) + std::ssize(samples) !=
      std::ssize(gathered_on_host_)) {
    internal_error(
        fmt::format("{} was given {} tables and {} rows", name_, tables.size(), samples.size()));
  }
  auto to = gathered_on_host_.begin() + words_of_scalars;
  for (const void* table : tables) {
    *to++ = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(table));
  }
  std::copy(samples.begin(), samples.end(), to);
}

void Step::run(const StepScalars& scalars) {
  device_->make_current();
  if (gathered_on_host_.empty()) {
    scalars_.feed(&scalars);
  } else {
    std::memcpy(gathered_on_host_.data(), &scalars, sizeof scalars);
    gathered_ring_.feed(gathered_on_host_.data());
  }
  try {
    if (counting_ == nullptr) {
      program_.run();
    } else {
      counting_->clear();
      program_.run();
      require_planned(planned_, counting_->traffic(), name_);
    }
  } catch (const std::exception& error) {
    // The other ranks wait in a collective that this one will not reach.
    if (collectives_->mesh().rank_count() > 1 && Hosted::current() == nullptr) {
      abort_job(1, error.what());
    }
    throw;
  }
}

std::vector<float> Step::fed_values(const FedFloats& fed) const {
  std::vector<float> values(static_cast<std::size_t>(fed.rows.length() * fed.row_elements));
  if (gathered_on_host_.empty()) {
    device_->copy_out(values.data(), feeds_[fed.part].data(), feeds_[fed.part].bytes());
    return values;
  }
  const auto tables = gathered_on_host_.begin() + words_of_scalars;
  const auto* table = reinterpret_cast<const float*>(
      static_cast<std::uintptr_t>(tables[static_cast<std::ptrdiff_t>(fed.table)]));
  const std::int64_t* samples = gathered_on_host_.data() + (std::ssize(gathered_on_host_) - rows_);
  for (std::int64_t row = 0; row < fed.rows.length(); ++row) {
    device_->copy_out(values.data() + row * fed.row_elements,
                      table + samples[fed.rows.begin + row] * fed.row_elements,
                      fed.row_elements * float32_bytes);
  }
  return values;
}

std::optional<NotFinite> Step::first_not_finite() const {
  std::vector<float> values;
  const auto search_values = [&]() -> std::optional<std::int64_t> {
    const auto found = std::find_if(values.begin(), values.end(),
                                    [](float value) { return !std::isfinite(value); });
    return found == values.end() ? std::nullopt : std::optional(found - values.begin());
  };
  const auto search = [&](const float* from, std::int64_t count) {
    values.resize(static_cast<std::size_t>(count));
    device_->copy_out(values.data(), from, count * float32_bytes);
    return search_values();
  };
  const auto element = [&](std::int64_t index) {
    return fmt::format("element {} of the rank's block is {}", index,
                       values[static_cast<std::size_t>(index)]);
  };
  for (const FedFloats& fed : fed_floats_) {
    values = fed_values(fed);
    if (const auto found = search_values()) {
      return NotFinite{0, fmt::format("the data fed as {}: {}", fed.name, element(*found))};
    }
  }
  std::string overwritten;
  for (const Observation& observation : program_.observations()) {
    std::int64_t there = 0;
    for (const Observation::Stretch& stretch : observation.still_there) {
      there += stretch.count;
      if (const auto found = search(program_.at(stretch), stretch.count)) {
        return NotFinite{
            1 + static_cast<std::int64_t>(observation.instruction),
            fmt::format("{} (instruction {} of {}: {}): {}{}", observation.label,
                        observation.instruction + 1, program_.instruction_count(),
                        program_.labels()[observation.instruction], element(*found),
                        overwritten.empty() ? "" : "; before it, no longer there:" + overwritten)};
      }
    }
    if (there < observation.count) {
      overwritten += (overwritten.empty() ? " " : ", ") + observation.label;
    }
  }
  return std::nullopt;
}

std::span<const double> Step::sums() {
  if (!sums_.empty()) {
    device_->copy_out(sums_.data(), program_.address(lowered_.sums),
                      static_cast<std::int64_t>(sums_.size() * sizeof(double)));
  }
  return sums_;
}

void Step::start_sums(std::span<double> pinned) {
  if (pinned.size() < sums_.size()) {
    internal_error(fmt::format("room for {} of {} sums", pinned.size(), sums_.size()));
  }
  device_->queues().kernels().start_copy(pinned.data(),
                                         sums_.empty() ? nullptr : program_.address(lowered_.sums),
                                         static_cast<std::int64_t>(sums_.size() * sizeof(double)));
}

std::vector<std::vector<float>> Step::predictions() {
  std::vector<std::vector<float>> outputs;
  for (std::size_t i = 0; i < output_counts_.size(); ++i) {
    outputs.emplace_back(static_cast<std::size_t>(output_counts_[i]));
    device_->copy_out(outputs.back().data(), program_.address(lowered_.outputs[i]),
                      output_counts_[i] * float32_bytes);
  }
  return outputs;
}

Engine::Engine(DeviceMesh& mesh, Device& device, Transport& transport, Plan plan,
               std::uint64_t seed, UpdateRule update, CollectiveTrace* trace,
               CountingTransport* counting, Precision precision, KernelChooser* chooser)
    : mesh_(&mesh),
      device_(&device),
      transport_(&transport),
      trace_(trace),
      counting_(counting),
      plan_(std::move(plan)),
      seed_(seed),
      precision_(precision),
      chooser_(chooser),
      update_(std::move(update)),
      parameters_(
          device,
          agreed_form(mesh, transport, device, plan_,
                      may_share(transport, device) && !update_.takes_norms() &&
                          !plan_.graph->needs_whole_blocks(),
                      precision, update_.slots),
          update_.slots,
          {.gradients =
               [&](std::int64_t bytes) { return gradient_memory(mesh, transport, device, bytes); },
           .shared =
               [&](const std::vector<Axis>& axes, std::int64_t bytes) {
                 return memory_of_sharers(mesh, transport, axes, bytes);
               }}),
      pool_(device),
      scalars_(device.allocate(sizeof(StepScalars))) {
  transport.prepare(mesh.all());  // over which variables are gathered
  together(mesh.all(), [&] { parameters_.initialize(plan_, seed); });
  meet();  // initial values are there before anybody writes others
}

Step& Engine::step(const StepKey& key, const StopRequest* stop_request) {
  std::unique_ptr<Step>& step = steps_[key];
  if (!step) {
    LoweringRequest request;
    request.plan = &plan_;
    request.mode = key.mode;
    request.rows = key.rows;
    request.walk = key.walk;
    request.seed = seed_;
    request.precision = precision_;
    request.device = device_->traits();
    request.fed = key.fed;
    request.gathers = key.gathers;
    request.update = &update_;
    request.form = &parameters_.form();
    request.parameters = &parameters_;
    if (key.positions > 0) {
      request.piece = Piece{&sequences(), key.positions};
      request.kept = [this, rows = key.rows](const std::string& name, std::int64_t bytes) {
        Memory& memory = kept_[{rows, name}];
        if (memory.bytes() != bytes) memory = device_->allocate(bytes);
        return memory.data();
      };
    }
    step = std::make_unique<Step>(request, *mesh_, *transport_, *device_, pool_,
                                  static_cast<StepScalars*>(scalars_.data()), trace_, counting_,
                                  chooser_, stop_request);
  }
  return *step;
}

const Sequences& Engine::sequences() {
  if (!sequences_) sequences_ = sequences_of(plan_);
  return *sequences_;
}

void Engine::meet() {
  for (const std::vector<Axis>& axes : shared_axes(parameters_.form())) {
    const TracedCollective inside(TracePoint(trace_, "barrier about variables that are shared"));
    transport_->barrier_of_sharers(mesh_->communicator(axes));
  }
}

std::vector<float> Engine::gather(int index, int slot, std::optional<int> root) {
  const ParameterSpan& span = parameters_.form().spans[index];
  const Variable& variable = plan_.graph->variables[index];
  const Shape& shape = variable.options.shape;
  const bool split =
      mesh_->shape().size_over(span.layout.splitting_axes()) > 1 || !span.layout.places.empty();
  // Where all have it whole, each is the root of its own.
  const int first = split ? root.value_or(0) : root.value_or(static_cast<int>(mesh_->rank()));
  std::vector<float> whole;
  if (!root || mesh_->rank() == *root) {
    whole.resize(static_cast<std::size_t>(element_count(shape)));
  }
  const TracedCollective inside(TracePoint(trace_, "gathering of " + variable.path));
  gather_blocks({*device_, *mesh_, *transport_}, ElementType::float32, shape, span.layout,
                parameters_.block(index, slot), whole.data(), first);
  if (split && !root) {
    transport_->run(mesh_->all(), Broadcast{ElementType::float32, std::ssize(whole), first},
                    whole.data());
  }
  return whole;
}

void Engine::set(int variable, std::span<const float> whole, int slot) {
  const ParameterSpan& span = parameters_.form().spans[variable];
  const Shape& shape = plan_.graph->variables[variable].options.shape;
  if (std::ssize(whole) != element_count(shape)) {
    fail("{} has shape {}, found {} values", plan_.graph->variables[variable].path,
         to_string(shape), whole.size());
  }
  std::vector<float> block(static_cast<std::size_t>(span.count));
  constexpr std::int64_t only_sample = 0;
  copy_samples(std::as_bytes(whole).data(), shape, float32_bytes, std::span(&only_sample, 1),
               span.block, std::as_writable_bytes(std::span(block)).data());
  meet();
  parameters_.write(variable, block, slot);
}

}  // namespace meshwork
