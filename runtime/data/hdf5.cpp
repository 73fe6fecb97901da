#include "runtime/data/hdf5.h"

#include "collectives/error.h"
#include "runtime/data/foreign_hdf5.h"
#include "runtime/data/hdf5_handles.h"
#include "runtime/data/stored_type.h"
#include "runtime/data/written_source.h"
#include "runtime/shape/block_parts.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>

namespace meshwork {

namespace {

hid_t memory_type(ElementType type) {
  const std::pair<hid_t, hid_t> integers[] = {{H5T_NATIVE_UINT8, H5T_NATIVE_INT8},
                                              {H5T_NATIVE_UINT16, H5T_NATIVE_INT16},
                                              {H5T_NATIVE_UINT32, H5T_NATIVE_INT32},
                                              {H5T_NATIVE_UINT64, H5T_NATIVE_INT64}};
  return with_type(type, [&](auto number) {
    if (!is_integer(type)) return sizeof number == 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
    const auto& [without_sign, with_sign] = integers[std::countr_zero(sizeof number)];
    return std::is_signed_v<decltype(number)> ? with_sign : without_sign;
  });
}

/// Whether `type` is how h5py stores booleans: an enumeration of FALSE and TRUE in 8 bits.
bool is_boolean(const Hdf5Datatype& type, const std::string& subject) {
  const auto number_of = [&](const char* name) {
    signed char number = -1;  // an enumeration of one byte
    return H5Tenum_valueof(type.native(), name, &number) < 0 ? -1 : int{number};
  };
  return H5Tget_size(type.native()) == 1 &&
         check_hdf5(H5Tget_nmembers(type.native()), "its type cannot be read", subject) == 2 &&
         number_of("FALSE") == 0 && number_of("TRUE") == 1;
}

/// The type that samples get whose elements are stored as `type`, and are `exact` or not.
ElementType element_type(const Hdf5Datatype& type, const std::string& subject, bool exact) {
  const std::size_t bytes = H5Tget_size(type.native());
  std::string_view found;
  switch (H5Tget_class(type.native())) {
    case H5T_INTEGER:
      return integer_type(static_cast<std::int64_t>(bytes),
                          H5Tget_sign(type.native()) == H5T_SGN_2);
    case H5T_FLOAT:
      return exact && bytes > 4 ? ElementType::float64 : ElementType::float32;
    case H5T_ENUM:
      if (is_boolean(type, subject)) return ElementType::uint8;
      found = "an enumeration";
      break;
    case H5T_STRING:
      found = "strings";
      break;
    case H5T_COMPOUND:
      found = "compound values";
      break;
    case H5T_VLEN:
      found = "lists of variable length";
      break;
    case H5T_ARRAY:
      found = "arrays";
      break;
    default:
      found = "values of another kind";
      break;
  }
  fail("{}: its elements are {}; integers or floating-point numbers are expected", subject, found);
}

Hdf5Dataset open_samples(const Hdf5File& file, const Hdf5Location& location,
                         Hdf5Permissions permissions) {
  Hdf5Properties access(
      check_hdf5(H5Pcreate(H5P_DATASET_ACCESS), "no property list", to_string(location)));
  // Twice a typical number of chunks, prime, as HDF5's manual advises.
  check_hdf5(H5Pset_chunk_cache(access.native(), 12421, Hdf5Source::chunk_cache_bytes,
                                H5D_CHUNK_CACHE_W0_DEFAULT),
             "no chunk cache", to_string(location));
  require_dataset(file.native(), location.dataset, location.file);
  ForeignRules rules;
  rules.virtual_sources = permissions.virtual_sources;
  rules.unstored_bytes = permissions.sparse ? ~std::uint64_t{0} : std::uint64_t{4} << 30;
  return open_dataset(file.native(), location.dataset, location.file, rules, access.native());
}

std::int64_t file_bytes(const std::string& name) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(name, error);
  return error ? 0 : static_cast<std::int64_t>(bytes);
}

}  // namespace

struct Hdf5Source::Dataset {
  Hdf5Field options;
  Hdf5File file;
  Hdf5Dataset dataset;
  std::optional<ChunkedReader> reader;
  PlainFile plain;
  Hdf5Dataspace file_space;
  Shape shape;  // with the samples as dimension 0
  ElementType type = ElementType::float32;

  // Scratch of `read`, under the lock of the library.
  std::vector<std::int64_t> sequence;  // positions in the list of rows, by row
  std::vector<std::byte> run;
  std::vector<hsize_t> start, count;

  Dataset(const Hdf5Field& field, Hdf5Permissions permissions)
      : options(field), plain(field.location.file, "a file of HDF5 data") {
    const Hdf5Guard guard;
    const std::string subject = to_string(options.location);
    file = open_for_reading(options.location.file, H5P_DEFAULT, "a file of HDF5 data");
    dataset = open_samples(file, options.location, permissions);
    reader.emplace(dataset, options.location.file, subject);
    file_space =
        Hdf5Dataspace(check_hdf5(H5Dget_space(dataset.native()), "has no dataspace", subject));
    const int dimensions = check_hdf5(H5Sget_simple_extent_ndims(file_space.native()),
                                      "its shape cannot be read", subject);
    if (dimensions == 0) {
      fail("{}: has no dimension; dimension 0 is expected to count the samples", subject);
    }
    std::vector<hsize_t> lengths(static_cast<std::size_t>(dimensions));
    check_hdf5(H5Sget_simple_extent_dims(file_space.native(), lengths.data(), nullptr),
               "its shape cannot be read", subject);
    shape.assign(lengths.begin(), lengths.end());
    const Hdf5Datatype stored(
        check_hdf5(H5Dget_type(dataset.native()), "its type cannot be read", subject));
    type = element_type(stored, subject, options.exact);
    start.resize(lengths.size());
    count.resize(lengths.size());
  }

  ~Dataset() {
    const Hdf5Guard guard;
    reader.reset();
    file_space = {};
    dataset = {};
    file = {};
  }

  /// Reads rows [first, first + rows) of `block` to `destination`, as one hyperslab.
  void read_run(std::int64_t first, std::int64_t rows, const Block& block, std::byte* destination) {
    start[0] = static_cast<hsize_t>(first);
    count[0] = static_cast<hsize_t>(rows);
    hsize_t elements = count[0];
    for (std::size_t d = 0; d < block.size(); ++d) {
      start[d + 1] = static_cast<hsize_t>(block[d].begin);
      count[d + 1] = static_cast<hsize_t>(block[d].length());
      elements *= count[d + 1];
    }
    const auto subject = [&] {
      return fmt::format("{}, samples {} to {}", to_string(options.location), first,
                         first + rows - 1);
    };
    const auto check = [&](auto code, std::string_view what) {
      if (code < 0) fail_hdf5(what, subject());
      return code;
    };
    check(H5Sselect_hyperslab(file_space.native(), H5S_SELECT_SET, start.data(), nullptr,
                              count.data(), nullptr),
          "cannot be selected");
    const Hdf5Dataspace memory(check(H5Screate_simple(1, &elements, nullptr), "no dataspace"));
    reading_hdf5_values(options.location.file);
    check(reader->read(dataset, memory_type(type), memory.native(), file_space.native(), start,
                       count, destination),
          "cannot be read");
    plain.check_length();  // of a file that is cut meanwhile, the library reads zeros
  }

  void read(std::span<const std::int64_t> rows, const Block& block, std::byte* destination) {
    const Hdf5Guard guard;
    const std::int64_t row_bytes = size_of(block) * element_bytes(type);
    sequence.resize(rows.size());
    std::iota(sequence.begin(), sequence.end(), 0);
    // By row, so that the file is read forwards and neighbours are read together, in whatever order
    // they are wanted. Equal rows by position: the order is the same everywhere.
    std::ranges::sort(sequence, [&](std::int64_t a, std::int64_t b) {
      return rows[a] != rows[b] ? rows[a] < rows[b] : a < b;
    });
    for (std::size_t begin = 0; begin < sequence.size();) {
      std::size_t end = begin + 1;
      bool in_place = true;
      while (end < sequence.size() && rows[sequence[end]] <= rows[sequence[end - 1]] + 1) {
        in_place = in_place && sequence[end] == sequence[end - 1] + 1 &&
                   rows[sequence[end]] == rows[sequence[end - 1]] + 1;
        ++end;
      }
      const std::int64_t first = rows[sequence[begin]];
      const std::int64_t length = rows[sequence[end - 1]] + 1 - first;
      if (in_place) {
        read_run(first, length, block, destination + sequence[begin] * row_bytes);
      } else {
        with_memory_for(
            fmt::format("{}: {} bytes of samples", to_string(options.location), length * row_bytes),
            [&] { run.resize(static_cast<std::size_t>(length * row_bytes)); });
        read_run(first, length, block, run.data());
        for (std::size_t i = begin; i < end; ++i) {
          std::memcpy(destination + sequence[i] * row_bytes,
                      run.data() + (rows[sequence[i]] - first) * row_bytes,
                      static_cast<std::size_t>(row_bytes));
        }
      }
      begin = end;
    }
  }
};

namespace {

template <class Dataset>
std::vector<std::unique_ptr<Dataset>> opened(const std::vector<Hdf5Field>& fields,
                                             Hdf5Permissions permissions) {
  if (fields.empty()) fail("HDF5 data: no data sets were given");
  std::vector<std::unique_ptr<Dataset>> datasets;
  for (const Hdf5Field& field : fields) {
    datasets.push_back(std::make_unique<Dataset>(field, permissions));
  }
  return datasets;
}

}  // namespace

std::string to_string(const Hdf5Location& location) {
  return fmt::format("{}:{}{}", location.file, location.dataset.starts_with('/') ? "" : "/",
                     location.dataset);
}

Hdf5Location parse_hdf5_location(std::string_view text) {
  std::size_t colon = text.rfind(":/");
  if (colon == std::string_view::npos) colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size()) {
    fail("\"{}\" does not name an HDF5 data set; expected FILE:/DATASET, as in train.h5:/images",
         text);
  }
  return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

Hdf5Source::Hdf5Source(const std::vector<Hdf5Field>& fields, Hdf5Permissions permissions)
    : Hdf5Source(opened<Dataset>(fields, permissions)) {}

Hdf5Source::Hdf5Source(std::vector<std::unique_ptr<Dataset>> datasets)
    : Source(datasets[0]->shape[0], sample_fields(placed(datasets)),
             to_string(datasets[0]->options.location)),
      datasets_(std::move(datasets)) {}

Hdf5Source::~Hdf5Source() = default;

std::string Hdf5Source::locate(int field, std::int64_t row) const {
  return fmt::format("{}: sample {}", to_string(datasets_[field]->options.location), row);
}

std::string Hdf5Source::fingerprint() const {
  return fingerprint_of("hdf5", placed(datasets_));
}

std::vector<PlacedField> Hdf5Source::placed(const std::vector<std::unique_ptr<Dataset>>& datasets) {
  std::vector<PlacedField> fields;
  for (const auto& dataset : datasets) {
    const Hdf5Field& options = dataset->options;
    fields.push_back({options.name, options.role, to_string(options.location),
                      file_bytes(options.location.file), dataset->shape, dataset->type});
  }
  return fields;
}

std::vector<std::filesystem::path> Hdf5Source::files() const {
  std::vector<std::filesystem::path> files;
  const Hdf5Guard guard;
  for (const auto& dataset : datasets_) {
    const Hdf5Location& location = dataset->options.location;
    files.emplace_back(location.file);
    for (auto& source : source_files(dataset->dataset, location.dataset, location.file)) {
      files.push_back(std::move(source));
    }
  }
  return files;
}

void Hdf5Source::read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                           std::byte* destination) const {
  datasets_[field]->read(rows, block, destination);
}

// ---- as configurations write it ------------------------------------------------------------------

namespace {

struct Hdf5Options {
  WrittenField features;
  std::optional<WrittenField> targets;
  std::optional<Written<"a field">> weights;
  Hdf5Permissions permissions;
};

template <class Visitor>
void describe(Hdf5Options& options, Visitor& option) {
  option.about("HDF5 datasets with one row per sample; each rank reads its own rows");
  option.required("features", options.features, "FILE:/DATASET");
  option("targets", options.targets, "FILE:/DATASET");
  describe_weights(options.weights, option, "FILE:/DATASET");
  option("virtual", options.permissions.virtual_sources,
         "allow virtual datasets, with sources in the file's folder or below");
  option("sparse", options.permissions.sparse, "allow more than 4 GiB of fill values");
}

Hdf5Field read_hdf5(const ConfigNode& node, const std::string& name, FieldRole role) {
  const std::string text = node.as<std::string>();
  return {name, node.located([&] { return parse_hdf5_location(text); }), role};
}

std::shared_ptr<const Source> open_hdf5(const ConfigNode&, const Hdf5Options& options,
                                        const SourceContext& context) {
  const bool by_name = options.features.node->is_map();
  return std::make_shared<Hdf5Source>(fields_of(options, context, by_name, read_hdf5),
                                      options.permissions);
}

}  // namespace

void add_hdf5(Catalog& catalog) {
  add_source<Hdf5Options>(catalog, "hdf5", open_hdf5);
}

}  // namespace meshwork
