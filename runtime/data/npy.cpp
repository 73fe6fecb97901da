#include "runtime/data/npy.h"

#include <algorithm>
#include <optional>

#include "collectives/error.h"
#include "runtime/data/numpy_format.h"
#include "runtime/data/plain_file.h"
#include "runtime/data/sample_copy.h"
#include "runtime/data/written_source.h"

namespace meshwork {

struct NpySource::Array {
  NpyFile options;
  MappedFile mapped;
  NumpyHeader header;

  explicit Array(const NpyFile& npy) : options(npy), mapped(npy.path, "an npy file") {
    const PlainFile& file = mapped.file();
    std::int64_t at = 0;
    header = read_numpy_header(
        [&](std::byte* destination, std::int64_t bytes) {
          bytes = std::min(bytes, file.bytes() - at);
          file.read(at, destination, bytes);
          at += bytes;
          return bytes;
        },
        file.name(), options.exact);
    if (const std::int64_t expected = header.bytes + header.data_bytes; file.bytes() != expected) {
      fail("{}: {}: shape {} of {} takes {} bytes with the header, the file has {}", file.name(),
           file.bytes() < expected ? "truncated" : "longer than its header says",
           to_string(header.shape), header.dtype, expected, file.bytes());
    }
  }

  [[nodiscard]] const PlainFile& file() const { return mapped.file(); }
};

NpySource::NpySource(const std::vector<NpyFile>& files) : NpySource(opened(files)) {}

NpySource::NpySource(std::vector<std::unique_ptr<Array>> arrays)
    : Source(arrays[0]->header.shape.empty() ? 0 : arrays[0]->header.shape[0],
             sample_fields(placed(arrays)), arrays[0]->file().name()),
      arrays_(std::move(arrays)) {}

NpySource::~NpySource() = default;

std::vector<std::unique_ptr<NpySource::Array>> NpySource::opened(
    const std::vector<NpyFile>& files) {
  if (files.empty()) fail("npy data: no files were given");
  std::vector<std::unique_ptr<Array>> arrays;
  for (const NpyFile& file : files) arrays.push_back(std::make_unique<Array>(file));
  return arrays;
}

std::vector<PlacedField> NpySource::placed(const std::vector<std::unique_ptr<Array>>& arrays) {
  std::vector<PlacedField> fields;
  for (const auto& array : arrays) {
    fields.push_back({array->options.field, array->options.role, array->file().name(),
                      array->file().bytes(), array->header.shape, array->header.type});
  }
  return fields;
}

std::string NpySource::locate(int field, std::int64_t row) const {
  return fmt::format("{}: sample {}", arrays_[static_cast<std::size_t>(field)]->file().name(), row);
}

std::string NpySource::fingerprint() const {
  return fingerprint_of("npy", placed(arrays_));
}

std::vector<std::filesystem::path> NpySource::files() const {
  std::vector<std::filesystem::path> files;
  for (const auto& array : arrays_) files.push_back(array->options.path);
  return files;
}

void NpySource::read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                          std::byte* destination) const {
  const Array& array = *arrays_[static_cast<std::size_t>(field)];
  // The system ends a process that reads behind the end of a mapped file.
  array.file().check_length();
  copy_samples(array.mapped.data() + array.header.bytes, this->field(field).shape,
               array.header.elements, rows, block, destination);
}

// ---- as configurations write it ------------------------------------------------------------------

namespace {

struct NpyOptions {
  WrittenField features;
  std::optional<WrittenField> targets;
  std::optional<Written<"a field">> weights;
};

template <class Visitor>
void describe(NpyOptions& options, Visitor& option) {
  option.about("arrays written by numpy.save, one row per sample; each rank reads its own rows");
  option.required("features", options.features, "FILE.npy");
  option("targets", options.targets, "FILE.npy");
  describe_weights(options.weights, option, "FILE.npy");
}

NpyFile read_npy(const ConfigNode& node, const std::string& name, FieldRole role) {
  return {name, node.as_path(), role};
}

std::shared_ptr<const Source> open_npy(const ConfigNode&, const NpyOptions& options,
                                       const SourceContext& context) {
  const bool by_name = options.features.node->is_map();
  return std::make_shared<NpySource>(fields_of(options, context, by_name, read_npy));
}

}  // namespace

void add_npy(Catalog& catalog) {
  add_source<NpyOptions>(catalog, "npy", open_npy);
}

}  // namespace meshwork
