// Reading HDF5 on a thread of every rank while the ranks talk through MPI, with a library that is
// built for MPI: each rank opens the file on its own and reads only its block.
#include "collectives/communicator.h"
#include "runtime/data/batches.h"
#include "runtime/data/hdf5.h"
#include "runtime/data/hdf5_handles.h"
#include "tests/runtime/data/support.h"
#include "tests/support/catch.h"

#include <mpi.h>

#include <array>

namespace meshwork::hdf5_ranks_test {

using namespace meshwork::test;

TEST_CASE("the blocks that the ranks read add up to the data, epoch after epoch") {
  const Communicator world = Communicator::world();
  const std::string path = "ranks.h5";
  constexpr std::int64_t rows = 37, columns = 11;
  std::vector<std::int32_t> values(rows * columns);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::int32_t>(i * i % 1009);
    total += values[i];
  }
  if (world.rank() == 0) {
    const Hdf5Guard guard;
    Hdf5File file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    const std::array<hsize_t, 2> shape{rows, columns};
    const Hdf5Dataspace space(H5Screate_simple(2, shape.data(), nullptr));
    Hdf5Dataset dataset(check_hdf5(H5Dcreate2(file.native(), "x", H5T_STD_I32LE, space.native(),
                                              H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                                   "create", path));
    check_hdf5(
        H5Dwrite(dataset.native(), H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
        "write", path);
    dataset.close(path);
    file.close(path);
  }
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");

  const MeshShape mesh({{"all", world.size()}}, world.size());
  for (const Layout& layout : {Layout{{{0}, {}}, {}}, Layout{{{}, {0}}, {}}}) {
    const auto source = std::make_shared<Hdf5Source>(
        std::vector<Hdf5Field>{{.name = "x", .location = {path, "x"}}});
    FeedField field;
    for (const std::int64_t count : batch_row_counts(rows, 8)) {
      field.blocks.push_back(block_of(layout, {count, columns}, mesh, world.rank()));
    }
    Feeder feeder(
        {.source = source, .fields = {field}, .batch_size = 8, .shuffle = true, .seed = 3});
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::int64_t sum = 0;
      for (std::int64_t i = 0; i < feeder.batches_per_epoch(); ++i) {
        const HostBatch& batch = *feeder.next();
        const auto* numbers = reinterpret_cast<const std::int32_t*>(batch.fields[0]);
        std::int64_t part = 0, whole_batch = 0;
        for (std::int64_t k = 0; k < batch.bytes[0] / 4; ++k) part += numbers[k];
        check_mpi(MPI_Allreduce(&part, &whole_batch, 1, MPI_INT64_T, MPI_SUM, world.native()),
                  "MPI_Allreduce");
        sum += whole_batch;
      }
      CHECK(sum == total);
    }
  }
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
  if (world.rank() == 0) std::filesystem::remove(path);
}

}  // namespace meshwork::hdf5_ranks_test
