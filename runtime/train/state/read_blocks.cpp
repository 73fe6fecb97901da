#include "runtime/train/state/read_blocks.h"

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>

#include "collectives/error.h"
#include "collectives/hosted.h"
#include "collectives/path_text.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/regions.h"
#include "runtime/checkpoint/verdict.h"
#include "runtime/train/state/saved_run.h"

namespace meshwork {

std::vector<std::string> tensor_differences(const Model::State& model,
                                            const CheckpointReader& reader, const char* file,
                                            bool optimizer, bool trained) {
  std::vector<std::string> found;
  const std::string& then = reader.state().optimizer;
  if (optimizer && then != model.compiled->optimizer.class_name()) {
    found.push_back(fmt::format("the optimizer is {}, the {}'s is {}",
                                model.compiled->optimizer.class_name(), file, then));
    optimizer = false;  // slots of another say nothing more
  }
  // Variables come before their slots, which say nothing more of one that differs.
  std::set<std::string> told;
  const auto is_compared = [&](const CheckpointTensor& tensor) {
    return (tensor.kind == TensorKind::variable ||
            (optimizer && tensor.kind == TensorKind::slot)) &&
           !told.contains(tensor.path);
  };
  const auto described = [](const CheckpointTensor& tensor) {
    return tensor.slot.empty() ? tensor.path : fmt::format("{} ({})", tensor.path, tensor.slot);
  };
  const auto tell = [&](const CheckpointTensor& tensor, std::string text) {
    found.push_back(std::move(text));
    if (tensor.slot.empty()) {
      told.insert(tensor.path);
    }
  };
  std::set<std::string> names;
  for (const auto& [tensor, span, slot] : tensors_of(model)) {
    const std::string name = name_of(tensor, {});
    names.insert(name);
    if (!is_compared(tensor)) {
      continue;
    }
    const CheckpointTensor* theirs = reader.find(name);
    if (theirs == nullptr) {
      tell(tensor, fmt::format("the model has {} {}, the {} does not", described(tensor),
                               to_string(tensor.shape), file));
    } else if (theirs->shape != tensor.shape) {
      tell(tensor, fmt::format("{} has shape {}, in the {} {}", described(tensor),
                               to_string(tensor.shape), file, to_string(theirs->shape)));
    } else if (trained && tensor.slot.empty() && theirs->trainable != tensor.trainable) {
      found.push_back(
          tensor.trainable
              ? fmt::format("{} is trained, in the {} it is frozen", tensor.path, file)
              : fmt::format("{} is frozen, in the {} it is trained", tensor.path, file));
    }
  }
  for (const CheckpointTensor& tensor : reader.tensors()) {
    if (is_compared(tensor) && !names.contains(name_of(tensor, {}))) {
      tell(tensor, fmt::format("the {} has {} {}, the model does not", file, described(tensor),
                               to_string(tensor.shape)));
    }
  }
  return found;
}

std::vector<BlockTarget> model_targets(const Model::State& model, const CheckpointReader& reader,
                                       bool optimizer) {
  std::vector<BlockTarget> targets;
  for (const auto& [tensor, span, slot] : tensors_of(model)) {
    if (optimizer || slot == its_value) {
      targets.push_back({reader.find(name_of(tensor, {})), span, slot});
    }
  }
  return targets;
}

std::string read_blocks(Model::State& model, const CheckpointReader& reader,
                        const std::vector<BlockTarget>& targets) {
  const Communicator& all = model.mesh().all();
  std::vector<std::uint64_t> sums(targets.size(), 0);
  std::vector<float> block;
  CollectiveTrace* trace = &model.watchdog->trace();
  std::string damage = joint_damage(
      all,
      [&] {
        for (std::size_t i = 0; i < targets.size(); ++i) {
          const BlockTarget& target = targets[i];
          block.resize(static_cast<std::size_t>(target.span->count));
          reader.read(*target.tensor, target.span->block, block);
          const Block region =
              region_of(target.span->layout, target.tensor->shape, model.mesh().shape(),
                        model.mesh().rank(), static_cast<std::int64_t>(i));
          if (!is_empty(region)) {
            sums[i] = sum_of(target.tensor->shape, region,
                             std::span(block).subspan(
                                 static_cast<std::size_t>(offset_of(region, target.span->block)),
                                 static_cast<std::size_t>(element_count(shape_of(region)))));
          }
          if (target.kept != nullptr) {
            std::copy(block.begin(), block.end(), target.kept);
          } else {
            model.engine->parameters().write(target.span->variable, block, target.slot);
          }
        }
      },
      {trace, "agreement that all have read their blocks"});
  if (!damage.empty()) {
    return damage;
  }
  {
    const TracedCollective inside(TracePoint(trace, "comparing of the sums of what was read"));
    await_ranks(all);
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, sums.data(), static_cast<int>(sums.size()), MPI_UINT64_T,
                            MPI_SUM, all.native()),
              "MPI_Allreduce");
  }
  std::set<std::string> wrong;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (sums[i] != targets[i].tensor->sum) {
      wrong.insert(name_of(*targets[i].tensor, reader.state().callbacks));
    }
  }
  if (wrong.empty()) {
    return "";
  }
  // Where: the ranks share the regions out.
  damage =
      joint_damage(all,
                   [&] {
                     std::int64_t number = 0;
                     for (const StoredRegion& region : reader.regions()) {
                       if (wrong.count(region.dataset) > 0 && number++ % all.size() == all.rank()) {
                         const std::string found = reader.check(region);
                         if (!found.empty()) {
                           throw DamagedCheckpoint(found);
                         }
                       }
                     }
                   },
                   {trace, "agreement on where the damage is"});
  return damage.empty() ? fmt::format("{}: {}: the data differ from those written", reader.file(),
                                      *wrong.begin())
                        : damage;
}

}  // namespace meshwork
