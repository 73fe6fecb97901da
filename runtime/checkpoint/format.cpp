#include "runtime/checkpoint/format.h"

#include <algorithm>
#include <map>
#include <span>
#include <type_traits>

#include "collectives/error.h"
#include "collectives/file_size_limit.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/fields.h"
#include "runtime/checkpoint/hdf5_values.h"
#include "runtime/checkpoint/structure.h"
#include "runtime/checkpoint/written_file.h"

namespace meshwork {
namespace {

constexpr hsize_t alignment = hsize_t{1} << 20;
// What the limit of a file's size must allow for a file to be made; create_dataset sees to the rest.
constexpr std::int64_t least_bytes = 64 << 10;

// Writes fields (fields.h) as attributes of an object.
class AttributeWriter {
 public:
  AttributeWriter(hid_t object, const std::string& subject) : object_(object), subject_(subject) {}

  void operator()(const char* name, const std::string& text) const {
    write_attribute(object_, name, text, subject_);
  }
  void operator()(const char* name, TensorKind kind) const {
    for (const TensorKindName& known : tensor_kinds) {
      if (known.kind == kind) write_attribute(object_, name, std::string(known.name), subject_);
    }
  }
  template <class Number>
  void operator()(const char* name, Number value) const {
    using Stored = std::conditional_t<sizeof(Number) < 8, std::int64_t, Number>;
    write_attribute(object_, name, static_cast<Stored>(value), subject_);
  }

 private:
  hid_t object_;
  const std::string& subject_;
};

// Writes the small datasets, and keeps their hashes.
class Builder {
 public:
  Builder(hid_t file, std::string subject) : file_(file), subject_(std::move(subject)) {}

  template <class Number>
  void write(const std::string& name, std::span<const Number> numbers, Shape shape) {
    write(name, hdf5_type<Number>(), std::move(shape), std::as_bytes(numbers));
  }
  template <class Number>
  void write(const std::string& name, const std::vector<Number>& numbers) {
    write(name, std::span(numbers), {static_cast<std::int64_t>(numbers.size())});
  }
  void write(const std::string& name, const std::string& text) {
    // A text of no bytes has one zero.
    const std::string padded = text.empty() ? std::string(1, '\0') : text;
    const Hdf5Datatype type = text_type(padded.size(), subject_);
    write(name, type.native(), {}, std::as_bytes(std::span(padded)));
  }
  void write(const std::string& name, const std::vector<std::string>& texts) {
    std::size_t longest = 1;
    for (const std::string& text : texts) {
      longest = std::max(longest, text.size());
    }
    std::string together;
    for (const std::string& text : texts) {
      together += text;
      together.resize((together.size() + longest - text.size()), '\0');
    }
    const Hdf5Datatype type = text_type(longest, subject_);
    write(name, type.native(), {static_cast<std::int64_t>(texts.size())},
          std::as_bytes(std::span(together)));
  }

  void attribute_of(const std::string& dataset, const std::string& name, const std::string& text) {
    write_attribute(reopen_dataset(file_, dataset, subject_).native(), name, text, subject_);
  }

  /// The hashes of all objects, those of their own datasets included; the last that is made.
  void write_object_hashes() {
    const std::string names = fmt::format("{}/objects", checksum_group);
    const std::string hashes = fmt::format("{}/object_hashes", checksum_group);
    std::vector<std::string> paths{names, hashes};
    for (const ObjectHash& object : hash_objects(file_, subject_)) {
      paths.push_back(object.path);
    }
    std::sort(paths.begin(), paths.end());
    write(names, paths);
    const hid_t type = hdf5_type<std::uint64_t>();
    Hdf5Dataset dataset =
        create_dataset(file_, hashes, type, {static_cast<std::int64_t>(paths.size())}, subject_);
    std::vector<std::uint64_t> values;
    for (const ObjectHash& object : hash_objects(file_, subject_)) {
      values.push_back(object.hash);
    }
    const std::span bytes = std::as_bytes(std::span(values));
    fill(std::move(dataset), hashes, type, bytes);
    all_.add(bytes);
  }

  [[nodiscard]] const std::vector<StoredRegion>& regions() const { return regions_; }
  [[nodiscard]] std::uint64_t hash() const { return all_.value(); }
  /// From here on bytes count for `hash`.
  void begin_hash() { all_ = Hash(); }

 private:
  void write(const std::string& name, hid_t type, Shape shape, std::span<const std::byte> bytes) {
    fill(create_dataset(file_, name, type, shape, subject_), name, type, bytes);
    Hash hash;
    hash.add(bytes);
    all_.add(bytes);
    regions_.push_back({name, whole(shape), hash.value()});
  }

  void fill(Hdf5Dataset dataset, const std::string& name, hid_t type,
            std::span<const std::byte> bytes) {
    if (!bytes.empty()) {
      check_hdf5(H5Dwrite(dataset.native(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()),
                 fmt::format("dataset {} cannot be written", name), subject_);
    }
    dataset.close(fmt::format("{}: dataset {}", subject_, name));  // which writes what is small
  }

  hid_t file_;
  std::string subject_;
  std::vector<StoredRegion> regions_;
  Hash all_;
};

// Writes fields as what stands below /state.
class StateWriter : public AttributeWriter {
 public:
  StateWriter(const Hdf5Group& group, Builder& builder, const std::string& subject)
      : AttributeWriter(group.native(), subject), builder_(builder) {}

  template <class Value>
  void dataset(const char* name, const Value& value) const {
    builder_.write(std::string("state/") + name, value);
  }
  template <class Pairs>
  void columns(const char* first, const char* second, const Pairs& pairs) const {
    std::vector<std::string> names;
    std::vector<SecondOf<Pairs>> values;
    for (const auto& [name, value] : pairs) {
      names.push_back(name);
      values.push_back(value);
    }
    dataset(first, names);
    dataset(second, values);
  }

 private:
  Builder& builder_;
};

void write_state(hid_t file, Builder& builder, const CheckpointState& state,
                 const std::string& subject) {
  const Hdf5Group group = create_group(file, "state", subject);
  const StateWriter field(group, builder, subject);
  describe_state(state, field);
}

void write_history(hid_t file, Builder& builder, const CheckpointState& state,
                   const std::string& subject) {
  (void)create_group(file, "history", subject);
  builder.write("history/epoch", state.history_epochs);
  for (const auto& [log, values] : state.history) {
    std::string link = log;
    std::replace(link.begin(), link.end(), '/', '|');
    builder.write("history/" + link, values);
    builder.attribute_of("history/" + link, "name", log);
  }
}

void write_callbacks(hid_t file, Builder& builder, const CheckpointState& state,
                     const std::string& subject) {
  (void)create_group(file, "callbacks", subject);
  for (std::size_t i = 0; i < state.callbacks.size(); ++i) {
    const CallbackRecord& record = state.callbacks[i];
    const std::string name = callback_group(static_cast<int>(i), state.callbacks);
    const Hdf5Group group = create_group(file, name, subject);
    const AttributeWriter field(group.native(), subject);
    describe_callback(record, field);
    const Hdf5Group numbers = create_group(file, name + "/numbers", subject);
    (void)create_group(file, name + "/texts", subject);
    int texts = 0;
    for (const auto& [key, value] : record.state) {
      if (const double* number = std::get_if<double>(&value)) {
        write_attribute(numbers.native(), key, *number, subject);
      } else {
        const std::string text = fmt::format("{}/texts/{}", name, texts++);
        builder.write(text, std::get<std::string>(value));
        builder.attribute_of(text, "name", key);
      }
    }
  }
}

void make_tensors(hid_t file, const CheckpointState& state,
                  const std::vector<CheckpointTensor>& tensors, const std::string& subject) {
  for (const CheckpointTensor& tensor : tensors) {
    const Hdf5Dataset dataset = create_dataset(file, name_of(tensor, state.callbacks),
                                               H5T_IEEE_F32LE, tensor.shape, subject);
    const AttributeWriter field(dataset.native(), subject);
    describe_tensor(tensor, field);
  }
}

void write_checksums(hid_t file, Builder& builder, const CheckpointState& state,
                     const std::vector<CheckpointTensor>& tensors,
                     const std::vector<StoredRegion>& of_tensors, const std::string& subject) {
  std::vector<StoredRegion> regions = builder.regions();
  regions.insert(regions.end(), of_tensors.begin(), of_tensors.end());
  std::vector<std::string> datasets;
  for (const StoredRegion& region : builder.regions()) {
    datasets.push_back(region.dataset);
  }
  for (const CheckpointTensor& tensor : tensors) {
    datasets.push_back(name_of(tensor, state.callbacks));
  }
  std::map<std::string, std::uint64_t> numbers;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    numbers[datasets[i]] = i;
  }
  std::size_t dimensions = 0;
  for (const StoredRegion& region : regions) {
    dimensions = std::max(dimensions, region.block.size());
  }
  const std::size_t columns = 3 + 2 * dimensions;
  std::vector<std::uint64_t> table(regions.size() * columns, 0);
  for (std::size_t i = 0; i < regions.size(); ++i) {
    std::uint64_t* row = table.data() + i * columns;
    *row++ = numbers.at(regions[i].dataset);
    *row++ = regions[i].hash;
    *row++ = regions[i].block.size();
    for (const Range& range : regions[i].block) {
      *row++ = static_cast<std::uint64_t>(range.begin);
      *row++ = static_cast<std::uint64_t>(range.end);
    }
  }
  const Hdf5Group group = create_group(file, checksum_group, subject);
  builder.begin_hash();
  builder.write("checksums/datasets", datasets);
  builder.write<std::uint64_t>(
      "checksums/regions", table,
      {static_cast<std::int64_t>(regions.size()), static_cast<std::int64_t>(columns)});
  builder.write_object_hashes();
  write_attribute(group.native(), checksum_of_table, builder.hash(), subject);
}

}  // namespace

std::string callback_group(int index, const std::vector<CallbackRecord>& callbacks) {
  return fmt::format("callbacks/{}-{}", index,
                     callbacks[static_cast<std::size_t>(index)].class_name);
}

std::string name_of(const CheckpointTensor& tensor, const std::vector<CallbackRecord>& callbacks) {
  switch (tensor.kind) {
    case TensorKind::variable:
      return "params/" + tensor.path;
    case TensorKind::slot:
      return fmt::format("slots/{}/{}", tensor.path, tensor.slot);
    case TensorKind::kept:
      return fmt::format("{}/weights/{}", callback_group(tensor.callback, callbacks), tensor.path);
  }
  internal_error("a kind of tensor that is not known");
}

Hdf5Properties checkpoint_access(const std::string& subject) {
  Hdf5Properties access(check_hdf5(H5Pcreate(H5P_FILE_ACCESS), "no property list", subject));
  check_hdf5(H5Pset_libver_bounds(access.native(), H5F_LIBVER_V18, H5F_LIBVER_V110),
             "no such format", subject);
  check_hdf5(H5Pset_alignment(access.native(), alignment, alignment), "no alignment", subject);
  check_hdf5(H5Pset_file_locking(access.native(), false, true), "no locking", subject);
  check_hdf5(H5Pset_fclose_degree(access.native(), H5F_CLOSE_STRONG), "no closing", subject);
  return access;
}

void create_checkpoint_file(const std::string& name, const CheckpointState& state,
                            const std::vector<CheckpointTensor>& tensors,
                            const std::vector<StoredRegion>& regions) {
  const Hdf5Guard guard;
  const Hdf5Properties access = checkpoint_access(name);
  check_file_size(name, least_bytes);
  WrittenFile file(
      Hdf5File(check_hdf5(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.native()),
                          "cannot be created", name)),
      name);
  {
    const Hdf5Group root = open_group(file.native(), "/", name);
    write_attribute(root.native(), "format", std::string(checkpoint_format_name), name);
    write_attribute(root.native(), "format_version", checkpoint_format_version, name);
    const AttributeWriter field(root.native(), name);
    describe_file(state, field);
    Builder builder(file.native(), name);
    write_state(file.native(), builder, state, name);
    write_history(file.native(), builder, state, name);
    write_callbacks(file.native(), builder, state, name);
    make_tensors(file.native(), state, tensors, name);
    write_checksums(file.native(), builder, state, tensors, regions, name);
  }
  file.flush();
  file.close();
}

}  // namespace meshwork
