#include "runtime/checkpoint/reader.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/format.h"
#include "runtime/checkpoint/hdf5_values.h"
#include "runtime/checkpoint/regions.h"

namespace meshwork {
namespace {

// What is read at once to be checked.
constexpr std::int64_t part_bytes = std::int64_t{16} << 20;

// Hands `action`'s errors on as damage of the file.
template <class Action>
decltype(auto) or_damaged(const std::string& file, Action&& action) {
  try {
    return std::forward<Action>(action)();
  } catch (const DamagedCheckpoint&) {
    throw;
  } catch (const Error& error) {
    throw DamagedCheckpoint(error.what());
  } catch (const std::exception& error) {  // lengths that no memory can hold
    throw DamagedCheckpoint(fmt::format("{}: cannot be read: {}", file, error.what()));
  }
}

TensorKind kind_of(const std::string& name, const std::string& subject) {
  for (const auto& [known, kind] : {std::pair{"variable", TensorKind::variable},
                                    {"slot", TensorKind::slot},
                                    {"kept", TensorKind::kept}}) {
    if (name == known) {
      return kind;
    }
  }
  fail("{}: \"{}\" is no kind of tensor", subject, name);
}

// Selects `block` in a dataspace.
void select(const Hdf5Dataspace& space, const Block& block, const std::string& subject) {
  if (block.empty()) {
    check_hdf5(H5Sselect_all(space.native()), "cannot be selected", subject);
    return;
  }
  std::vector<hsize_t> start;
  std::vector<hsize_t> count;
  for (const Range& range : block) {
    start.push_back(static_cast<hsize_t>(range.begin));
    count.push_back(static_cast<hsize_t>(range.length()));
  }
  check_hdf5(H5Sselect_hyperslab(space.native(), H5S_SELECT_SET, start.data(), nullptr,
                                 count.data(), nullptr),
             "cannot be selected", subject);
}

std::vector<std::string> link_names(const Hdf5Group& group, const std::string& subject) {
  std::vector<std::string> names;
  hsize_t index = 0;
  check_hdf5(H5Literate(
                 group.native(), H5_INDEX_NAME, H5_ITER_INC, &index,
                 [](hid_t, const char* name, const H5L_info_t*, void* list) -> herr_t {
                   try {
                     static_cast<std::vector<std::string>*>(list)->emplace_back(name);
                     return 0;
                   } catch (...) {
                     return -1;  // exceptions do not cross the library
                   }
                 },
                 &names),
             "a group cannot be listed", subject);
  return names;
}

std::vector<std::string> attribute_names(const Hdf5Group& group, const std::string& subject) {
  std::vector<std::string> names;
  hsize_t index = 0;
  check_hdf5(H5Aiterate2(
                 group.native(), H5_INDEX_NAME, H5_ITER_INC, &index,
                 [](hid_t, const char* name, const H5A_info_t*, void* list) -> herr_t {
                   try {
                     static_cast<std::vector<std::string>*>(list)->emplace_back(name);
                     return 0;
                   } catch (...) {
                     return -1;
                   }
                 },
                 &names),
             "attributes cannot be listed", subject);
  return names;
}

}  // namespace

class CheckpointReader::Implementation {
 public:
  explicit Implementation(std::filesystem::path path)
      : path_(std::move(path)), name_(path_.string()) {
    open();
    const Hdf5Guard guard;
    const std::int64_t version = or_damaged(name_, [&] {
      root_ = open_group(file_.native(), "/", name_);
      if (!has_attribute(root_.native(), "format", name_) ||
          read_text(root_.native(), "format", name_) != checkpoint_format_name) {
        fail("{}: is an HDF5 file, but no checkpoint of Meshwork", name_);
      }
      return read_number<std::int64_t>(root_.native(), "format_version", name_);
    });
    if (version > checkpoint_format_version) {
      fail(
          "{}: has the format version {}, this program reads versions up to {}; it was written "
          "by {}",
          name_, version, checkpoint_format_version, read_text(root_.native(), "program", name_));
    }
    version_ = version;
    or_damaged(name_, [&] {
      read_table();
      read_state();
      read_tensors();
    });
  }

  const std::filesystem::path& path() const { return path_; }
  std::int64_t version() const { return version_; }
  std::int64_t bytes() const { return bytes_; }
  const CheckpointState& state() const { return state_; }
  const std::vector<CheckpointTensor>& tensors() const { return tensors_; }
  const std::vector<StoredRegion>& regions() const { return regions_; }
  const CheckpointTensor* find(std::string_view name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : &tensors_[found->second];
  }

  void read(const CheckpointTensor& tensor, const Block& block, std::span<float> values) const {
    const std::string dataset = name_of(tensor, state_.callbacks);
    if (static_cast<std::int64_t>(values.size()) != element_count(meshwork::shape_of(block))) {
      internal_error("a destination that is not as large as the block");
    }
    or_damaged(name_, [&] {
      const Hdf5Guard guard;
      read_block(open_dataset(file_.native(), dataset, name_), H5T_IEEE_F32LE, block, values.data(),
                 dataset);
    });
  }

  std::string check(const StoredRegion& region) const {
    try {
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
          read_block(open_dataset(file_.native(), region.dataset, name_), H5T_IEEE_F32LE, block,
                     part.data(), region.dataset);
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
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  std::vector<std::string> verify() const {
    std::vector<std::string> damage;
    std::map<std::string, std::vector<Block>> covered;
    for (const StoredRegion& region : regions_) {
      covered[region.dataset].push_back(region.block);
      std::string found = check(region);
      if (!found.empty()) {
        damage.push_back(std::move(found));
      }
    }
    for (const CheckpointTensor& tensor : tensors_) {
      const std::string dataset = name_of(tensor, state_.callbacks);
      const std::string flaw = flaw_of_cover(tensor.shape, covered[dataset]);
      if (!flaw.empty()) {
        damage.push_back(fmt::format("{}: {}: {}", name_, dataset, flaw));
      }
    }
    return damage;
  }

 private:
  void open() {
    std::error_code problem;
    const std::filesystem::file_status status = std::filesystem::status(path_, problem);
    if (!std::filesystem::exists(status)) {
      const bool missing = status.type() == std::filesystem::file_type::not_found;
      throw DamagedCheckpoint(
          fmt::format("{}: {}", name_, missing ? "there is no such file" : problem.message()));
    }
    if (!std::filesystem::is_regular_file(status)) {
      throw DamagedCheckpoint(
          fmt::format("{}: is {}, a checkpoint is expected", name_,
                      std::filesystem::is_directory(status) ? "a directory" : "no regular file"));
    }
    bytes_ = static_cast<std::int64_t>(std::filesystem::file_size(path_, problem));
    if (problem || bytes_ == 0) {
      throw DamagedCheckpoint(
          fmt::format("{}: {}", name_, problem ? problem.message() : "is empty"));
    }
    or_damaged(name_, [&] {
      const Hdf5Guard guard;
      const htri_t is_hdf5 = H5Fis_hdf5(name_.c_str());
      if (is_hdf5 == 0) {
        fail("{}: is no HDF5 file", name_);
      }
      check_hdf5(is_hdf5, "cannot be read", name_);
      const Hdf5Properties access = checkpoint_access(name_);
      file_ = Hdf5File(check_hdf5(H5Fopen(name_.c_str(), H5F_ACC_RDONLY, access.native()),
                                  "cannot be opened; it is truncated or damaged", name_));
    });
  }

  void read_block(const Hdf5Dataset& dataset, hid_t type, const Block& block, void* values,
                  const std::string& what) const {
    if (is_empty(block)) {
      return;
    }
    const Hdf5Dataspace space(check_hdf5(H5Dget_space(dataset.native()), "no dataspace", name_));
    select(space, block, name_);
    std::vector<hsize_t> lengths;
    for (const Range& range : block) {
      lengths.push_back(static_cast<hsize_t>(range.length()));
    }
    const Hdf5Dataspace memory(check_hdf5(
        block.empty() ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(static_cast<int>(lengths.size()), lengths.data(), nullptr),
        "no dataspace", name_));
    check_hdf5(
        H5Dread(dataset.native(), type, memory.native(), space.native(), H5P_DEFAULT, values),
        fmt::format("{} {} cannot be read", what, to_string(block)), name_);
  }

  void read_table() {
    const Hdf5Group group = open_group(file_.native(), "checksums", name_);
    const Hdf5Dataset names = open_dataset(file_.native(), "checksums/datasets", name_);
    const Hdf5Dataset table = open_dataset(file_.native(), "checksums/regions", name_);
    const std::vector<std::byte> name_bytes = read_bytes(names, name_);
    const std::vector<std::byte> table_bytes = read_bytes(table, name_);
    Hash hash;
    hash.add(name_bytes);
    hash.add(table_bytes);
    if (hash.value() != read_number<std::uint64_t>(group.native(), "hash", name_)) {
      fail("{}: the table of checksums is damaged", name_);
    }
    datasets_ = texts_in(names, name_bytes);
    const Shape shape = meshwork::shape_of(table, name_);
    if (shape.size() != 2 || shape[1] < 3 ||
        table_bytes.size() != static_cast<std::size_t>(element_count(shape)) * 8) {
      fail("{}: the table of checksums has the shape {}", name_, meshwork::to_string(shape));
    }
    std::vector<std::uint64_t> row(static_cast<std::size_t>(shape[1]));
    for (std::int64_t i = 0; i < shape[0]; ++i) {
      std::memcpy(row.data(), table_bytes.data() + static_cast<std::size_t>(i) * row.size() * 8,
                  row.size() * 8);
      if (row[0] >= datasets_.size() || 3 + 2 * row[2] > row.size()) {
        fail("{}: row {} of the table of checksums is none", name_, i);
      }
      StoredRegion region{datasets_[row[0]], {}, row[1]};
      for (std::size_t d = 0; d < row[2]; ++d) {
        region.block.push_back(
            {static_cast<std::int64_t>(row[3 + 2 * d]), static_cast<std::int64_t>(row[4 + 2 * d])});
      }
      regions_.push_back(std::move(region));
    }
  }

  std::vector<std::string> texts_in(const Hdf5Dataset& dataset,
                                    const std::vector<std::byte>& bytes) const {
    const Hdf5Datatype type(check_hdf5(H5Dget_type(dataset.native()), "no type", name_));
    if (H5Tget_class(type.native()) != H5T_STRING) {
      fail("{}: a list of texts is something else", name_);
    }
    const std::size_t length = H5Tget_size(type.native());
    std::vector<std::string> texts;
    for (std::size_t at = 0; at + length <= bytes.size(); at += length) {
      std::string text(reinterpret_cast<const char*>(bytes.data()) + at, length);
      text.resize(text.find_last_not_of('\0') + 1);
      texts.push_back(std::move(text));
    }
    return texts;
  }

  // The bytes of a small dataset, which are compared with their hash.
  std::vector<std::byte> checked_bytes(const std::string& name, const Hdf5Dataset& dataset) const {
    std::vector<std::byte> bytes = read_bytes(dataset, name_);
    const auto region =
        std::find_if(regions_.begin(), regions_.end(),
                     [&](const StoredRegion& known) { return known.dataset == name; });
    Hash hash;
    hash.add(bytes);
    if (region == regions_.end() || region->hash != hash.value()) {
      fail("{}: {}: the data are not those that were written", name_, name);
    }
    return bytes;
  }

  std::vector<std::string> texts(const std::string& name) const {
    const Hdf5Dataset dataset = open_dataset(file_.native(), name, name_);
    return texts_in(dataset, checked_bytes(name, dataset));
  }
  std::string text(const std::string& name) const {
    const std::vector<std::string> found = texts(name);
    if (found.size() != 1) {
      fail("{}: {} is not one text", name_, name);
    }
    return found.front();
  }
  template <class Number>
  std::vector<Number> numbers(const std::string& name) const {
    const Hdf5Dataset dataset = open_dataset(file_.native(), name, name_);
    const Hdf5Datatype type(check_hdf5(H5Dget_type(dataset.native()), "no type", name_));
    if (check_hdf5(H5Tequal(type.native(), hdf5_type<Number>()), "no type", name_) == 0) {
      fail("{}: {} has elements of another type", name_, name);
    }
    const std::vector<std::byte> bytes = checked_bytes(name, dataset);
    std::vector<Number> values(bytes.size() / sizeof(Number));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Number));
    return values;
  }

  void read_state() {
    const hid_t root = root_.native();
    state_.program = read_text(root, "program", name_);
    state_.writer = read_text(root, "writer", name_);
    state_.created = read_text(root, "created", name_);
    state_.mesh = read_text(root, "mesh", name_);
    state_.step = read_number<std::int64_t>(root, "step", name_);
    state_.epoch = read_number<std::int64_t>(root, "epoch", name_);
    const Hdf5Group group = open_group(file_.native(), "state", name_);
    const auto integer = [&](const char* name) {
      return read_number<std::int64_t>(group.native(), name, name_);
    };
    const auto line = [&](const char* name) { return read_text(group.native(), name, name_); };
    state_.batch = integer("batch");
    state_.samples = integer("samples");
    state_.stopped = integer("stopped") != 0;
    state_.seed = read_number<std::uint64_t>(group.native(), "seed", name_);
    state_.data_rows = integer("data_rows");
    state_.batch_size = integer("batch_size");
    state_.steps_per_epoch = integer("steps_per_epoch");
    state_.shuffle = integer("shuffle") != 0;
    state_.epochs = integer("epochs");
    state_.learning_rate = read_number<double>(group.native(), "learning_rate", name_);
    state_.constant_rate = integer("constant_rate") != 0;
    state_.running.penalties = read_number<double>(group.native(), "running_penalties", name_);
    state_.running.rows = integer("running_rows");
    state_.optimizer = line("optimizer");
    state_.schedule = line("schedule");
    state_.device = line("device");
    state_.collectives = line("collectives");
    state_.running.names = texts("state/running_names");
    state_.running.sums = numbers<double>("state/running_sums");
    state_.slots = texts("state/slots");
    state_.data = text("state/data");
    state_.configuration = text("state/configuration");
    const std::vector<std::string> log_names = texts("state/log_names");
    const std::vector<double> log_values = numbers<double>("state/log_values");
    if (log_names.size() != log_values.size() ||
        state_.running.names.size() != state_.running.sums.size()) {
      fail("{}: there are more names than values, or fewer", name_);
    }
    for (std::size_t i = 0; i < log_names.size(); ++i) {
      state_.logs.emplace_back(log_names[i], log_values[i]);
    }
    state_.history_epochs = numbers<std::int64_t>("history/epoch");
    for (const std::string& link :
         link_names(open_group(file_.native(), "history", name_), name_)) {
      const std::string dataset = "history/" + link;
      if (link != "epoch") {
        const std::string log =
            read_text(open_dataset(file_.native(), dataset, name_).native(), "name", name_);
        state_.history[log] = numbers<double>(dataset);
      }
    }
    read_callbacks();
  }

  void read_callbacks() {
    const std::vector<std::string> links =
        link_names(open_group(file_.native(), "callbacks", name_), name_);
    state_.callbacks.resize(links.size());
    for (const std::string& link : links) {
      const std::string path = "callbacks/" + link;
      const Hdf5Group group = open_group(file_.native(), path, name_);
      CallbackRecord record;
      record.class_name = read_text(group.native(), "class", name_);
      record.keeps_weights = read_number<std::int64_t>(group.native(), "keeps_weights", name_) != 0;
      const Hdf5Group values = open_group(file_.native(), path + "/numbers", name_);
      for (const std::string& key : attribute_names(values, name_)) {
        record.state[key] = read_number<double>(values.native(), key, name_);
      }
      for (const std::string& number :
           link_names(open_group(file_.native(), path + "/texts", name_), name_)) {
        const std::string dataset = fmt::format("{}/texts/{}", path, number);
        const std::string key =
            read_text(open_dataset(file_.native(), dataset, name_).native(), "name", name_);
        record.state[key] = text(dataset);
      }
      const std::size_t index = std::stoul(link);
      if (index >= links.size()) {
        fail("{}: there are {} callbacks, and one with the number {}", name_, links.size(), index);
      }
      state_.callbacks[index] = std::move(record);
    }
  }

  void read_tensors() {
    for (const std::string& name : datasets_) {
      const Hdf5Dataset dataset = open_dataset(file_.native(), name, name_);
      const hid_t object = dataset.native();
      if (!has_attribute(object, "kind", name_)) {
        continue;
      }
      CheckpointTensor tensor;
      tensor.kind = kind_of(read_text(object, "kind", name_), name_);
      tensor.path = read_text(object, "path", name_);
      tensor.slot = read_text(object, "slot", name_);
      tensor.callback = static_cast<int>(read_number<std::int64_t>(object, "callback", name_));
      tensor.trainable = read_number<std::int64_t>(object, "trainable", name_) != 0;
      tensor.layout = read_text(object, "layout", name_);
      tensor.sum = read_number<std::uint64_t>(object, "sum", name_);
      tensor.shape = meshwork::shape_of(dataset, name_);
      const bool kept = tensor.kind == TensorKind::kept;
      if (kept &&
          (tensor.callback < 0 || tensor.callback >= static_cast<int>(state_.callbacks.size()))) {
        fail("{}: {} belongs to callback {}, which there is not", name_, name, tensor.callback);
      }
      if (name_of(tensor, state_.callbacks) != name) {
        fail("{}: {} says that it is {}", name_, name, name_of(tensor, state_.callbacks));
      }
      const Hdf5Datatype type(check_hdf5(H5Dget_type(object), "no type", name_));
      if (check_hdf5(H5Tequal(type.native(), H5T_IEEE_F32LE), "no type", name_) == 0) {
        fail("{}: {} is not float32", name_, name);
      }
      tensors_.push_back(std::move(tensor));
    }
    const auto key = [](const CheckpointTensor& tensor) {
      return std::tie(tensor.kind, tensor.callback, tensor.path, tensor.slot);
    };
    std::sort(
        tensors_.begin(), tensors_.end(),
        [&](const CheckpointTensor& a, const CheckpointTensor& b) { return key(a) < key(b); });
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      places_[name_of(tensors_[i], state_.callbacks)] = i;
    }
  }

  std::filesystem::path path_;
  std::string name_;
  std::int64_t bytes_ = 0;
  std::int64_t version_ = 0;
  Hdf5File file_;
  Hdf5Group root_;
  std::vector<std::string> datasets_;
  std::vector<StoredRegion> regions_;
  CheckpointState state_;
  std::vector<CheckpointTensor> tensors_;
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
  std::vector<float> values(static_cast<std::size_t>(element_count(tensor.shape)));
  read(tensor, whole(tensor.shape), values);
  if (sum_of(tensor.shape, whole(tensor.shape), values) != tensor.sum) {
    throw DamagedCheckpoint(fmt::format("{}: {}: the data are not those that were written",
                                        file().string(), name_of(tensor, state().callbacks)));
  }
  return values;
}

const std::vector<StoredRegion>& CheckpointReader::regions() const {
  return implementation_->regions();
}
std::string CheckpointReader::check(const StoredRegion& region) const {
  return implementation_->check(region);
}
std::vector<std::string> CheckpointReader::verify() const {
  return implementation_->verify();
}

}  // namespace meshwork
