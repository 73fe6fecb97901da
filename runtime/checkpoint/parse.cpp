#include "runtime/checkpoint/parse.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "collectives/printable.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/fields.h"
#include "runtime/checkpoint/format.h"
#include "runtime/checkpoint/hdf5_values.h"
#include "runtime/checkpoint/structure.h"

namespace meshwork {
namespace {

// Reads fields (fields.h) from the attributes of an object.
class AttributeReader {
 public:
  AttributeReader(hid_t object, const std::string& subject) : object_(object), subject_(subject) {}

  void operator()(const char* name, std::string& text) const {
    if (came_later(name) && !has_attribute(object_, name, subject_)) return;
    text = read_text(object_, name, subject_);
  }
  void operator()(const char* name, TensorKind& kind) const {
    const std::string found = read_text(object_, name, subject_);
    for (const TensorKindName& known : tensor_kinds) {
      if (found == known.name) {
        kind = known.kind;
        return;
      }
    }
    fail("{}: \"{}\" is no kind of tensor", subject_, found);
  }
  void operator()(const char* name, bool& value) const {
    if (came_later(name) && !has_attribute(object_, name, subject_)) return;
    value = read_number<std::int64_t>(object_, name, subject_) != 0;
  }
  void operator()(const char* name, int& value) const {
    const auto number = read_number<std::int64_t>(object_, name, subject_);
    value = static_cast<int>(number);
    if (value != number) fail("{}: attribute \"{}\" is {}", subject_, name, number);
  }
  template <class Number>
  void operator()(const char* name, Number& value) const {
    value = read_number<Number>(object_, name, subject_);
    if (std::is_same_v<Number, std::int64_t> && value < 0) {  // all of them count something
      fail("{}: attribute \"{}\" is {}", subject_, name, value);
    }
  }

 private:
  hid_t object_;
  const std::string& subject_;
};

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
    datasets_ = lines_in(names, name_bytes);
    const Shape shape = meshwork::shape_of(table, name_);
    constexpr std::int64_t most_numbers = 3 + 2 * H5S_MAX_RANK;  // of a row
    if (shape.size() != 2 || shape[1] < 3 || shape[1] > most_numbers ||
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
    const std::vector<std::string> texts = lines_in(paths, path_bytes);
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

  // Names and the like, one line each.
  std::vector<std::string> lines_in(const Hdf5Dataset& dataset,
                                    const std::vector<std::byte>& bytes) const {
    std::vector<std::string> lines = texts_in(dataset, bytes);
    for (const std::string& line : lines) {
      if (!is_one_line_of_letters(line)) {
        fail("{}: a name holds control characters: \"{}\"", name_, in_one_line(line));
      }
    }
    return lines;
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
      fail("{}: {}: the data differ from those written", name_, name);
    }
    return bytes;
  }

  std::vector<std::string> texts(const std::string& name) const {
    const Hdf5Dataset dataset = open_dataset(file_.native(), name, name_);
    return lines_in(dataset, checked_bytes(name, dataset));
  }
  std::string text(const std::string& name) const {
    const Hdf5Dataset dataset = open_dataset(file_.native(), name, name_);
    const std::vector<std::string> found = texts_in(dataset, checked_bytes(name, dataset));
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

  // Reads fields from what stands below /state.
  class StateReader : public AttributeReader {
   public:
    StateReader(const Parser& parser, const Hdf5Group& group)
        : AttributeReader(group.native(), parser.name_), parser_(parser) {}

    void dataset(const std::string& name, std::string& value) const {
      value = parser_.text("state/" + name);
    }
    void dataset(const std::string& name, std::vector<std::string>& value) const {
      value = parser_.texts("state/" + name);
    }
    void dataset(const std::string& name, std::vector<double>& value) const {
      value = parser_.numbers<double>("state/" + name);
    }
    template <class Pairs>
    void columns(const char* first, const char* second, Pairs& pairs) const {
      const std::vector<std::string>& there = parser_.datasets_;
      if (came_later(first) &&
          std::count(there.begin(), there.end(), std::string("state/") + first) == 0) {
        return;
      }
      std::vector<std::string> names;
      std::vector<SecondOf<Pairs>> values;
      dataset(first, names);
      dataset(second, values);
      if (names.size() != values.size()) {
        fail("{}: {} has {} elements, {} has {}", parser_.name_, first, names.size(), second,
             values.size());
      }
      for (std::size_t i = 0; i < names.size(); ++i) {
        pairs.insert(pairs.end(), typename Pairs::value_type{names[i], values[i]});
      }
    }

   private:
    const Parser& parser_;
  };

  void read_state() {
    const AttributeReader of_file(root_.native(), name_);
    describe_file(state_, of_file);
    const Hdf5Group group = open_group(file_.native(), "state", name_);
    const StateReader field(*this, group);
    describe_state(state_, field);
    if (state_.running.names.size() != state_.running.sums.size()) {
      fail("{}: there are more names than values, or fewer", name_);
    }
    constexpr std::int64_t most_steps = std::int64_t{1} << 53;
    if (state_.step < 0 || state_.step > most_steps || state_.epoch < 0 || state_.batch < 0 ||
        state_.batch > std::max<std::int64_t>(state_.steps_per_epoch, 0)) {
      fail("{}: says step {}, epoch {}, batch {} of {}, which cannot be", name_, state_.step,
           state_.epoch, state_.batch, state_.steps_per_epoch);
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
      const AttributeReader field(group.native(), name_);
      describe_callback(record, field);
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
      const AttributeReader field(object, name_);
      describe_tensor(tensor, field);
      tensor.shape = meshwork::shape_of(dataset, name_);
      const bool kept = tensor.kind == TensorKind::kept;
      if (tensor.callback < (kept ? 0 : -1) || tensor.callback >= std::ssize(state_.callbacks)) {
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
  reading_hdf5(name);
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
