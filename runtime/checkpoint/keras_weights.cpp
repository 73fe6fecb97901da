#include "runtime/checkpoint/keras_weights.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "collectives/error.h"
#include "collectives/failed_write.h"
#include "collectives/file_size_limit.h"
#include "collectives/path_text.h"
#include "runtime/checkpoint/descriptor.h"
#include "runtime/checkpoint/hdf5_values.h"
#include "runtime/checkpoint/parse.h"

namespace meshwork {
namespace {

// Groups deeper than any model's layers.
constexpr int deepest_layer = 64;

// Weights that are all there.
constexpr ForeignRules fully_written{.unwritten = false};

constexpr const char* expected_file = "a file of Keras's weights";

Hdf5Properties access_properties(const std::string& subject) {
  Hdf5Properties access(check_hdf5(H5Pcreate(H5P_FILE_ACCESS), "no property list", subject));
  check_hdf5(H5Pset_file_locking(access.native(), false, true), "no locking", subject);
  check_hdf5(H5Pset_fclose_degree(access.native(), H5F_CLOSE_STRONG), "no closing", subject);
  return access;
}

// The number that a name is, if it is written as Keras does.
std::optional<std::int64_t> number_in(const std::string& name) {
  std::int64_t number = 0;
  const char* end = name.data() + name.size();
  const auto [rest, problem] = std::from_chars(name.data(), end, number);
  const bool padded = name.size() > 1 && name[0] == '0';
  return problem == std::errc() && rest == end && number >= 0 && !padded ? std::optional(number)
                                                                         : std::nullopt;
}

// Of a file without arrays, and more: what the limit of a file's size must allow.
constexpr std::int64_t least_weights_bytes = 4096;

// `file`, if weights can be written to it.
const std::filesystem::path& checked(const std::filesystem::path& file) {
  std::error_code problem;
  if (std::filesystem::is_directory(file, problem)) {
    fail("{}: is a directory; a file is to be written", file);
  }
  const FileSizeSignalBlocked blocked;
  writing([&] { check_file_size(file.string(), least_weights_bytes); });
  return file;
}

}  // namespace

bool has_keras_name(const std::filesystem::path& file) {
  return file.string().ends_with(".weights.h5");
}

bool is_checkpoint_file(const std::filesystem::path& file) {
  const Hdf5Guard guard;
  const std::string name = file.string();
  const Hdf5File opened = open_for_reading(file, access_properties(name).native(),
                                           "a checkpoint or a file of Keras's weights");
  return is_checkpoint(opened, name);
}

// ---- reading ------------------------------------------------------------------------------------

KerasWeightsReader::KerasWeightsReader(const std::filesystem::path& file)
    : path_(file), name_(in_one_line(file.string())) {
  const Hdf5Guard guard;
  file_ = open_for_reading(path_, access_properties(name_).native(), expected_file);
  if (is_checkpoint(file_, name_)) {
    fail("{}: is a checkpoint of Meshwork; {} is expected", name_, expected_file);
  }
  const Hdf5Group root = open_group(file_.native(), "/", name_);
  if (has_attribute(root.native(), "layer_names", name_)) {
    fail(
        "{}: has the layout of Keras 2, which goes by names; save the weights with Keras 3, under "
        "a name that ends with .weights.h5",
        name_);
  }
  std::set<haddr_t> met;
  visit(root, "", 0, met);
  if (arrays_.empty()) {
    fail("{}: is an HDF5 file, but has no weights of Keras: there are no groups `vars` of arrays",
         name_);
  }
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    places_[arrays_[i].place] = i;
  }
}

void KerasWeightsReader::visit(const Hdf5Group& group, const std::string& prefix, int depth,
                               std::set<haddr_t>& met) {
  if (depth > deepest_layer) {
    fail("{}: has groups in groups {} deep: {}", name_, depth, prefix);
  }
  std::map<std::int64_t, std::string> numbered;
  const bool holds_arrays = prefix == "vars/" || prefix.ends_with("/vars/");
  for (const std::string& link : link_names(group, name_)) {
    H5L_info_t info{};
    check_hdf5(H5Lget_info(group.native(), link.c_str(), &info, H5P_DEFAULT),
               "a link cannot be read", name_);
    const std::string path = prefix + link;
    if (info.type != H5L_TYPE_HARD) {
      fail("{}: {} is a link out of the file; Keras does not follow such links", name_, path);
    }
    const Hdf5Object object(check_hdf5(H5Oopen(file_.native(), path.c_str(), H5P_DEFAULT),
                                       fmt::format("{} cannot be opened", path), name_));
    const H5I_type_t kind = H5Iget_type(object.native());
    if (kind == H5I_GROUP) {
      // Of links that lead in circles there is no end.
      if (!met.insert(info.u.address).second) {
        fail("{}: {} is a group with a second place in the file; Keras writes none", name_, path);
      }
      visit(open_group(file_.native(), path, name_), path + "/", depth + 1, met);
    } else if (kind == H5I_DATASET && holds_arrays) {
      const std::optional<std::int64_t> number = number_in(link);
      if (!number) {
        fail("{}: {} stands among arrays that are called 0, 1, ...", name_, path);
      }
      numbered[*number] = path;
    }
  }
  for (const auto& [number, place] : numbered) {
    const Hdf5Dataset dataset = open_dataset(file_.native(), place, name_);
    const Hdf5Datatype type(check_hdf5(H5Dget_type(dataset.native()), "no type", name_));
    const H5T_class_t element = H5Tget_class(type.native());
    if (element != H5T_FLOAT && element != H5T_INTEGER) {
      fail("{}: the elements of {} are not numbers", name_, place);
    }
    arrays_.push_back({place, shape_of(dataset, name_)});
  }
}

const KerasArray* KerasWeightsReader::find(std::string_view place) const {
  const auto found = places_.find(place);
  return found == places_.end() ? nullptr : &arrays_[found->second];
}

void KerasWeightsReader::read(const KerasArray& array, const Block& block,
                              std::span<float> destination) const {
  if (static_cast<std::int64_t>(destination.size()) != element_count(meshwork::shape_of(block))) {
    internal_error("a destination that is not as large as the block");
  }
  const Hdf5Guard guard;
  read_block(open_dataset(file_.native(), array.place, name_, fully_written), block,
             destination.data(), array.place, name_);
}

double KerasWeightsReader::read_number(std::string_view place) const {
  const KerasArray* array = find(place);
  if (array == nullptr || element_count(array->shape) != 1) {
    fail("{}: {} is not one number", name_, place);
  }
  const Hdf5Guard guard;
  const Hdf5Dataset dataset = open_dataset(file_.native(), array->place, name_, fully_written);
  double value = 0;
  const std::vector<hsize_t> start(array->shape.size()), count(array->shape.size(), 1);
  check_hdf5(ChunkedReader(dataset, name_, fmt::format("{}: {}", name_, place))
                 .read(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, start, count, &value),
             fmt::format("{} cannot be read", place), name_);
  return value;
}

// ---- writing ------------------------------------------------------------------------------------

KerasWeightsWriter::KerasWeightsWriter(const std::filesystem::path& file)
    : name_(file.string()), new_(checked(file)) {
  const FileSizeSignalBlocked blocked;
  const Hdf5Guard guard;
  file_ = writing([&] {
    return WrittenFile(
        Hdf5File(check_hdf5(H5Fcreate(new_.temporary().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT,
                                      access_properties(name_).native()),
                            "cannot be created", name_)),
        new_.temporary());
  });
}

KerasWeightsWriter::~KerasWeightsWriter() {
  const FileSizeSignalBlocked blocked;
  file_ = WrittenFile();
}

void KerasWeightsWriter::write_array(const std::string& place, hid_t stored, hid_t given,
                                     const Shape& shape, const void* values) {
  const FileSizeSignalBlocked blocked;
  const Hdf5Guard guard;
  writing([&] {
    Hdf5Dataset dataset = create_dataset(file_.native(), place, stored, shape, name_);
    if (element_count(shape) > 0) {
      check_hdf5(H5Dwrite(dataset.native(), given, H5S_ALL, H5S_ALL, H5P_DEFAULT, values),
                 fmt::format("{} cannot be written", place), name_);
    }
    dataset.close(fmt::format("{}: {}", name_, place));  // which writes what is small
  });
}

void KerasWeightsWriter::write(const std::string& place, const Shape& shape,
                               std::span<const float> values) {
  if (static_cast<std::int64_t>(values.size()) != element_count(shape)) {
    internal_error("an array that is not as large as its shape");
  }
  write_array(place, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, shape, values.data());
}

void KerasWeightsWriter::write_integer(const std::string& place, std::int64_t value) {
  if (value > std::numeric_limits<std::int32_t>::max()) {
    fail("{}: {} does not fit the 32 bits that Keras has for it", place, value);
  }
  write_array(place, H5T_STD_I32LE, H5T_NATIVE_INT64, {}, &value);
}

void KerasWeightsWriter::write_numbers(const KerasOptimizer& optimizer) {
  for (std::size_t i = 0; i < optimizer.numbers.size(); ++i) {
    const auto number = static_cast<float>(optimizer.numbers[i]);
    write(keras_number_place(optimizer, i), {}, std::span(&number, 1));
  }
}

void KerasWeightsWriter::finish() {
  const FileSizeSignalBlocked blocked;
  writing([&] {
    file_.flush();
    file_.close();
    Descriptor(new_.temporary(), O_RDONLY).bring_to_disk();
    new_.give_name();
    const std::filesystem::path folder = std::filesystem::path(name_).parent_path();
    Descriptor(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY).bring_to_disk();
  });
}

// ---- the optimizer ------------------------------------------------------------------------------

bool keras_keeps_state(const std::vector<std::string>& slots) {
  return std::ranges::none_of(slots, [](const std::string& slot) {
    return slot == "muon_momentum" || slot == "factored_velocity";
  });
}

std::string keras_slot_place(const KerasOptimizer& optimizer, std::size_t slot,
                             std::size_t variable) {
  static const std::set<std::pair<std::string, std::string>> known_pairs{
      {"m", "v"},
      {"m", "u"},
      {"momentum", "velocity"},
      {"accumulated_grad", "accumulated_delta_var"},
      {"accumulator", "linear"}};
  const bool pairs =
      optimizer.slots.size() >= 2 && known_pairs.contains({optimizer.slots[0], optimizer.slots[1]});
  const std::size_t first = optimizer.constant_rate ? 2 : 1;
  // Keras makes the averages of all variables before other slots; here they are the last.
  const std::size_t others = optimizer.slots.size() - 1;
  const bool averages = !optimizer.slots.empty() && optimizer.slots.back() == "average";
  const std::size_t before = averages && slot < others ? 1 : 0;
  const std::size_t place = averages && slot == others ? 0 : slot + before;
  const std::size_t number = pairs && slot < 2
                                 ? before * optimizer.variables.size() + 2 * variable + slot
                                 : place * optimizer.variables.size() + variable;
  return fmt::format("optimizer/vars/{}", first + number);
}

std::string keras_number_place(const KerasOptimizer& optimizer, std::size_t number) {
  return keras_slot_place(optimizer, optimizer.slots.size(), number);
}

std::size_t keras_optimizer_arrays(const KerasOptimizer& optimizer) {
  return (optimizer.constant_rate ? 2 : 1) + optimizer.slots.size() * optimizer.variables.size() +
         optimizer.numbers.size();
}

std::vector<KerasName> keras_variables(const CheckpointState& state) {
  std::vector<KerasName> names;
  for (const KerasPlace& place : state.keras_places) {
    names.push_back({"params/" + place.variable, place.place});
  }
  return names;
}

KerasOptimizer keras_optimizer(const CheckpointState& state,
                               const std::vector<CheckpointTensor>& tensors) {
  KerasOptimizer optimizer{state.constant_rate, state.slots, {}, state.keras_numbers};
  for (const KerasPlace& place : state.keras_places) {
    if (std::any_of(tensors.begin(), tensors.end(), [&](const CheckpointTensor& tensor) {
          return tensor.kind == TensorKind::variable && tensor.path == place.variable &&
                 tensor.trainable;
        })) {
      optimizer.variables.push_back(place.variable);
    }
  }
  return optimizer;
}

std::vector<KerasName> keras_slots(const CheckpointState& state,
                                   const std::vector<CheckpointTensor>& tensors) {
  const KerasOptimizer optimizer = keras_optimizer(state, tensors);
  std::vector<KerasName> names;
  for (std::size_t v = 0; v < optimizer.variables.size(); ++v) {
    for (std::size_t s = 0; s < optimizer.slots.size(); ++s) {
      names.push_back({fmt::format("slots/{}/{}", optimizer.variables[v], optimizer.slots[s]),
                       keras_slot_place(optimizer, s, v)});
    }
  }
  return names;
}

}  // namespace meshwork
