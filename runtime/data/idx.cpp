#include "runtime/data/idx.h"

#include "collectives/error.h"
#include "collectives/huge_pages.h"
#include "collectives/path_text.h"
#include "runtime/data/gzip_stream.h"
#include "runtime/data/plain_file.h"
#include "runtime/data/sample_copy.h"
#include "runtime/data/stored_type.h"
#include "runtime/data/written_source.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <new>

namespace meshwork {

namespace {

/// Turns `count` big-endian elements of type Stored, which stand at the end of `data`, into
/// elements of samples that fill it. Front to back: an element is written at or before the place of
/// the next one to be read.
template <class Stored>
void convert(std::byte* data, std::int64_t count) {
  if (sizeof(Stored) == 1 && element_bytes(type_of_stored<Stored>()) == 1) return;
  with_type(type_of_stored<Stored>(), [&](auto value) {
    const std::byte* from = data + count * static_cast<std::int64_t>(sizeof value - sizeof(Stored));
    for (std::int64_t i = 0; i < count; ++i) {
      std::array<std::byte, sizeof(Stored)> bytes;
      std::memcpy(bytes.data(), from + i * static_cast<std::int64_t>(sizeof bytes), sizeof bytes);
      if constexpr (std::endian::native == std::endian::little) std::ranges::reverse(bytes);
      value = static_cast<decltype(value)>(std::bit_cast<Stored>(bytes));
      std::memcpy(data + i * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
    }
  });
}

/// How a type code of the format is stored and what it becomes.
struct IdxType {
  std::uint8_t code;
  std::string_view name;
  std::int64_t stored_bytes;
  ElementType type;
  void (*convert)(std::byte* data, std::int64_t count);
};
template <class Stored>
constexpr IdxType stored_as(std::uint8_t code, std::string_view name) {
  return {code, name, sizeof(Stored), type_of_stored<Stored>(), convert<Stored>};
}

constexpr std::array idx_types{
    stored_as<std::uint8_t>(0x08, "uint8"), stored_as<std::int8_t>(0x09, "int8"),
    stored_as<std::int16_t>(0x0B, "int16"), stored_as<std::int32_t>(0x0C, "int32"),
    stored_as<float>(0x0D, "float32"),      stored_as<double>(0x0E, "float64")};

constexpr const char* expected_file = "an IDX file";

struct Header {
  IdxType type;
  Shape shape;                  // with the samples as dimension 0
  std::int64_t bytes = 0;       // of the header
  std::int64_t data_bytes = 0;  // of the elements as stored
};

std::uint32_t big_endian(const std::byte* bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

/// Reads the header and checks it, as far as possible also against the size of the file.
Header read_header(GzipStream& stream, const std::filesystem::path& path) {
  std::array<std::byte, 4> magic{};
  const std::int64_t magic_bytes = stream.read(magic.data(), 4);
  if (magic_bytes < 4) {
    fail("{}: the header is truncated: 4 bytes of magic number expected, {} found", path,
         magic_bytes);
  }
  const auto type =
      std::ranges::find(idx_types, std::to_integer<std::uint8_t>(magic[2]), &IdxType::code);
  const int dimensions = std::to_integer<int>(magic[3]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || type == idx_types.end() ||
      dimensions == 0) {
    fail(
        "{}: not an IDX file: it begins with the bytes {:08x}; expected 0000TTDD, type TT one of "
        "08, "
        "09, 0b, 0c, 0d, 0e and DD >= 1 dimensions",
        path, big_endian(magic.data()));
  }
  Header header{.type = *type, .shape = {}, .bytes = 4 + 4 * dimensions};
  std::vector<std::byte> lengths(static_cast<std::size_t>(4 * dimensions));
  const std::int64_t lengths_bytes = stream.read(lengths.data(), 4 * dimensions);
  if (lengths_bytes < 4 * dimensions) {
    fail("{}: the header is truncated: {} bytes expected for {} dimensions, {} found", path,
         header.bytes, dimensions, 4 + lengths_bytes);
  }
  header.data_bytes = type->stored_bytes;
  bool overflow = false;
  for (int i = 0; i < dimensions; ++i) {
    header.shape.push_back(big_endian(lengths.data() + 4 * i));
    overflow |= __builtin_mul_overflow(header.data_bytes, header.shape.back(), &header.data_bytes);
  }
  // Elements in memory may be wider than in the file, by a factor of 4 at most.
  if (overflow || header.data_bytes > std::numeric_limits<std::int64_t>::max() / 8) {
    fail("{}: the header claims shape {} of {}, more than any memory; the file is damaged", path,
         to_string(header.shape), type->name);
  }
  if (stream.plain()) {
    if (stream.file_bytes() != header.bytes + header.data_bytes) {
      fail("{}: {}: shape {} of {} takes {} bytes with the header, the file has {}", path,
           stream.file_bytes() < header.bytes + header.data_bytes ? "truncated"
                                                                  : "longer than its header says",
           to_string(header.shape), type->name, header.bytes + header.data_bytes,
           stream.file_bytes());
    }
  } else if (header.data_bytes / largest_packing > stream.file_bytes()) {
    fail(
        "{}: the header claims shape {} of {}, {} bytes, more than a gzip file of {} bytes can "
        "hold; "
        "it is damaged or truncated",
        path, to_string(header.shape), type->name, header.data_bytes, stream.file_bytes());
  }
  return header;
}

}  // namespace

struct IdxSource::File {
  IdxFile options;
  Header header;
  std::int64_t file_bytes = 0;
  mutable std::once_flag once;
  mutable std::unique_ptr<std::byte[]> data;

  explicit File(const IdxFile& file) : options(file) {
    GzipStream stream(file.path, expected_file);
    header = read_header(stream, file.path);
    file_bytes = stream.file_bytes();
  }

  [[nodiscard]] std::int64_t elements() const { return element_count(header.shape); }

  void unpack() const {
    GzipStream stream(options.path, expected_file);
    const Header now = read_header(stream, options.path);
    if (now.type.code != header.type.code || now.shape != header.shape) {
      fail("{}: has changed since it was opened: shape {} of {} then, {} of {} now", options.path,
           to_string(header.shape), header.type.name, to_string(now.shape), now.type.name);
    }
    const std::int64_t bytes = elements() * element_bytes(header.type.type);
    std::unique_ptr<std::byte[]> unpacked(new (std::nothrow)
                                              std::byte[static_cast<std::size_t>(bytes)]);
    if (unpacked == nullptr) {
      throw SystemFailure(fmt::format(
          "{}: unpacking needs {} bytes of memory, which are not available", options.path, bytes));
    }
    ask_for_huge_pages(unpacked.get(), bytes);
    // Read to the end of the memory, so that conversion to wider elements works in place.
    const std::int64_t got =
        stream.read(unpacked.get() + bytes - header.data_bytes, header.data_bytes);
    // One byte more makes zlib check the stream's checksum, and shows what there is in excess.
    std::byte excess;
    if (got < header.data_bytes || stream.read(&excess, 1) != 0) {
      fail("{}: {}: shape {} of {} takes {} bytes after the header, {} were found", options.path,
           got < header.data_bytes ? "truncated" : "longer than its header says",
           to_string(header.shape), header.type.name, header.data_bytes,
           got < header.data_bytes ? fmt::format("{}", got) : "more");
    }
    header.type.convert(unpacked.get(), elements());
    data = std::move(unpacked);
  }
};

IdxSource::IdxSource(const std::vector<IdxFile>& files) : IdxSource(opened(files)) {}

IdxSource::IdxSource(std::vector<std::unique_ptr<File>> files)
    : Source(files[0]->header.shape[0], sample_fields(placed(files)),
             files[0]->options.path.string()),
      files_(std::move(files)) {}

std::vector<std::unique_ptr<IdxSource::File>> IdxSource::opened(const std::vector<IdxFile>& files) {
  if (files.empty()) fail("IDX data: no files were given");
  std::vector<std::unique_ptr<File>> result;
  for (const IdxFile& file : files) result.push_back(std::make_unique<File>(file));
  return result;
}

std::vector<PlacedField> IdxSource::placed(const std::vector<std::unique_ptr<File>>& files) {
  std::vector<PlacedField> fields;
  for (const auto& file : files) {
    fields.push_back({file->options.field, file->options.role,
                      in_one_line(file->options.path.string()), file->file_bytes,
                      file->header.shape, file->header.type.type});
  }
  return fields;
}

IdxSource::~IdxSource() = default;

void IdxSource::make_ready(int field) const {
  const File& file = *files_[field];
  std::call_once(file.once, [&] { file.unpack(); });
}

std::string IdxSource::locate(int field, std::int64_t row) const {
  return fmt::format("{}: sample {}", files_[field]->options.path.string(), row);
}

std::string IdxSource::fingerprint() const {
  return fingerprint_of("idx", placed(files_));
}

std::vector<std::filesystem::path> IdxSource::files() const {
  std::vector<std::filesystem::path> files;
  for (const auto& file : files_) files.push_back(file->options.path);
  return files;
}

void IdxSource::read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                          std::byte* destination) const {
  make_ready(field);
  const Field& description = this->field(field);
  copy_samples(files_[field]->data.get(), description.shape, element_bytes(description.type), rows,
               block, destination);
}

// ---- as configurations write it ------------------------------------------------------------------

namespace {

struct IdxOptions {
  std::filesystem::path images;
  std::optional<std::filesystem::path> labels;
  std::optional<std::filesystem::path> weights;
};

template <class Visitor>
void describe(IdxOptions& options, Visitor& option) {
  option.about("IDX files, the format of MNIST, also gzipped");
  option.required("images", options.images, "file of the features");
  option("labels", options.labels, "file of the targets");
  describe_weights(options.weights, option, "a file");
}

std::shared_ptr<const Source> open_idx(const ConfigNode& node, const IdxOptions& options,
                                       const SourceContext& context) {
  if (context.inputs.size() != 1) {
    node.fail("IDX data has one feature, its images, but the model has {} inputs",
              context.inputs.size());
  }
  check_one_target(node, context, "IDX data");
  std::vector<IdxFile> files{{context.inputs[0], options.images, FieldRole::feature}};
  if (options.labels) files.push_back({"labels", *options.labels, FieldRole::target});
  if (options.weights) {
    files.push_back({std::string(weights_name), *options.weights, FieldRole::weight});
  }
  return std::make_shared<IdxSource>(files);
}

}  // namespace

void add_idx(Catalog& catalog) {
  add_source<IdxOptions>(catalog, "idx", open_idx);
}

}  // namespace meshwork
