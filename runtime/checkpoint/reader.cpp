#include "runtime/checkpoint/reader.h"

#include <functional>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "collectives/path_text.h"
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

// The open file, and what was read of it.
struct CheckpointReader::Implementation {
  explicit Implementation(const std::filesystem::path& file_path)
      : path(file_path), name(in_one_line(file_path.string())) {
    or_damaged(name, [&] {
      const Hdf5Properties access = checkpoint_access(name);
      file = open_for_reading(path, access.native(), "a checkpoint");
      std::error_code problem;  // it is open
      bytes = static_cast<std::int64_t>(std::filesystem::file_size(path, problem));
    });
    contents = parse_checkpoint(file, name);
    for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
      places[name_of(contents.tensors[i], contents.state.callbacks)] = i;
    }
  }

  // What keeps other programs from listing a file that has no hashes of its objects; with them it
  // would not have been opened.
  std::string flaw_of_structure() const {
    try {
      return or_damaged(name, [&] {
        const Hdf5Guard guard;
        reading_hdf5(name);
        (void)hash_objects(file.native(), name);
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
    if (!places.contains(region.dataset)) {
      const Hdf5Guard guard;
      hash.add(read_bytes(open_dataset(file.native(), region.dataset, name), name));
    } else {
      std::vector<float> part;
      for_each_part(region.block, part_bytes / 4, [&](const Block& block) {
        part.resize(static_cast<std::size_t>(size_of(block)));
        const Hdf5Guard guard;
        read_block(open_dataset(file.native(), region.dataset, name), block, part.data(),
                   region.dataset, name);
        hash.add(std::as_bytes(std::span(part)));
      });
    }
    if (hash.value() == region.hash) {
      return "";
    }
    return fmt::format(
        "{}: {} {}: the data differ from those written (hash {:016x}, expected {:016x})", name,
        region.dataset, to_string(region.block), hash.value(), region.hash);
  }

  std::filesystem::path path;
  std::string name;
  std::int64_t bytes = 0;
  Hdf5File file;
  ParsedCheckpoint contents;
  std::map<std::string, std::size_t, std::less<>> places;  // of tensors, by name
};

CheckpointReader::CheckpointReader(const std::filesystem::path& file)
    : implementation_(std::make_unique<Implementation>(file)) {}
CheckpointReader::~CheckpointReader() = default;
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&&) noexcept = default;

const std::filesystem::path& CheckpointReader::file() const {
  return implementation_->path;
}
std::int64_t CheckpointReader::format_version() const {
  return implementation_->contents.version;
}
bool CheckpointReader::protects_attributes() const {
  return format_version() >= first_version_with_objects;
}
std::int64_t CheckpointReader::bytes() const {
  return implementation_->bytes;
}
const CheckpointState& CheckpointReader::state() const {
  return implementation_->contents.state;
}
const std::vector<CheckpointTensor>& CheckpointReader::tensors() const {
  return implementation_->contents.tensors;
}

const CheckpointTensor* CheckpointReader::find(std::string_view name) const {
  const auto found = implementation_->places.find(name);
  return found == implementation_->places.end() ? nullptr : &tensors()[found->second];
}

void CheckpointReader::read(const CheckpointTensor& tensor, const Block& block,
                            std::span<float> destination) const {
  const std::string dataset = name_of(tensor, state().callbacks);
  const std::string& name = implementation_->name;
  if (static_cast<std::int64_t>(destination.size()) != size_of(block)) {
    internal_error("a destination that is not as large as the block");
  }
  or_damaged(name, [&] {
    const Hdf5Guard guard;
    read_block(open_dataset(implementation_->file.native(), dataset, name), block,
               destination.data(), dataset, name);
  });
}

std::vector<float> CheckpointReader::read(const CheckpointTensor& tensor) const {
  const std::string name = fmt::format("{}: {}", file(), name_of(tensor, state().callbacks));
  std::vector<float> values = with_memory_for(name, [&] {
    return std::vector<float>(static_cast<std::size_t>(element_count(tensor.shape)));
  });
  read(tensor, whole(tensor.shape), values);
  if (sum_of(tensor.shape, whole(tensor.shape), values) != tensor.sum) {
    throw DamagedCheckpoint(name + ": the data differ from those written");
  }
  return values;
}

const std::vector<StoredRegion>& CheckpointReader::regions() const {
  return implementation_->contents.regions;
}
std::string CheckpointReader::check(const StoredRegion& region) const {
  try {
    return or_damaged(implementation_->name, [&] { return implementation_->compared(region); });
  } catch (const DamagedCheckpoint& damage) {
    return damage.what();
  }
}
std::vector<std::string> CheckpointReader::verify(std::int64_t part, std::int64_t parts) const {
  std::vector<std::string> damage;
  const auto add = [&](std::string found) {
    if (!found.empty()) damage.push_back(std::move(found));
  };
  // Regions that do not cover a tensor once are not read: they could be the same bytes many times.
  std::map<std::string, std::vector<Block>> covering;
  for (const StoredRegion& region : regions()) covering[region.dataset].push_back(region.block);
  std::set<std::string> flawed;
  for (const CheckpointTensor& tensor : tensors()) {
    const std::string dataset = name_of(tensor, state().callbacks);
    const std::string flaw = flaw_of_cover(tensor.shape, covering[dataset]);
    if (flaw.empty()) continue;
    flawed.insert(dataset);
    if (part == 0) add(fmt::format("{}: {}: {}", implementation_->name, dataset, flaw));
  }
  std::int64_t number = 0;
  for (const StoredRegion& region : regions()) {
    if (number++ % parts == part && !flawed.contains(region.dataset)) add(check(region));
  }
  if (part != 0) return damage;
  if (!protects_attributes()) add(implementation_->flaw_of_structure());
  return damage;
}

}  // namespace meshwork
