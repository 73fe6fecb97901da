#include "runtime/checkpoint/write_data.h"

#include <fcntl.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "collectives/element_type.h"
#include "collectives/file_size_limit.h"
#include "collectives/hosted.h"
#include "collectives/rank_names.h"
#include "runtime/checkpoint/descriptor.h"
#include "runtime/checkpoint/format.h"
#include "runtime/checkpoint/hdf5_values.h"
#include "runtime/checkpoint/mpi_io.h"
#include "runtime/checkpoint/regions.h"
#include "runtime/checkpoint/written_file.h"

namespace meshwork {
namespace {

// What travels to rank 0 in one message; it writes one such part while the next one waits.
constexpr std::int64_t message_bytes = std::int64_t{16} << 20;
constexpr int message_tag = 17;

// What a rank that writes alone writes in one call: so little that the disk is soon at work, and
// that who reads samples need not wait for the library for long.
constexpr std::int64_t piece_bytes = std::int64_t{8} << 20;

// How long a rank that could not open the file waits for the others, which may be inside.
constexpr std::chrono::seconds patience_with_opening{60};

// Has the disk begin with `block` of a dataset of `shape`, which has been written.
void begin_bringing_to_disk(const Descriptor& disk, const Hdf5Dataset& dataset, const Block& block,
                            const Shape& shape) {
  haddr_t start = HADDR_UNDEF;
  {
    const Hdf5Guard guard;
    start = H5Dget_offset(dataset.native());
  }
  if (start == HADDR_UNDEF || is_empty(block)) {
    return;
  }
  Block last = block;
  for (Range& range : last) {
    range.begin = range.end - 1;
  }
  const std::int64_t begin = offset_of(block, whole(shape));
  const std::int64_t end = offset_of(last, whole(shape)) + 1;
  disk.begin_bringing_to_disk(static_cast<std::int64_t>(start) + float32_bytes * begin,
                              float32_bytes * (end - begin));
}

// Writes what is selected; `values` may be null if that is nothing.
void write_selected(const Hdf5Dataset& dataset, const Selection& selection, const float* values,
                    hid_t transfer, const std::string& file, const std::string& name) {
  const float nothing = 0;
  check_hdf5(H5Dwrite(dataset.native(), H5T_IEEE_F32LE, selection.memory.native(),
                      selection.file.native(), transfer, values == nullptr ? &nothing : values),
             fmt::format("{} cannot be written", name), file);
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
    at += size_of(block);
  });
  return parts;
}

// The file, open on all ranks. MPI's opening is collective, but a rank on which it fails does not
// tell the others, who would wait for it inside; so that each first sees whether it can.
void open_on_all_ranks(const DataToWrite& data, WrittenFile& opened, Failures& failures) {
  const std::string& file = data.file;
  failures.attempt([&] {
    check_file_size(file, Descriptor(file, O_RDWR).bytes());
    forget_killed_openings(file);
  });
  Hdf5Properties access;
  failures.attempt([&] {
    const Hdf5Guard guard;
    access = checkpoint_access(file);
    check_hdf5(H5Pset_fapl_mpio(access.native(), data.communicator.native(), MPI_INFO_NULL),
               "no parallel access", file);
    // One rank reads what describes the file and tells the others.
    check_hdf5(H5Pset_all_coll_metadata_ops(access.native(), true), "no parallel access", file);
    check_hdf5(H5Pset_coll_metadata_write(access.native(), true), "no parallel access", file);
  });
  if (!joint_failure(data.communicator, failures.first(),
                     {data.trace, "agreement that all ranks can open " + file})
           .empty()) {
    return;
  }
  const TracePoint opening(data.trace, "opening of " + file);
  {
    const TracedCollective inside(opening);
    failures.attempt([&] {
      const Hdf5Guard guard;
      opened = WrittenFile(Hdf5File(check_hdf5(H5Fopen(file.c_str(), H5F_ACC_RDWR, access.native()),
                                               "cannot be opened by all ranks", file)),
                           file);
    });
  }
  const std::string failure =
      joint_failure(data.communicator, failures.first(), opening, patience_with_opening);
  // To close it is collective as well, and not all ranks have it.
  if (!failure.empty() && opened.exists()) {
    if (Hosted* const hosted = Hosted::current()) {
      hosted->leave_wait();
      (void)new WrittenFile(std::move(opened));
    }
    abort_job(1, failure);
  }
}

// How the ranks write one tensor.
struct Rounds {
  bool together = false;   // in collective writes, of which
  std::int64_t count = 0;  // there are so many: in each a rank writes one part or nothing
};

// The same on all ranks. Collective. Where each rank has one stretch of the tensor it writes that
// alone: nothing is gained by handing data to others first. Many small pieces are for MPI to join.
std::vector<Rounds> agree_on_rounds(const DataToWrite& data) {
  std::vector<std::int64_t> numbers;  // of each tensor: whether it is strided, how many parts
  for (const TensorPart& tensor : data.tensors) {
    const bool strided =
        !is_empty(tensor.region) && !contiguous(tensor.region, whole(tensor.tensor.shape));
    numbers.push_back(strided ? 1 : 0);
    numbers.push_back(static_cast<std::int64_t>(parts_of(tensor, data.part_bytes).size()));
  }
  const TracedCollective inside(TracePoint(data.trace, "counting of the parts of " + data.file));
  await_ranks(data.communicator);
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, numbers.data(), static_cast<int>(numbers.size()),
                          MPI_INT64_T, MPI_MAX, data.communicator.native()),
            "MPI_Allreduce");
  std::vector<Rounds> rounds;
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    rounds.push_back({numbers[i] != 0, numbers[i + 1]});
  }
  return rounds;
}

// Writes this rank's regions, each tensor as the ranks agree. Gives, by tensor, whether that was
// together. Collective.
std::vector<bool> write_tensors(const DataToWrite& data, const std::vector<Hdf5Dataset>& datasets,
                                const Hdf5Properties& collective, const Descriptor& disk,
                                Failures& failures) {
  const std::string& file = data.file;
  const std::vector<Rounds> rounds = agree_on_rounds(data);
  for (std::size_t i = 0; i < data.tensors.size(); ++i) {
    const TensorPart& tensor = data.tensors[i];
    const TracePoint writing(data.trace, fmt::format("writing of {} {}", file, data.names[i]));
    const auto write = [&](const Part* part, hid_t transfer) {
      const Hdf5Guard guard;
      // Selecting fails for want of memory, if ever; then this rank cannot go on with the others.
      const Selection selection =
          select(datasets[i], part != nullptr ? &part->block : nullptr, file);
      failures.attempt([&] {
        write_selected(
            datasets[i], selection, part != nullptr ? part->values : nullptr, transfer, file,
            part != nullptr ? data.names[i] + " " + to_string(part->block) : data.names[i]);
      });
    };
    if (!rounds[i].together) {
      const TracedActivity writes(writing);
      for (const Part& part : parts_of(tensor, std::min(data.part_bytes, piece_bytes))) {
        write(&part, H5P_DEFAULT);
        begin_bringing_to_disk(disk, datasets[i], part.block, tensor.tensor.shape);
      }
      continue;
    }
    const std::vector<Part> parts = parts_of(tensor, data.part_bytes);
    for (std::size_t round = 0; round < static_cast<std::size_t>(rounds[i].count); ++round) {
      const TracedCollective inside(writing);
      write(round < parts.size() ? &parts[round] : nullptr, collective.native());
    }
  }
  std::vector<bool> together;
  for (const Rounds& round : rounds) {
    together.push_back(round.together);
  }
  return together;
}

}  // namespace

std::vector<bool> write_data_in_parallel(const DataToWrite& data, Failures& failures) {
  const std::string& file = data.file;
  WrittenFile opened;
  open_on_all_ranks(data, opened, failures);
  if (!opened.exists()) {
    return {};
  }
  Hdf5Properties collective;
  std::vector<Hdf5Dataset> datasets;
  std::optional<Descriptor> disk;
  failures.attempt([&] {
    disk.emplace(file, O_RDONLY);
    const Hdf5Guard guard;
    collective = Hdf5Properties(check_hdf5(H5Pcreate(H5P_DATASET_XFER), "no property list", file));
    check_hdf5(H5Pset_dxpl_mpio(collective.native(), H5FD_MPIO_COLLECTIVE), "no parallel access",
               file);
    for (const std::string& name : data.names) {
      datasets.push_back(reopen_dataset(opened.native(), name, file));
    }
  });
  const auto close = [&] {
    const TracedCollective inside(TracePoint(data.trace, "closing of " + file));
    for (Hdf5Dataset& dataset : datasets) {
      failures.attempt([&] { dataset.close(file); });
    }
    failures.attempt([&] { opened.close(); });
  };
  if (!joint_failure(data.communicator, failures.first(),
                     {data.trace, "agreement on the datasets of " + file})
           .empty()) {
    close();
    return {};
  }
  const std::vector<bool> together = write_tensors(data, datasets, collective, *disk, failures);
  // The disk is waited for outside of the library, which others may need meanwhile.
  failures.attempt([&] {
    const TracedActivity brings(TracePoint(data.trace, "bringing " + file + " to the disk"));
    disk->bring_to_disk();
  });
  if (joint_failure(data.communicator, failures.first(),
                    {data.trace, "agreement that the data of " + file + " are written"})
          .empty()) {
    const TracedCollective inside(TracePoint(data.trace, "flushing of " + file));
    failures.attempt([&] { opened.flush(); });
  }
  close();
  return together;
}

void write_data_through_root(const DataToWrite& data,
                             const std::vector<std::vector<Block>>& regions, Failures& failures) {
  const Communicator& communicator = data.communicator;
  const std::string& file = data.file;
  const std::int64_t most = std::min(data.part_bytes, message_bytes);
  const TracedCollective inside(TracePoint(
      data.trace, fmt::format("handing the data to rank {}, for {}", name_of_rank(0), file)));
  if (communicator.rank() != 0) {
    for (const TensorPart& tensor : data.tensors) {
      for (const Part& part : parts_of(tensor, most)) {
        MPI_Request sent = MPI_REQUEST_NULL;
        check_mpi(MPI_Isend(part.values, static_cast<int>(size_of(part.block)), MPI_FLOAT, 0,
                            message_tag, communicator.native(), &sent),
                  "MPI_Isend");
        await({&sent, 1}, "MPI_Wait for data on its way to the rank that writes");
      }
    }
    return;
  }
  WrittenFile opened;
  failures.attempt([&] {
    const Hdf5Guard guard;
    const Hdf5Properties access = checkpoint_access(file);
    opened = WrittenFile(Hdf5File(check_hdf5(H5Fopen(file.c_str(), H5F_ACC_RDWR, access.native()),
                                             "cannot be opened", file)),
                         file);
  });
  std::optional<Descriptor> disk;
  failures.attempt([&] { disk.emplace(file, O_RDONLY); });
  std::vector<float> received;
  for (std::size_t i = 0; i < data.tensors.size(); ++i) {
    Hdf5Dataset dataset;
    const auto write = [&](const Block& block, const float* values) {
      if (failures.any()) {
        return;
      }
      failures.attempt([&] {
        {
          const Hdf5Guard guard;
          if (!dataset.exists()) {
            dataset = reopen_dataset(opened.native(), data.names[i], file);
          }
          write_selected(dataset, select(dataset, &block, file), values, H5P_DEFAULT, file,
                         data.names[i] + " " + to_string(block));
        }
        begin_bringing_to_disk(*disk, dataset, block, data.tensors[i].tensor.shape);
      });
    };
    for (const Part& part : parts_of(data.tensors[i], most)) {
      write(part.block, part.values);
    }
    // Whatever has failed, what is sent is taken, so that nobody is left waiting.
    for (int rank = 1; rank < communicator.size(); ++rank) {
      for_each_part(regions[i][static_cast<std::size_t>(rank)], std::max<std::int64_t>(1, most / 4),
                    [&](const Block& block) {
                      const std::int64_t count = size_of(block);
                      received.resize(static_cast<std::size_t>(count));
                      MPI_Request come = MPI_REQUEST_NULL;
                      check_mpi(MPI_Irecv(received.data(), static_cast<int>(count), MPI_FLOAT, rank,
                                          message_tag, communicator.native(), &come),
                                "MPI_Irecv");
                      try {
                        await({&come, 1}, "MPI_Wait for data of another rank");
                      } catch (const RanksParted&) {
                        // MPI may still write there.
                        (void)new std::vector<float>(std::move(received));
                        throw;
                      }
                      write(block, received.data());
                    });
    }
    failures.attempt([&] { dataset.close(file + ": " + data.names[i]); });
  }
  if (!failures.any()) {
    failures.attempt([&] {
      opened.flush();
      disk->bring_to_disk();
      opened.close();
    });
  }
}

}  // namespace meshwork
