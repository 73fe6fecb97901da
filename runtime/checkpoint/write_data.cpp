#include "runtime/checkpoint/write_data.h"

#include <mpi.h>

#include <algorithm>

#include "collectives/error.h"
#include "runtime/checkpoint/format.h"
#include "runtime/checkpoint/hdf5_values.h"
#include "runtime/checkpoint/regions.h"

namespace meshwork {
namespace {

// What travels to rank 0 in one message; it writes one such part while the next one waits.
constexpr std::int64_t message_bytes = std::int64_t{16} << 20;
constexpr int message_tag = 17;

// Writes `block` of a dataset; null values stand for nothing, in a collective write.
void write_block(const Hdf5Dataset& dataset, const Block& block, const float* values,
                 hid_t transfer, const std::string& file, const std::string& name) {
  const Hdf5Dataspace space(check_hdf5(H5Dget_space(dataset.native()), "no dataspace", file));
  std::vector<hsize_t> start;
  std::vector<hsize_t> count;
  for (const Range& range : block) {
    start.push_back(static_cast<hsize_t>(range.begin));
    count.push_back(static_cast<hsize_t>(range.length()));
  }
  const bool scalar = H5Sget_simple_extent_ndims(space.native()) == 0;
  const hsize_t one = 1;
  const Hdf5Dataspace memory(
      check_hdf5(scalar || values == nullptr
                     ? H5Screate_simple(1, &one, nullptr)
                     : H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                 "no dataspace", file));
  if (values == nullptr) {
    check_hdf5(H5Sselect_none(space.native()), "cannot be selected", file);
    check_hdf5(H5Sselect_none(memory.native()), "cannot be selected", file);
  } else if (!scalar) {
    check_hdf5(H5Sselect_hyperslab(space.native(), H5S_SELECT_SET, start.data(), nullptr,
                                   count.data(), nullptr),
               "cannot be selected", file);
  }
  const float nothing = 0;
  check_hdf5(H5Dwrite(dataset.native(), H5T_IEEE_F32LE, memory.native(), space.native(), transfer,
                      values == nullptr ? &nothing : values),
             fmt::format("{} {} cannot be written", name, to_string(block)), file);
}

struct Part {
  Block block;
  const float* values;
};

std::vector<Part> parts_of(const TensorPart& tensor, std::int64_t part_bytes) {
  std::vector<Part> parts;
  const float* at = tensor.values;
  for_each_part(tensor.region, std::max<std::int64_t>(1, part_bytes / 4), [&](const Block& block) {
    parts.push_back({block, at});
    at += element_count(shape_of(block));
  });
  return parts;
}

}  // namespace

void write_data_in_parallel(const Communicator& communicator, const std::string& file,
                            std::span<const TensorPart> tensors,
                            const std::vector<std::string>& names, std::int64_t part_bytes,
                            Failures& failures) {
  Hdf5File opened;
  Hdf5Properties transfer;
  std::vector<Hdf5Dataset> datasets;
  failures.attempt([&] {
    const Hdf5Guard guard;
    const Hdf5Properties access = checkpoint_access(file);
    check_hdf5(H5Pset_fapl_mpio(access.native(), communicator.native(), MPI_INFO_NULL),
               "no parallel access", file);
    // One rank reads what describes the file and tells the others.
    check_hdf5(H5Pset_all_coll_metadata_ops(access.native(), true), "no parallel access", file);
    check_hdf5(H5Pset_coll_metadata_write(access.native(), true), "no parallel access", file);
    transfer = Hdf5Properties(check_hdf5(H5Pcreate(H5P_DATASET_XFER), "no property list", file));
    check_hdf5(H5Pset_dxpl_mpio(transfer.native(), H5FD_MPIO_COLLECTIVE), "no parallel access",
               file);
    opened = Hdf5File(check_hdf5(H5Fopen(file.c_str(), H5F_ACC_RDWR, access.native()),
                                 "cannot be opened by all ranks", file));
    for (const std::string& name : names) {
      datasets.push_back(open_dataset(opened.native(), name, file));
    }
  });
  if (!joint_failure(communicator, failures.first()).empty()) {
    return;
  }
  // In each round a rank writes one part or nothing; all do as many.
  std::vector<std::int64_t> rounds;
  for (const TensorPart& tensor : tensors) {
    rounds.push_back(static_cast<std::int64_t>(parts_of(tensor, part_bytes).size()));
  }
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, rounds.data(), static_cast<int>(rounds.size()), MPI_INT64_T,
                          MPI_MAX, communicator.native()),
            "MPI_Allreduce");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::vector<Part> parts = parts_of(tensors[i], part_bytes);
    for (std::size_t round = 0; round < static_cast<std::size_t>(rounds[i]); ++round) {
      const bool has = round < parts.size();
      failures.attempt([&] {
        const Hdf5Guard guard;
        write_block(datasets[i], has ? parts[round].block : Block{},
                    has ? parts[round].values : nullptr, transfer.native(), file, names[i]);
      });
    }
  }
  datasets.clear();
  failures.attempt([&] { opened.close(file); });
}

void write_data_through_root(const Communicator& communicator, const std::string& file,
                             std::span<const TensorPart> tensors,
                             const std::vector<std::string>& names,
                             const std::vector<std::vector<Block>>& regions,
                             std::int64_t part_bytes, Failures& failures) {
  const std::int64_t most = std::min(part_bytes, message_bytes);
  if (communicator.rank() != 0) {
    for (const TensorPart& tensor : tensors) {
      for (const Part& part : parts_of(tensor, most)) {
        check_mpi(MPI_Send(part.values, static_cast<int>(element_count(shape_of(part.block))),
                           MPI_FLOAT, 0, message_tag, communicator.native()),
                  "MPI_Send");
      }
    }
    return;
  }
  Hdf5File opened;
  failures.attempt([&] {
    const Hdf5Guard guard;
    const Hdf5Properties access = checkpoint_access(file);
    opened = Hdf5File(
        check_hdf5(H5Fopen(file.c_str(), H5F_ACC_RDWR, access.native()), "cannot be opened", file));
  });
  std::vector<float> received;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Hdf5Dataset dataset;
    const auto write = [&](const Block& block, const float* values) {
      if (failures.any()) {
        return;
      }
      failures.attempt([&] {
        const Hdf5Guard guard;
        if (!dataset.exists()) {
          dataset = open_dataset(opened.native(), names[i], file);
        }
        write_block(dataset, block, values, H5P_DEFAULT, file, names[i]);
      });
    };
    for (const Part& part : parts_of(tensors[i], most)) {
      write(part.block, part.values);
    }
    // Whatever has failed, what is sent is taken, so that nobody is left waiting.
    for (int rank = 1; rank < communicator.size(); ++rank) {
      for_each_part(regions[i][static_cast<std::size_t>(rank)], std::max<std::int64_t>(1, most / 4),
                    [&](const Block& block) {
                      const std::int64_t count = element_count(shape_of(block));
                      received.resize(static_cast<std::size_t>(count));
                      check_mpi(MPI_Recv(received.data(), static_cast<int>(count), MPI_FLOAT, rank,
                                         message_tag, communicator.native(), MPI_STATUS_IGNORE),
                                "MPI_Recv");
                      write(block, received.data());
                    });
    }
  }
  failures.attempt([&] {
    if (opened.exists()) {
      opened.close(file);
    }
  });
}

}  // namespace meshwork
