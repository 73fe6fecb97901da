#include "runtime/train/read_blocks.h"

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>

#include "collectives/error.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/regions.h"
#include "runtime/checkpoint/verdict.h"

namespace meshwork {

std::string read_blocks(Model::State& model, const CheckpointReader& reader,
                        const std::vector<BlockTarget>& targets) {
  const Communicator& all = model.mesh().all();
  std::vector<std::uint64_t> sums(targets.size(), 0);
  std::vector<float> block;
  Parameters& parameters = model.engine->parameters();
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
            sums[i] =
                sum_of(target.tensor->shape, region,
                       std::span(block).subspan(
                           static_cast<std::size_t>(offset_in_block(region, target.span->block)),
                           static_cast<std::size_t>(element_count(shape_of(region)))));
          }
          if (target.kept != nullptr) {
            std::copy(block.begin(), block.end(), target.kept);
          } else if (target.slot < 0) {
            parameters.write_value(target.span->variable, block);
          } else {
            parameters.write_slot(target.slot, target.span->variable, block);
          }
        }
      },
      {trace, "agreement that all have read their blocks"});
  if (!damage.empty()) {
    return damage;
  }
  {
    const TracedCollective inside(TracePoint(trace, "comparing of the sums of what was read"));
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
  return damage.empty() ? fmt::format("{}: {}: the data are not those that were written",
                                      reader.file().string(), *wrong.begin())
                        : damage;
}

}  // namespace meshwork
