#include "runtime/checkpoint/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "collectives/element_type.h"
#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/file_size_limit.h"
#include "collectives/path_text.h"
#include "collectives/rank_names.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/descriptor.h"
#include "runtime/checkpoint/format.h"
#include "runtime/checkpoint/mpi_io.h"
#include "runtime/checkpoint/new_file.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/checkpoint/regions.h"
#include "runtime/checkpoint/verdict.h"
#include "runtime/checkpoint/write_data.h"

namespace meshwork {
namespace {

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

// What a rank announces: words of 64 bits.
class Words {
 public:
  Words() = default;
  explicit Words(const std::string& bytes) : bytes_(bytes) {}
  void add(std::uint64_t word) { bytes_.append(reinterpret_cast<const char*>(&word), sizeof word); }
  std::uint64_t take() {
    std::uint64_t word = 0;
    if (at_ + sizeof word > bytes_.size()) {
      internal_error("an announcement that is too short");
    }
    std::memcpy(&word, bytes_.data() + at_, sizeof word);
    at_ += sizeof word;
    return word;
  }
  [[nodiscard]] bool more() const { return at_ < bytes_.size(); }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

// What is hashed and summed at once: 128 KiB.
constexpr std::int64_t elements_in_cache = std::int64_t{32} << 10;

// One checkpoint being written.
class CheckpointWriting {
 public:
  CheckpointWriting(const Communicator& communicator, const std::filesystem::path& file,
                    const CheckpointState& state, std::span<const TensorPart> tensors,
                    const WriteOptions& options)
      : communicator_(communicator),
        final_(file.string()),
        temporary_(name_while_writing(file).string()),
        state_(state),
        parts_(tensors),
        options_(options) {}

  WriteReport run() {
    const auto begin = std::chrono::steady_clock::now();
    const bool parallel = options_.writer == CheckpointWriter::parallel;
    MpiIo io;
    std::string announcement;
    phase("announcing", [&](Failures& failures) {
      failures.attempt([&] {
        io = find_mpi_io();
        state_.program = "meshwork " MESHWORK_VERSION;
        state_.writer = parallel ? fmt::format("parallel, {} rank{}: {}", communicator_.size(),
                                               communicator_.size() == 1 ? "" : "s", io.description)
                                 : "plain";
        state_.created = time_text();
        announcement = announce();
      });
    });
    exchange_regions(announcement);
    WriteReport report;
    try {
      phase("making the file", [&](Failures& failures) {
        if (is_root()) {
          failures.attempt([&] { make_file(); });
        }
      });
      phase("writing the data", [&](Failures& failures) {
        if (parallel) {
          joined_ = write_data_in_parallel(
              {communicator_, temporary_, parts_, names_, options_.part_bytes, options_.trace},
              failures);
        } else {
          write_data_through_root(
              {communicator_, temporary_, parts_, names_, options_.part_bytes, options_.trace},
              blocks_, failures);
        }
      });
      const bool everything = options_.verify || (parallel && !io.trusted);
      const bool joined = std::find(joined_.begin(), joined_.end(), true) != joined_.end();
      if (everything || (joined && !io.collectives_tell)) {
        phase("reading back", [&](Failures& failures) {
          failures.attempt([&] { read_back(parallel, everything); });
        });
      }
      phase("giving it its name", [&](Failures& failures) {
        if (is_root()) {
          failures.attempt([&] { commit(); });
        }
      });
    } catch (...) {
      if (made_) made_->remove();
      throw;
    }
    std::error_code problem;
    report.bytes =
        is_root() ? static_cast<std::int64_t>(std::filesystem::file_size(final_, problem)) : 0;
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return report;
  }

 private:
  [[nodiscard]] bool is_root() const { return communicator_.rank() == 0; }

  // What this rank does, and the agreement that it went well on all of them.
  template <class Action>
  void phase(const std::string& what, const Action& action) {
    const TracePoint doing(options_.trace, fmt::format("the checkpoint {}: {}", final_, what));
    const TracedActivity does(doing);
    Failures failures;
    action(failures);
    agree_that_all_is_well(
        communicator_, failures,
        {options_.trace, fmt::format("agreement after {} (checkpoint {})", what, final_)});
  }

  // Phase 1: what this rank is going to write.
  std::string announce() {
    Words words;
    Hash list;  // the ranks must speak of the same tensors
    for (const TensorPart& part : parts_) {
      tensors_.push_back(part.tensor);
      names_.push_back(name_of(part.tensor, state_.callbacks));
      const std::string line = names_.back() + meshwork::to_string(part.tensor.shape);
      list.add(std::as_bytes(std::span(line)));
    }
    words.add(list.value());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Block& region = parts_[i].region;
      if (is_empty(region)) {
        continue;
      }
      // Both checksums in one walk through memory.
      Hash hash;
      std::uint64_t sum = 0;
      const float* at = parts_[i].values;
      for_each_part(region, elements_in_cache, [&](const Block& part) {
        const std::span values(at, static_cast<std::size_t>(size_of(part)));
        hash.add(std::as_bytes(values));
        sum += sum_of(parts_[i].tensor.shape, part, values);
        at += values.size();
      });
      own_.push_back({names_[i], region, hash.value()});
      words.add(i);
      words.add(hash.value());
      words.add(sum);
      words.add(region.size());
      for (const Range& range : region) {
        words.add(static_cast<std::uint64_t>(range.begin));
        words.add(static_cast<std::uint64_t>(range.end));
      }
    }
    return words.bytes();
  }

  // Phase 1. Afterwards rank 0 knows all regions, and the sums of the tensors.
  void exchange_regions(const std::string& announcement) {
    std::vector<std::string> announced;
    {
      const TracedCollective inside(
          TracePoint(options_.trace, "announcing of regions (checkpoint " + final_ + ")"));
      announced = gather_texts(communicator_, announcement);
    }
    phase("comparing what is announced", [&](Failures& failures) {
      if (is_root()) {
        failures.attempt([&] { take_regions(announced); });
      }
    });
  }

  void take_regions(const std::vector<std::string>& announced) {
    blocks_.assign(parts_.size(), std::vector<Block>(announced.size(), Block{{0, 0}}));
    std::vector<std::vector<Block>> covering(parts_.size());
    std::uint64_t list = 0;
    for (std::size_t rank = 0; rank < announced.size(); ++rank) {
      Words words(announced[rank]);
      const std::uint64_t hash = words.take();
      if (rank == 0) {
        list = hash;
      } else if (hash != list) {
        fail("{}: rank {} has other tensors to write than rank {}", final_,
             name_of_rank(static_cast<int>(rank)), name_of_rank(0));
      }
      while (words.more()) {
        const std::size_t tensor = words.take();
        StoredRegion region{names_.at(tensor), {}, words.take()};
        tensors_[tensor].sum += words.take();
        const std::size_t dimensions = words.take();
        for (std::size_t d = 0; d < dimensions; ++d) {
          const std::int64_t begin = static_cast<std::int64_t>(words.take());
          region.block.push_back({begin, static_cast<std::int64_t>(words.take())});
        }
        blocks_[tensor][rank] = region.block;
        covering[tensor].push_back(region.block);
        regions_.push_back(std::move(region));
      }
    }
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const std::string flaw = flaw_of_cover(parts_[i].tensor.shape, covering[i]);
      if (!flaw.empty()) {
        fail("{}: {}: {}", final_, names_[i], flaw);
      }
    }
  }

  // Phase 2. Whether there is room for the data is tried before HDF5 makes the file, which is to be
  // quick to fail. Then room is taken for the file that HDF5 has made, no more and no less.
  void make_file() {
    // What is left of a killed run may still be written to by a process that does not yet know.
    made_.emplace(temporary_);
    Descriptor(temporary_, O_WRONLY).reserve(data_bytes());
    create_checkpoint_file(temporary_, state_, tensors_, regions_);
    const Descriptor made(temporary_, O_WRONLY);
    made.reserve(made.bytes());
  }

  [[nodiscard]] std::int64_t data_bytes() const {
    std::int64_t bytes = 0;
    for (const CheckpointTensor& tensor : tensors_) {
      bytes += element_count(tensor.shape) * float32_bytes;
    }
    return bytes;
  }

  // Phase 4: each rank what it wrote, rank 0 also what it alone made; or, if that is not
  // `everything`, what of it was written collectively.
  void read_back(bool parallel, bool everything) {
    if (!is_root() && (!parallel || own_.empty())) {
      return;
    }
    const CheckpointReader reader(temporary_);
    std::vector<StoredRegion> mine = parallel ? own_ : reader.regions();
    if (!everything) {
      std::set<std::string> joined;
      for (std::size_t i = 0; i < joined_.size(); ++i) {
        if (joined_[i]) {
          joined.insert(names_[i]);
        }
      }
      std::erase_if(mine, [&](const StoredRegion& own) { return !joined.contains(own.dataset); });
    } else if (parallel && is_root()) {
      for (const StoredRegion& region : reader.regions()) {
        if (reader.find(region.dataset) == nullptr) {
          mine.push_back(region);
        }
      }
    }
    for (const StoredRegion& region : mine) {
      const std::string damage = reader.check(region);
      if (!damage.empty()) {
        fail("the data read back differ: {}", damage);
      }
    }
  }

  // Phase 5.
  void commit() {
    made_.value().rename_to(final_);
    const std::filesystem::path directory = std::filesystem::path(final_).parent_path();
    Descriptor(directory.empty() ? "." : directory, O_RDONLY | O_DIRECTORY).bring_to_disk();
  }

  const Communicator& communicator_;
  std::string final_;
  std::string temporary_;
  std::optional<MadeFile> made_;  // by rank 0
  CheckpointState state_;
  std::span<const TensorPart> parts_;
  WriteOptions options_;
  std::vector<CheckpointTensor> tensors_;  // with their sums, on rank 0
  std::vector<std::string> names_;
  std::vector<StoredRegion> own_;
  std::vector<bool> joined_;                // by tensor: written collectively
  std::vector<StoredRegion> regions_;       // of all ranks, on rank 0
  std::vector<std::vector<Block>> blocks_;  // by tensor and rank, on rank 0
};

}  // namespace

WriteReport write_checkpoint(const Communicator& communicator, const std::filesystem::path& file,
                             const CheckpointState& state, std::span<const TensorPart> tensors,
                             const WriteOptions& options) {
  const FileSizeSignalBlocked blocked;
  try {
    return CheckpointWriting(communicator, file, state, tensors, options).run();
  } catch (const JointError&) {
    throw;
  } catch (const RanksParted&) {
    throw;
  } catch (const std::exception& error) {
    if (communicator.size() > 1) {
      abort_job(1, fmt::format("writing the checkpoint {}: {}", file, error.what()));
    }
    throw JointError(error.what());
  }
}

}  // namespace meshwork
