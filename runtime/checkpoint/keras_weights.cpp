#include "runtime/checkpoint/keras_weights.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "collectives/error.h"
#include "collectives/file_size_limit.h"
#include "runtime/checkpoint/descriptor.h"
#include "runtime/checkpoint/hdf5_values.h"
#include "runtime/checkpoint/parse.h"
#include "runtime/checkpoint/written_file.h"

namespace meshwork {
namespace {

// Groups deeper than any model's layers.
constexpr int deepest = 64;

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

class KerasWeightsReader::Implementation {
 public:
  explicit Implementation(const std::filesystem::path& path) : path(path), name(path.string()) {
    const Hdf5Guard guard;
    file = open_for_reading(path, access_properties(name).native(), expected_file);
    if (is_checkpoint(file, name)) {
      fail("{}: is a checkpoint of Meshwork; {} is expected", name, expected_file);
    }
    const Hdf5Group root = open_group(file.native(), "/", name);
    if (has_attribute(root.native(), "layer_names", name)) {
      fail(
          "{}: has the layout of Keras 2, which goes by names; save the weights with Keras 3, "
          "under "
          "a name that ends with .weights.h5",
          name);
    }
    visit(root, "", 0);
    if (arrays.empty()) {
      fail("{}: is an HDF5 file, but has no weights of Keras: there are no groups `vars` of arrays",
           name);
    }
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      places[arrays[i].place] = i;
    }
  }

  std::filesystem::path path;
  std::string name;
  Hdf5File file;
  std::vector<KerasArray> arrays;
  std::map<std::string, std::size_t, std::less<>> places;

 private:
  // Adds what stands in the group `prefix`, "" or "layers/dense/".
  void visit(const Hdf5Group& group, const std::string& prefix, int depth) {
    if (depth > deepest) {
      fail("{}: has groups in groups {} deep: {}", name, depth, prefix);
    }
    std::map<std::int64_t, std::string> numbered;
    const bool holds_arrays = prefix == "vars/" || prefix.ends_with("/vars/");
    for (const std::string& link : link_names(group, name)) {
      H5L_info_t info{};
      check_hdf5(H5Lget_info(group.native(), link.c_str(), &info, H5P_DEFAULT),
                 "a link cannot be read", name);
      const std::string path = prefix + link;
      if (info.type != H5L_TYPE_HARD) {
        fail("{}: {} is a link to elsewhere, which Keras does not follow either", name, path);
      }
      const Hdf5Object object(check_hdf5(H5Oopen(file.native(), path.c_str(), H5P_DEFAULT),
                                         fmt::format("{} cannot be opened", path), name));
      const H5I_type_t kind = H5Iget_type(object.native());
      if (kind == H5I_GROUP) {
        // Of links that lead in circles there is no end.
        if (!groups_.insert(info.u.address).second) {
          fail("{}: {} is a group that stands elsewhere as well, which Keras does not write", name,
               path);
        }
        visit(open_group(file.native(), path, name), path + "/", depth + 1);
      } else if (kind == H5I_DATASET && holds_arrays) {
        const std::optional<std::int64_t> number = number_in(link);
        if (!number) {
          fail("{}: {} stands among arrays that are called 0, 1, ...", name, path);
        }
        numbered[*number] = path;
      }
    }
    for (const auto& [number, place] : numbered) {
      const Hdf5Dataset dataset = open_dataset(file.native(), place, name);
      const Hdf5Datatype type(check_hdf5(H5Dget_type(dataset.native()), "no type", name));
      const H5T_class_t element = H5Tget_class(type.native());
      if (element != H5T_FLOAT && element != H5T_INTEGER) {
        fail("{}: the elements of {} are not numbers", name, place);
      }
      arrays.push_back({place, shape_of(dataset, name)});
    }
  }

  std::set<haddr_t> groups_;  // where those are that were met
};

KerasWeightsReader::KerasWeightsReader(const std::filesystem::path& file)
    : implementation_(std::make_unique<Implementation>(file)) {}
KerasWeightsReader::~KerasWeightsReader() = default;
KerasWeightsReader::KerasWeightsReader(KerasWeightsReader&&) noexcept = default;
KerasWeightsReader& KerasWeightsReader::operator=(KerasWeightsReader&&) noexcept = default;

const std::filesystem::path& KerasWeightsReader::file() const {
  return implementation_->path;
}
const std::vector<KerasArray>& KerasWeightsReader::arrays() const {
  return implementation_->arrays;
}

const KerasArray* KerasWeightsReader::find(std::string_view place) const {
  const auto found = implementation_->places.find(place);
  return found == implementation_->places.end() ? nullptr : &implementation_->arrays[found->second];
}

void KerasWeightsReader::read(const KerasArray& array, const Block& block,
                              std::span<float> destination) const {
  if (static_cast<std::int64_t>(destination.size()) != element_count(meshwork::shape_of(block))) {
    internal_error("a destination that is not as large as the block");
  }
  const Hdf5Guard guard;
  read_block(open_dataset(implementation_->file.native(), array.place, implementation_->name),
             block, destination.data(), array.place, implementation_->name);
}

double KerasWeightsReader::read_number(std::string_view place) const {
  const KerasArray* array = find(place);
  if (array == nullptr || element_count(array->shape) != 1) {
    fail("{}: {} is not one number", implementation_->name, place);
  }
  const Hdf5Guard guard;
  const Hdf5Dataset dataset =
      open_dataset(implementation_->file.native(), array->place, implementation_->name);
  double value = 0;
  check_hdf5(H5Dread(dataset.native(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value),
             fmt::format("{} cannot be read", place), implementation_->name);
  return value;
}

// ---- writing ------------------------------------------------------------------------------------

// Of a file without arrays, and more: what the limit of a file's size must allow.
constexpr std::int64_t least_bytes = 4096;

class KerasWeightsWriter::Implementation {
 public:
  explicit Implementation(const std::filesystem::path& path)
      : final_(checked(path)), name_(path.string()), new_(path) {
    const FileSizeSignalBlocked blocked;
    const Hdf5Guard guard;
    file_ =
        WrittenFile(Hdf5File(check_hdf5(H5Fcreate(new_.temporary().c_str(), H5F_ACC_TRUNC,
                                                  H5P_DEFAULT, access_properties(name_).native()),
                                        "cannot be created", name_)),
                    new_.temporary());
  }

  ~Implementation() {
    const FileSizeSignalBlocked blocked;  // closing writes
    file_ = WrittenFile();
  }

  void write(const std::string& place, hid_t stored, hid_t given, const Shape& shape,
             const void* values) {
    const FileSizeSignalBlocked blocked;
    const Hdf5Guard guard;
    Hdf5Dataset dataset = create_dataset(file_.native(), place, stored, shape, name_);
    if (element_count(shape) > 0) {
      check_hdf5(H5Dwrite(dataset.native(), given, H5S_ALL, H5S_ALL, H5P_DEFAULT, values),
                 fmt::format("{} cannot be written", place), name_);
    }
    dataset.close(fmt::format("{}: {}", name_, place));  // which writes what is small
  }

  void finish() {
    const FileSizeSignalBlocked blocked;
    file_.flush();
    file_.close();
    Descriptor(new_.temporary(), O_RDONLY).bring_to_disk();
    new_.give_name();
    Descriptor(final_.has_parent_path() ? final_.parent_path() : ".", O_RDONLY | O_DIRECTORY)
        .bring_to_disk();
  }

 private:
  static const std::filesystem::path& checked(const std::filesystem::path& path) {
    std::error_code problem;
    if (std::filesystem::is_directory(path, problem)) {
      fail("{}: is a directory; a file is to be written", path.string());
    }
    check_file_size(path.string(), least_bytes);
    return path;
  }

  std::filesystem::path final_;
  std::string name_;
  NewFile new_;
  WrittenFile file_;
};

KerasWeightsWriter::KerasWeightsWriter(const std::filesystem::path& file)
    : implementation_(std::make_unique<Implementation>(file)) {}
KerasWeightsWriter::~KerasWeightsWriter() = default;

void KerasWeightsWriter::write(const std::string& place, const Shape& shape,
                               std::span<const float> values) {
  if (static_cast<std::int64_t>(values.size()) != element_count(shape)) {
    internal_error("an array that is not as large as its shape");
  }
  implementation_->write(place, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, shape, values.data());
}

void KerasWeightsWriter::write_integer(const std::string& place, std::int64_t value) {
  if (value > std::numeric_limits<std::int32_t>::max()) {
    fail("{}: {} does not fit the 32 bits that Keras has for it", place, value);
  }
  implementation_->write(place, H5T_STD_I32LE, H5T_NATIVE_INT64, {}, &value);
}

void KerasWeightsWriter::finish() {
  implementation_->finish();
}

// ---- the optimizer ------------------------------------------------------------------------------

std::string keras_slot_place(const KerasOptimizer& optimizer, std::size_t slot,
                             std::size_t variable) {
  const bool pairs =
      optimizer.slots.size() >= 2 && optimizer.slots[0] == "m" && optimizer.slots[1] == "v";
  const std::size_t first = optimizer.constant_rate ? 2 : 1;
  const std::size_t number =
      pairs && slot < 2 ? 2 * variable + slot : slot * optimizer.variables.size() + variable;
  return fmt::format("optimizer/vars/{}", first + number);
}

std::size_t keras_optimizer_arrays(const KerasOptimizer& optimizer) {
  return (optimizer.constant_rate ? 2 : 1) + optimizer.slots.size() * optimizer.variables.size();
}

KerasOptimizer keras_optimizer(const CheckpointState& state,
                               const std::vector<CheckpointTensor>& tensors) {
  KerasOptimizer optimizer{state.constant_rate, state.slots, {}};
  for (const KerasPlace& place : state.keras_places) {
    const auto variable =
        std::find_if(tensors.begin(), tensors.end(), [&](const CheckpointTensor& tensor) {
          return tensor.kind == TensorKind::variable && tensor.path == place.variable;
        });
    if (variable != tensors.end() && variable->trainable) {
      optimizer.variables.push_back(place.variable);
    }
  }
  return optimizer;
}

}  // namespace meshwork
