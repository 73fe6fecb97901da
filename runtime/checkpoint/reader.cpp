#include "runtime/checkpoint/reader.h"

#include <functional>
#include <map>
#include <system_error>
#include <utility>

#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/format.h"
#include "runtime/checkpoint/hdf5_values.h"
#include "runtime/checkpoint/parse.h"
#include "runtime/checkpoint/regions.h"
#include "runtime/checkpoint/structure.h"

namespace meshwork {
namespace {

// What is read at once to be checked.
constexpr std::int64_t part_bytes = std::int64_t{16} << 20;

}  // namespace

class CheckpointReader::Implementation {
 public:
  explicit Implementation(std::filesystem::path path)
      : path_(std::move(path)), name_(path_.string()) {
    or_damaged(name_, [&] {
      const Hdf5Properties access = checkpoint_access(name_);
      file_ = open_for_reading(path_, access.native(), "a checkpoint");
      std::error_code problem;  // it is open
      bytes_ = static_cast<std::int64_t>(std::filesystem::file_size(path_, problem));
    });
    contents_ = parse_checkpoint(file_, name_);
    for (std::size_t i = 0; i < contents_.tensors.size(); ++i) {
      places_[name_of(contents_.tensors[i], contents_.state.callbacks)] = i;
    }
  }

  const std::filesystem::path& path() const { return path_; }
  std::int64_t version() const { return contents_.version; }
  std::int64_t bytes() const { return bytes_; }
  const CheckpointState& state() const { return contents_.state; }
  const std::vector<CheckpointTensor>& tensors() const { return contents_.tensors; }
  const std::vector<StoredRegion>& regions() const { return contents_.regions; }
  const CheckpointTensor* find(std::string_view name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : &contents_.tensors[found->second];
  }

  void read(const CheckpointTensor& tensor, const Block& block, std::span<float> values) const {
    const std::string dataset = name_of(tensor, contents_.state.callbacks);
    if (static_cast<std::int64_t>(values.size()) != element_count(meshwork::shape_of(block))) {
      internal_error("a destination that is not as large as the block");
    }
    or_damaged(name_, [&] {
      const Hdf5Guard guard;
      read_block(open_dataset(file_.native(), dataset, name_), block, values.data(), dataset,
                 name_);
    });
  }

  std::string check(const StoredRegion& region) const {
    try {
      return or_damaged(name_, [&] { return compared(region); });
    } catch (const DamagedCheckpoint& damage) {
      return damage.what();
    }
  }

  std::vector<std::string> verify(std::int64_t part, std::int64_t parts) const {
    std::vector<std::string> damage;
    std::map<std::string, std::vector<Block>> covered;
    std::int64_t number = 0;
    for (const StoredRegion& region : contents_.regions) {
      covered[region.dataset].push_back(region.block);
      if (number++ % parts != part) {
        continue;
      }
      std::string found = check(region);
      if (!found.empty()) {
        damage.push_back(std::move(found));
      }
    }
    for (const CheckpointTensor& tensor : contents_.tensors) {
      const std::string dataset = name_of(tensor, contents_.state.callbacks);
      const std::string flaw =
          part == 0 ? flaw_of_cover(tensor.shape, covered[dataset]) : std::string();
      if (!flaw.empty()) {
        damage.push_back(fmt::format("{}: {}: {}", name_, dataset, flaw));
      }
    }
    if (part == 0 && !protects_attributes()) {
      const std::string flaw = flaw_of_structure();
      if (!flaw.empty()) {
        damage.push_back(flaw);
      }
    }
    return damage;
  }

  bool protects_attributes() const { return contents_.version >= first_version_with_objects; }

 private:
  // What keeps other programs from listing a file that has no hashes of its objects; with them it
  // would not have been opened.
  std::string flaw_of_structure() const {
    try {
      return or_damaged(name_, [&] {
        const Hdf5Guard guard;
        (void)hash_objects(file_.native(), name_);
        return std::string();
      });
    } catch (const DamagedCheckpoint& damage) {
      return damage.what();
    }
  }

  // What the region's hash says; throws for what cannot be read.
  std::string compared(const StoredRegion& region) const {
    Hash hash;
    // The bytes of the small datasets are of one piece; a tensor's come in parts, between which
    // others may use the library.
    if (find(region.dataset) == nullptr) {
      const Hdf5Guard guard;
      hash.add(read_bytes(open_dataset(file_.native(), region.dataset, name_), name_));
    } else {
      std::vector<float> part;
      for_each_part(region.block, part_bytes / 4, [&](const Block& block) {
        part.resize(static_cast<std::size_t>(element_count(meshwork::shape_of(block))));
        const Hdf5Guard guard;
        read_block(open_dataset(file_.native(), region.dataset, name_), block, part.data(),
                   region.dataset, name_);
        hash.add(std::as_bytes(std::span(part)));
      });
    }
    if (hash.value() == region.hash) {
      return "";
    }
    return fmt::format(
        "{}: {} {}: the data are not those that were written (hash {:016x}, "
        "expected {:016x})",
        name_, region.dataset, to_string(region.block), hash.value(), region.hash);
  }

  std::filesystem::path path_;
  std::string name_;
  std::int64_t bytes_ = 0;
  Hdf5File file_;
  ParsedCheckpoint contents_;
  std::map<std::string, std::size_t, std::less<>> places_;  // of tensors, by name
};

CheckpointReader::CheckpointReader(const std::filesystem::path& file)
    : implementation_(std::make_unique<Implementation>(file)) {}
CheckpointReader::~CheckpointReader() = default;
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&&) noexcept = default;

const std::filesystem::path& CheckpointReader::file() const {
  return implementation_->path();
}
std::int64_t CheckpointReader::format_version() const {
  return implementation_->version();
}
bool CheckpointReader::protects_attributes() const {
  return implementation_->protects_attributes();
}
std::int64_t CheckpointReader::bytes() const {
  return implementation_->bytes();
}
const CheckpointState& CheckpointReader::state() const {
  return implementation_->state();
}
const std::vector<CheckpointTensor>& CheckpointReader::tensors() const {
  return implementation_->tensors();
}

const CheckpointTensor* CheckpointReader::find(std::string_view name) const {
  return implementation_->find(name);
}

void CheckpointReader::read(const CheckpointTensor& tensor, const Block& block,
                            std::span<float> destination) const {
  implementation_->read(tensor, block, destination);
}

std::vector<float> CheckpointReader::read(const CheckpointTensor& tensor) const {
  const std::string name =
      fmt::format("{}: {}", file().string(), name_of(tensor, state().callbacks));
  std::vector<float> values = with_memory_for(name, [&] {
    return std::vector<float>(static_cast<std::size_t>(element_count(tensor.shape)));
  });
  read(tensor, whole(tensor.shape), values);
  if (sum_of(tensor.shape, whole(tensor.shape), values) != tensor.sum) {
    throw DamagedCheckpoint(name + ": the data are not those that were written");
  }
  return values;
}

const std::vector<StoredRegion>& CheckpointReader::regions() const {
  return implementation_->regions();
}
std::string CheckpointReader::check(const StoredRegion& region) const {
  return implementation_->check(region);
}
std::vector<std::string> CheckpointReader::verify(std::int64_t part, std::int64_t parts) const {
  return implementation_->verify(part, parts);
}

}  // namespace meshwork
