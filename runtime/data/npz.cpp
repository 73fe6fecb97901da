#include "runtime/data/npz.h"

#include <mutex>
#include <optional>

#include "collectives/error.h"
#include "collectives/huge_pages.h"
#include "collectives/path_text.h"
#include "runtime/data/numpy_format.h"
#include "runtime/data/sample_copy.h"
#include "runtime/data/written_source.h"
#include "runtime/data/zip.h"

namespace meshwork {

struct NpzSource::Archive {
  struct Array {
    const ZipMember* member = nullptr;
    NumpyHeader header;
    std::once_flag once;
    std::unique_ptr<std::byte[]> data;  // as stored
  };

  ZipArchive zip;
  std::vector<std::unique_ptr<Array>> arrays;
  std::vector<PlacedField> places;

  Archive(const std::filesystem::path& path, const std::vector<NpzArray>& wanted)
      : zip(path, "an npz file") {
    for (const NpzArray& one : wanted) {
      auto array = std::make_unique<Array>();
      const std::string place = fmt::format("{}:{}", path, one.array);
      array->member = &zip.member(one.array + ".npy");
      ZipStream stream(zip, *array->member);
      array->header = header_of(stream, place, one.exact);
      if (const std::int64_t expected = array->header.bytes + array->header.data_bytes;
          array->member->bytes != expected) {
        fail("{}: {}: shape {} of {} takes {} bytes with the header, it has {}", place,
             array->member->bytes < expected ? "truncated" : "longer than its header says",
             to_string(array->header.shape), array->header.dtype, expected, array->member->bytes);
      }
      places.push_back({one.field, one.role, place, zip.file().bytes(), array->header.shape,
                        array->header.type});
      arrays.push_back(std::move(array));
    }
  }

  static NumpyHeader header_of(ZipStream& stream, const std::string& place, bool exact) {
    return read_numpy_header(
        [&](std::byte* to, std::int64_t bytes) { return stream.read(to, bytes); }, place, exact);
  }

  void unpack(std::size_t index) {
    Array& array = *arrays[index];
    const std::string& place = places[index].place;
    ZipStream stream(zip, *array.member);
    if (!(header_of(stream, place, false) == array.header)) {
      fail("{}: has changed since it was opened", place);
    }
    const std::int64_t bytes = array.header.data_bytes;
    auto data = with_memory_for(fmt::format("{}: {} bytes to unpack it", place, bytes), [&] {
      return std::unique_ptr<std::byte[]>(new std::byte[static_cast<std::size_t>(bytes)]);
    });
    ask_for_huge_pages(data.get(), bytes);
    stream.read(data.get(), bytes);
    array.data = std::move(data);
  }
};

NpzSource::NpzSource(const std::filesystem::path& path, const std::vector<NpzArray>& arrays)
    : NpzSource(std::make_unique<Archive>(path, arrays)) {}

NpzSource::NpzSource(std::unique_ptr<Archive> archive)
    : Source(archive->places.empty() || archive->places[0].shape.empty()
                 ? 0
                 : archive->places[0].shape[0],
             sample_fields(archive->places), archive->zip.file().name()),
      archive_(std::move(archive)) {}

NpzSource::~NpzSource() = default;

void NpzSource::make_ready(int field) const {
  const auto index = static_cast<std::size_t>(field);
  std::call_once(archive_->arrays[index]->once, [&] { archive_->unpack(index); });
}

std::string NpzSource::locate(int field, std::int64_t row) const {
  return fmt::format("{}: sample {}", archive_->places[static_cast<std::size_t>(field)].place, row);
}

std::string NpzSource::fingerprint() const {
  return fingerprint_of("npz", archive_->places);
}

std::vector<std::filesystem::path> NpzSource::files() const {
  return {archive_->zip.file().name()};
}

void NpzSource::read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                          std::byte* destination) const {
  make_ready(field);
  const Archive::Array& array = *archive_->arrays[static_cast<std::size_t>(field)];
  copy_samples(array.data.get(), this->field(field).shape, array.header.elements, rows, block,
               destination);
}

// ---- as configurations write it ------------------------------------------------------------------

namespace {

struct NpzOptions {
  std::filesystem::path file;
  WrittenField features;
  std::optional<WrittenField> targets;
  std::optional<Written<"a field">> weights;
};

template <class Visitor>
void describe(NpzOptions& options, Visitor& option) {
  option.about("arrays written by numpy.savez, one row per sample; each rank reads them whole");
  option.required("file", options.file, "FILE.npz");
  option.required("features", options.features, "name of an array");
  option("targets", options.targets, "name of an array");
  describe_weights(options.weights, option, "name of an array");
}

NpzArray read_npz(const ConfigNode& node, const std::string& name, FieldRole role) {
  return {name, node.as<std::string>(), role};
}

std::shared_ptr<const Source> open_npz(const ConfigNode&, const NpzOptions& options,
                                       const SourceContext& context) {
  const bool by_name = options.features.node->is_map();
  return std::make_shared<NpzSource>(options.file, fields_of(options, context, by_name, read_npz));
}

}  // namespace

void add_npz(Catalog& catalog) {
  add_source<NpzOptions>(catalog, "npz", open_npz);
}

}  // namespace meshwork
