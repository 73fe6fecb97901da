#include "runtime/graph/step/context.h"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/device/kernels/products.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/device/narrowing.h"
#include "runtime/mesh/lower_redistribution.h"

namespace meshwork {
StepContext::StepContext(const LoweringRequest& request, ProgramBuilder& builder,
                         MeshCollectives& collectives)
    : request(request),
      plan(*request.plan),
      graph(*request.plan->graph),
      form(*request.form),
      builder(builder),
      collectives(collectives) {
  for (TensorId id = 0; id < static_cast<TensorId>(graph.tensors.size()); ++id) {
    shapes.push_back(graph.shape_of(id, request.rows));
  }
  const Parameters* parameters = request.parameters;
  const std::int64_t of_gradients = (form.trainable_count + form.whole_count) * float32_bytes;
  const std::int64_t rest = form.fixed_count * float32_bytes;
  for (int g = 0; g < static_cast<int>(form.groups.size()); ++g) {
    const ParameterGroup& group = form.groups[g];
    const auto book = [&](const Memory Parameters::Group::*memory, std::int64_t count,
                          std::int64_t width, const std::string& label) {
      return builder.external(parameters ? (parameters->group(g).*memory).data() : nullptr,
                              count * width, label);
    };
    values.push_back(book(&Parameters::Group::values, group.count, float32_bytes, "parameters"));
    joined.emplace_back();
    narrow.emplace_back();
    joined_narrow.emplace_back();
    if (group.narrowed) {
      narrow.back() = book(&Parameters::Group::narrow, group.count, bfloat16_bytes, "narrow copy");
    }
    if (group.joined) {
      const std::int64_t count = group.joined->count;
      joined.back() = book(&Parameters::Group::joined, count, float32_bytes, "joined parameters");
      if (group.narrowed) {
        joined_narrow.back() =
            book(&Parameters::Group::joined_narrow, count, bfloat16_bytes, "joined narrow copy");
      }
    }
    std::vector<Buffer>& slots_of_group = slots.emplace_back();
    for (int slot = 0; training() && slot < request.update->slots; ++slot) {
      slots_of_group.push_back(
          builder.external(parameters ? parameters->group(g).slots[slot].data() : nullptr,
                           group.count * float32_bytes, "optimizer slot " + std::to_string(slot)));
    }
  }
  fixed = builder.external(parameters ? parameters->fixed() : nullptr, rest, "fixed variables");
  gradients =
      builder.external(parameters ? parameters->gradients() : nullptr, of_gradients, "gradients");
  scalars = builder.external(request.step_scalars, sizeof(StepScalars), "step scalars");
}

std::string StepContext::name_of(TensorId id) const {
  const GraphTensor& tensor = graph.tensors[id];
  if (!tensor.path.empty()) {
    return tensor.path;
  }
  return tensor.producer >= 0 ? graph.operations[tensor.producer].path
                              : "tensor " + std::to_string(id);
}

Block StepContext::block(TensorId id, const Layout& layout) const {
  return block_of(layout, shapes[id], plan.mesh, collectives.rank());
}

std::int64_t StepContext::count(TensorId id, const Layout& layout) const {
  return element_count(shape_of(block(id, layout)));
}

Operand StepContext::value_of(int variable) const {
  const ParameterSpan& span = form.spans[variable];
  return span.trainable ? Operand{values[span.group],
                                  (span.offset - form.groups[span.group].offset) * float32_bytes}
                        : Operand{fixed, span.offset * float32_bytes};
}

Operand StepContext::gradient_of(int variable) const {
  return {gradients, form.spans[variable].offset * float32_bytes};
}

const JoinedBlocks* StepContext::joined_blocks(TensorId id) const {
  const int variable = variable_of(id);
  const int group = variable < 0 ? -1 : form.spans[variable].group;
  return group >= 0 && form.groups[group].joined ? &*form.groups[group].joined : nullptr;
}

std::optional<Operand> StepContext::joined_in(TensorId id, const Layout& layout) const {
  const JoinedBlocks* const blocks = joined_blocks(id);
  if (blocks == nullptr || blocks->layout != layout) {
    return std::nullopt;
  }
  return Operand(joined[form.spans[variable_of(id)].group]);
}

bool StepContext::is_joined(const Buffer& buffer) const {
  return std::any_of(joined.begin(), joined.end(),
                     [&](const Buffer& one) { return one == buffer; });
}

std::optional<Operand> StepContext::narrow_copy_of(const Operand& values_at) const {
  const std::int64_t offset = values_at.offset / float32_bytes;  // elements
  for (std::size_t g = 0; g < narrow.size(); ++g) {
    if (!narrow[g].exists() || (values_at.buffer != values[g] && values_at.buffer != joined[g])) {
      continue;
    }
    // The gathered copy begins where a line does, a rank's own block in it anywhere.
    const std::optional<JoinedBlocks>& blocks = form.groups[g].joined;
    const std::int64_t begin = blocks && values_at.buffer == values[g] ? blocks->own_begin : 0;
    const std::int64_t at = (begin + offset) * bfloat16_bytes;
    return at % narrow_alignment == 0
               ? std::optional(Operand(blocks ? joined_narrow[g] : narrow[g], at))
               : std::nullopt;
  }
  return std::nullopt;
}

std::optional<Operand> StepContext::whole_gradient_of(TensorId id) const {
  const JoinedBlocks* const blocks = joined_blocks(id);
  if (blocks == nullptr || !blocks->whole_gradient) {
    return std::nullopt;
  }
  const std::int64_t at = form.trainable_count + *blocks->whole_gradient;
  return Operand(gradients, at * float32_bytes);
}

Operand StepContext::move(TensorId id, Operand source, const Layout& from, const Layout& to,
                          std::optional<Operand> destination, const std::string& what,
                          bool source_is_free) {
  return lower_redistribution(
      builder, collectives, plan_redistribution(from, to, shapes[id], plan.mesh), shapes[id],
      graph.tensors[id].type, source, destination, {phase, what}, source_is_free);
}

bool StepContext::counts(const std::vector<Axis>& axes, const std::vector<Axis>& own) const {
  return std::all_of(axes.begin(), axes.end(), [&](Axis axis) {
    return std::find(own.begin(), own.end(), axis) != own.end() ||
           plan.mesh.coordinate(collectives.rank(), axis) == 0;
  });
}

std::vector<Axis> StepContext::axes_of_trainable_variables() const {
  std::set<Axis> axes;
  for (const ParameterSpan& span : form.spans) {
    if (span.trainable) {
      const std::vector<Axis> own = span.layout.splitting_axes();
      axes.insert(own.begin(), own.end());
    }
  }
  return {axes.begin(), axes.end()};
}

}  // namespace meshwork
