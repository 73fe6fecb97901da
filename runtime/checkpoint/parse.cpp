#include "runtime/checkpoint/parse.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/format.h"
#include "runtime/checkpoint/hdf5_values.h"
#include "runtime/checkpoint/structure.h"

namespace meshwork {
namespace {

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

class Parser {
 public:
  Parser(const Hdf5File& file, const std::string& name, std::int64_t version)
      : file_(file), name_(name), version_(version), root_(open_group(file.native(), "/", name)) {}

  ParsedCheckpoint parse() {
    if (version_ < 1) {
      fail("{}: has the format version {}, and the first one was 1", name_, version_);
    }
    read_table();
    compare_objects();
    read_state();
    read_tensors();
    return {version_, std::move(state_), std::move(tensors_), std::move(regions_)};
  }

 private:
  void read_table() {
    const Hdf5Group group = open_group(file_.native(), checksum_group, name_);
    const Hdf5Dataset names = open_dataset(file_.native(), "checksums/datasets", name_);
    const Hdf5Dataset table = open_dataset(file_.native(), "checksums/regions", name_);
    const std::vector<std::byte> name_bytes = read_bytes(names, name_);
    const std::vector<std::byte> table_bytes = read_bytes(table, name_);
    Hash hash;
    hash.add(name_bytes);
    hash.add(table_bytes);
    const std::vector<std::string> links = link_names(group, name_);
    const bool has_objects = std::count(links.begin(), links.end(), "object_hashes") > 0;
    if (version_ < first_version_with_objects && has_objects) {
      fail("{}: says that its format version is {}, but has checksums of version {}", name_,
           version_, first_version_with_objects);
    }
    if (version_ >= first_version_with_objects) {
      read_objects(hash);
    }
    if (hash.value() != read_number<std::uint64_t>(group.native(), checksum_of_table, name_)) {
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
      constexpr std::size_t in_front = 3;  // of the ranges: dataset, hash, dimensions
      if (row[0] >= datasets_.size() || row[2] > (row.size() - in_front) / 2) {
        fail("{}: row {} of the table of checksums is none", name_, i);
      }
      StoredRegion region{datasets_[row[0]], {}, row[1]};
      for (std::size_t d = 0; d < row[2]; ++d) {
        const std::uint64_t begin = row[in_front + 2 * d], end = row[in_front + 2 * d + 1];
        if (begin > end || end > std::numeric_limits<std::int64_t>::max()) {
          fail("{}: row {} of the table of checksums has the range [{}, {})", name_, i, begin, end);
        }
        region.block.push_back({static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)});
      }
      regions_.push_back(std::move(region));
    }
  }

  // What `hash`, that of the table, covers besides.
  void read_objects(Hash& hash) {
    const Hdf5Dataset paths = open_dataset(file_.native(), "checksums/objects", name_);
    const Hdf5Dataset hashes = open_dataset(file_.native(), "checksums/object_hashes", name_);
    const std::vector<std::byte> path_bytes = read_bytes(paths, name_);
    const std::vector<std::byte> hash_bytes = read_bytes(hashes, name_);
    hash.add(path_bytes);
    hash.add(hash_bytes);
    const std::vector<std::string> texts = texts_in(paths, path_bytes);
    if (hash_bytes.size() != texts.size() * sizeof(std::uint64_t)) {
      fail("{}: there are {} paths and {} bytes of hashes of objects", name_, texts.size(),
           hash_bytes.size());
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
      ObjectHash object{texts[i], 0};
      std::memcpy(&object.hash, hash_bytes.data() + i * sizeof object.hash, sizeof object.hash);
      objects_.push_back(std::move(object));
    }
  }

  // Attributes, types and shapes, before anything of them is believed.
  void compare_objects() const {
    if (version_ < first_version_with_objects) {
      return;
    }
    const std::string difference = first_difference(objects_, hash_objects(file_.native(), name_));
    if (!difference.empty()) {
      fail("{}: {}", name_, difference);
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
    state_.step = count(root, "step");
    state_.epoch = count(root, "epoch");
    const Hdf5Group group = open_group(file_.native(), "state", name_);
    const auto integer = [&](const char* name) { return count(group.native(), name); };
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
    // Files of the first days were all written by runs in float32.
    state_.precision =
        has_attribute(group.native(), "precision", name_) ? line("precision") : "float32";
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
    if (std::count(datasets_.begin(), datasets_.end(), "state/keras_places") > 0) {
      read_keras_places();
    }
    if (has_attribute(group.native(), "kernels_platform", name_)) {
      state_.kernels.platform = line("kernels_platform");
      read_kernels();
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

  // A number that cannot be negative.
  std::int64_t count(hid_t object, const char* attribute) const {
    const auto number = read_number<std::int64_t>(object, attribute, name_);
    if (number < 0) {
      fail("{}: attribute \"{}\" is {}", name_, attribute, number);
    }
    return number;
  }

  // Files of the first days do not have them.
  void read_kernels() {
    const std::vector<std::string> specifications = texts("state/kernel_specifications");
    const std::vector<std::string> candidates = texts("state/kernel_candidates");
    if (specifications.size() != candidates.size()) {
      fail("{}: there are {} specifications and {} kernels for them", name_, specifications.size(),
           candidates.size());
    }
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      state_.kernels.chosen[specifications[i]] = candidates[i];
    }
  }

  // Nor these.
  void read_keras_places() {
    const std::vector<std::string> variables = texts("state/keras_variables");
    const std::vector<std::string> places = texts("state/keras_places");
    if (variables.size() != places.size()) {
      fail("{}: there are {} variables and {} places for them", name_, variables.size(),
           places.size());
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      state_.keras_places.push_back({variables[i], places[i]});
    }
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
      for (const std::string& key : attribute_names(values.native(), name_)) {
        record.state[key] = read_number<double>(values.native(), key, name_);
      }
      for (const std::string& number :
           link_names(open_group(file_.native(), path + "/texts", name_), name_)) {
        const std::string dataset = fmt::format("{}/texts/{}", path, number);
        const std::string key =
            read_text(open_dataset(file_.native(), dataset, name_).native(), "name", name_);
        record.state[key] = text(dataset);
      }
      std::size_t index = 0;
      const auto [rest, problem] = std::from_chars(link.data(), link.data() + link.size(), index);
      if (problem != std::errc() || rest == link.data() + link.size() || *rest != '-' ||
          index >= links.size()) {
        fail("{}: {} is none of {} callbacks, which are numbered from 0", name_, path,
             links.size());
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
      const auto callback = read_number<std::int64_t>(object, "callback", name_);
      tensor.trainable = read_number<std::int64_t>(object, "trainable", name_) != 0;
      tensor.layout = read_text(object, "layout", name_);
      tensor.sum = read_number<std::uint64_t>(object, "sum", name_);
      tensor.shape = meshwork::shape_of(dataset, name_);
      const bool kept = tensor.kind == TensorKind::kept;
      const auto callbacks = static_cast<std::int64_t>(state_.callbacks.size());
      if (callback < (kept ? 0 : -1) || callback >= callbacks) {
        fail("{}: {} belongs to callback {}, which there is not", name_, name, callback);
      }
      tensor.callback = static_cast<int>(callback);
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
  }

  const Hdf5File& file_;
  const std::string& name_;
  std::int64_t version_;
  Hdf5Group root_;
  std::vector<std::string> datasets_;
  std::vector<StoredRegion> regions_;
  std::vector<ObjectHash> objects_;  // as they were written; none before version 2
  CheckpointState state_;
  std::vector<CheckpointTensor> tensors_;
};

}  // namespace

bool is_checkpoint(const Hdf5File& file, const std::string& name) {
  const Hdf5Group root = open_group(file.native(), "/", name);
  return has_attribute(root.native(), "format", name) &&
         read_text(root.native(), "format", name) == checkpoint_format_name;
}

ParsedCheckpoint parse_checkpoint(const Hdf5File& file, const std::string& name) {
  const Hdf5Guard guard;
  const std::int64_t version = or_damaged(name, [&] {
    if (!is_checkpoint(file, name)) {
      fail("{}: is an HDF5 file, but no checkpoint of Meshwork", name);
    }
    const Hdf5Group root = open_group(file.native(), "/", name);
    return read_number<std::int64_t>(root.native(), "format_version", name);
  });
  if (version > checkpoint_format_version) {
    const Hdf5Group root = open_group(file.native(), "/", name);
    fail(
        "{}: has the format version {}, this program reads versions up to {}; it was written by {}",
        name, version, checkpoint_format_version, read_text(root.native(), "program", name));
  }
  return or_damaged(name, [&] { return Parser(file, name, version).parse(); });
}

}  // namespace meshwork
