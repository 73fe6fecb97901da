#include "runtime/data/images.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <mutex>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "collectives/error.h"
#include "collectives/fnv1a.h"
#include "collectives/path_text.h"
#include "collectives/printable.h"
#include "collectives/stop_signals.h"
#include "runtime/config/character.h"
#include "runtime/config/nearest.h"
#include "runtime/config/node.h"
#include "runtime/data/csv.h"
#include "runtime/data/sample_copy.h"
#include "runtime/data/written_source.h"

namespace meshwork {
namespace {

namespace fs = std::filesystem;

// By `prepare`. Opening a file takes from 10 us on a local disk to 1 ms on a shared one.
constexpr std::int64_t most_images_looked_at = 10'000;

// How `categories` calls the folders of classes.
constexpr const char* folders_of_classes = "folders";

bool has_ending(const fs::path& path, std::initializer_list<std::string_view> endings) {
  std::string ending = path.extension().string();
  for (char& letter : ending) {
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return std::ranges::find(endings, ending) != endings.end();
}

// What is in a folder, in the order of names: images, and folders.
struct FolderList {
  std::vector<std::string> images, folders;
};

FolderList list_folder(const fs::path& folder) {
  std::error_code problem;
  FolderList list;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    if (const StopSignal signal = received_stop_signal(); signal != StopSignal::none) {
      fail("{}: stopped by {} while the folder was listed", folder, name_of(signal));
    }
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code unknown;
    if (entry->is_directory(unknown)) {
      list.folders.push_back(name);
    } else if (has_ending(name, {".png", ".jpg", ".jpeg"})) {
      list.images.push_back(name);
    } else if (has_ending(name, {".bmp", ".gif", ".tif", ".tiff", ".webp", ".heic", ".avif"})) {
      fail("{}: PNG and JPEG images are read; convert it, or move it away", (folder / name));
    }
  }
  if (problem == std::errc::no_such_file_or_directory) {
    throw MissingFile(fmt::format("{}: there is no such folder", folder));
  }
  if (problem) fail("{}: cannot be listed: {}", folder, problem.message());
  std::ranges::sort(list.images);
  std::ranges::sort(list.folders);
  return list;
}

std::vector<std::byte> bytes_of_file(const PlainFile& file) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.bytes()));
  file.read(0, bytes.data(), file.bytes());
  return bytes;
}

}  // namespace

struct ImageSource::Files {
  ImageFolder options;
  std::vector<std::string> names;     // relative to the folder, by row
  std::vector<std::int32_t> classes;  // by row, of folders of classes
  Categories folders{folders_of_classes, {}};
  std::shared_ptr<const CsvSource> table;  // its fields are the target and, maybe, weights
  ImageSize size;
  std::vector<Field> fields;
  std::once_flag looked_at;

  explicit Files(const ImageFolder& folder) : options(folder) {
    if (options.labels) {
      take_table();
    } else {
      take_folder();
    }
    if (names.empty()) fail("{}: there are no images (.png, .jpg, .jpeg)", options.folder);
    const PlainFile first = open(0);
    size = read_image_header(first).size;
    if (options.channels != 0) size.channels = options.channels;
    fields.push_back({options.field,
                      {size.height, size.width, size.channels},
                      ElementType::uint8,
                      FieldRole::feature});
    if (table) {
      for (Field field : table->fields()) {
        if (field.role == FieldRole::feature) field.role = FieldRole::target;
        fields.push_back(std::move(field));
      }
    } else if (!classes.empty()) {
      fields.push_back({"targets", {}, ElementType::int32, FieldRole::target});
    }
  }

  [[nodiscard]] fs::path path(std::int64_t row) const {
    return options.folder / names[static_cast<std::size_t>(row)];
  }
  [[nodiscard]] PlainFile open(std::int64_t row) const { return {path(row), "an image"}; }

  /// The header of image `row`, whose size is that of all.
  [[nodiscard]] ImageHeader header_of(const PlainFile& file) const {
    const ImageHeader header = read_image_header(file);
    if (header.size.height != size.height || header.size.width != size.width) {
      fail("{}: has {} pixels, but the first image, {}, has {}; all have to be alike", file.name(),
           to_string(header.size), path(0), to_string(size));
    }
    return header;
  }

 private:
  void take_table() {
    const ImageLabels& labels = *options.labels;
    const CsvTable csv{.path = labels.table,
                       .separator = labels.separator,
                       .texts = labels.file,
                       .known = options.known};
    std::vector<CsvField> columns = labels.targets;
    for (CsvField& target : columns) target.role = FieldRole::feature;  // of the table
    if (!labels.weights.empty()) {
      columns.push_back({.name = std::string(weights_name),
                         .columns = {labels.weights},
                         .role = FieldRole::weight});
    }
    table = std::make_shared<CsvSource>(csv, columns);
    const std::vector<Categories> texts = table->categories();
    if (!labels.weights.empty() && find_categories(texts, labels.weights) != nullptr) {
      fail("{}: the column {} holds texts; the weights of samples are numbers", labels.table,
           in_quotes(labels.weights));
    }
    names = table->texts();
    for (std::size_t row = 0; row < names.size(); ++row) {
      const fs::path name(names[row]);
      if (name.is_absolute() || std::ranges::find(name, "..") != name.end()) {
        fail("{}: the image {} is outside the folder {}",
             table->locate(0, static_cast<std::int64_t>(row)), in_quotes(names[row]),
             options.folder);
      }
    }
  }

  void take_folder() {
    const FolderList list = list_folder(options.folder);
    if (!list.images.empty() && !list.folders.empty()) {
      fail(
          "{}: has both images, such as {}, and folders, such as {}; expected a folder for each "
          "class, or images alone",
          options.folder, in_quotes(list.images[0]), in_quotes(list.folders[0]));
    }
    names = list.images;
    folders.texts = list.folders;
    const Categories* const known =
        options.known != nullptr ? find_categories(*options.known, folders_of_classes) : nullptr;
    if (known != nullptr) folders.texts = known->texts;
    if (list.folders.size() > most_categories) {
      fail("{}: has {} folders of classes; {} are the most", options.folder, list.folders.size(),
           most_categories);
    }
    std::unordered_map<std::string_view, std::int32_t> numbers;
    for (const std::string& text : folders.texts) {
      numbers.emplace(text, static_cast<std::int32_t>(numbers.size()));
    }
    struct Sample {
      std::uint64_t hash;
      std::string name;
      std::int32_t number;
    };
    std::vector<Sample> samples;
    for (const std::string& folder : list.folders) {
      if (!is_one_line_of_letters(folder)) {
        fail("{}: the name of the folder {} is no line of UTF-8", options.folder,
             in_quotes(folder));
      }
      const auto found = numbers.find(folder);
      if (found == numbers.end()) {
        fail("{}: the class {} is not among the {} of the training data{}",
             (options.folder / folder), in_quotes(folder), folders.texts.size(),
             did_you_mean(folder, folders.texts));
      }
      const FolderList of_class = list_folder(options.folder / folder);
      if (!of_class.folders.empty()) {
        fail("{}: is a folder in the folder of a class, which holds images alone",
             (options.folder / folder / of_class.folders[0]));
      }
      if (of_class.images.empty()) {
        fail("{}: there are no images of this class (.png, .jpg, .jpeg)",
             (options.folder / folder));
      }
      for (const std::string& image : of_class.images) {
        const std::string name = folder + "/" + image;
        samples.push_back({fnv1a(name), name, found->second});
      }
    }
    std::ranges::sort(samples, [](const Sample& a, const Sample& b) {
      return std::tie(a.hash, a.name) < std::tie(b.hash, b.name);
    });
    for (Sample& sample : samples) {
      names.push_back(std::move(sample.name));
      classes.push_back(sample.number);
    }
  }
};

ImageSource::ImageSource(const ImageFolder& folder)
    : ImageSource(std::make_unique<Files>(folder)) {}

ImageSource::ImageSource(std::unique_ptr<Files> files)
    : Source(std::ssize(files->names), files->fields, files->options.folder.string()),
      files_(std::move(files)) {}

ImageSource::~ImageSource() = default;

void ImageSource::make_ready(int field) const {
  if (field != 0) return;
  std::call_once(files_->looked_at, [&] {
    const std::int64_t count = std::min(rows(), most_images_looked_at);
    for (std::int64_t i = 0; i < count; ++i) {
      (void)files_->header_of(files_->open(rows() * i / count));
    }
  });
}

std::string ImageSource::locate(int field, std::int64_t row) const {
  if (field != 0 && files_->table) return files_->table->locate(field - 1, row);
  return in_one_line(files_->path(row).string());
}

std::int64_t ImageSource::classes_by_construction(int field) const {
  if (field == 0) return 0;
  return files_->table ? files_->table->classes_by_construction(field - 1)
                       : std::ssize(files_->folders.texts);
}

std::span<const std::string> ImageSource::texts_of(int field) const {
  if (field == 0) return {};
  return files_->table ? files_->table->texts_of(field - 1)
                       : std::span<const std::string>(files_->folders.texts);
}

std::vector<Categories> ImageSource::categories() const {
  if (files_->table) return files_->table->categories();
  if (files_->classes.empty()) return {};
  return {files_->folders};
}

std::string ImageSource::fingerprint() const {
  std::string all;
  for (const std::string& name : files_->names) all += fmt::format("{}:{}", name.size(), name);
  std::string text = fmt::format("images; {} from {} ({} samples: {:016x})", to_string(field(0)),
                                 files_->options.folder, rows(), fnv1a(all));
  if (files_->table) return text + "; " + files_->table->fingerprint();
  if (!files_->classes.empty()) text += "; classes of " + to_text(files_->folders);
  return text;
}

std::vector<fs::path> ImageSource::files() const {
  std::vector<fs::path> files;
  if (files_->table) files = files_->table->files();
  for (std::int64_t row = 0; row < rows(); ++row) files.push_back(files_->path(row));
  return files;
}

void ImageSource::read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                            std::byte* destination) const {
  if (field != 0 && files_->table) {
    files_->table->read(field - 1, rows, block, destination);
    return;
  }
  if (field != 0) {
    copy_samples(reinterpret_cast<const std::byte*>(files_->classes.data()), {},
                 element_bytes(ElementType::int32), rows, block, destination);
    return;
  }
  const Shape& shape = this->field(0).shape;
  const std::int64_t bytes = size_of(block);
  std::vector<std::byte> pixels(static_cast<std::size_t>(element_count(shape)));
  constexpr std::int64_t only = 0;
  for (const std::int64_t row : rows) {
    const PlainFile file = files_->open(row);
    const ImageHeader header = files_->header_of(file);
    decode_image(bytes_of_file(file), header, static_cast<int>(shape[2]), file.name(),
                 pixels.data());
    copy_samples(pixels.data(), shape, 1, std::span(&only, 1), block, destination);
    destination += bytes;
  }
}

// ---- as configurations write it ------------------------------------------------------------------

namespace {

struct ImageOptions {
  std::filesystem::path directory;
  int channels = 0;
  std::optional<std::filesystem::path> labels;
  std::string file = "file";
  std::optional<
      Written<"a column, or a list of columns; of several outputs: a map of these by "
              "their names">>
      targets;
  std::optional<std::string> weights;
  char separator = ',';
};

template <class Visitor>
void describe(ImageOptions& options, Visitor& option) {
  option.about(
      "PNG and JPEG images of one size, in a folder per class or with a table; decoded as they are "
      "read");
  option.required("directory", options.directory, "the folder of the images");
  option.choice("color_mode", options.channels, {{"auto", 0}, {"grayscale", 1}, {"rgb", 3}},
                "one channel or three; auto: as the first image has");
  option("labels", options.labels,
         "CSV table with one row per image, in place of folders for classes");
  option("file", options.file, "the table's column of file names");
  option("targets", options.targets, "the table's columns of targets");
  describe_weights(options.weights, option, "the table's column");
  option("separator", options.separator, "character between values of the table");
}

std::shared_ptr<const Source> open_images(const ConfigNode& node, const ImageOptions& options,
                                          const SourceContext& context) {
  if (context.inputs.size() != 1) {
    node.fail("image data has one feature, but the model has {} inputs", context.inputs.size());
  }
  ImageFolder folder{.field = context.inputs[0],
                     .folder = options.directory,
                     .channels = options.channels,
                     .known = context.categories};
  for (const char* key : {"file", "targets", "sample_weights", "separator"}) {
    const auto given = node.find(key);
    if (given && !options.labels) given->fail("is of a table, but there is no `labels`");
  }
  if (!options.labels) check_one_target(node, context, "folders of classes");
  if (options.labels) {
    if (!options.targets) node.find("labels")->fail("`targets` is missing: columns of this table");
    folder.labels = {*options.labels, options.file,
                     target_fields(*options.targets->node, context, read_csv_field),
                     options.separator, options.weights.value_or("")};
  }
  return std::make_shared<ImageSource>(folder);
}

}  // namespace

void add_images(Catalog& catalog) {
  add_source<ImageOptions>(catalog, "images", open_images);
}

}  // namespace meshwork
