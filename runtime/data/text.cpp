#include "runtime/data/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "collectives/path_text.h"
#include "collectives/with_type.h"
#include "runtime/data/gzip_stream.h"
#include "runtime/data/hdf5.h"
#include "runtime/data/npy.h"
#include "runtime/data/placed_fields.h"
#include "runtime/data/plain_file.h"
#include "runtime/data/written_source.h"

namespace meshwork {

namespace {

constexpr const char* token_field = "tokens";

/// The bytes that are packed in the file; none if it is plain.
std::optional<std::vector<std::byte>> unpacked(const std::filesystem::path& path) {
  GzipStream stream(path, "a text");
  if (stream.plain()) return std::nullopt;
  return with_memory_for(fmt::format("{}: unpacking it", path), [&] {
    std::vector<std::byte> bytes;
    std::size_t end = 0;
    while (end == bytes.size()) {
      bytes.resize(std::max<std::size_t>(2 * end, 1 << 20));
      end += static_cast<std::size_t>(
          stream.read(bytes.data() + end, static_cast<std::int64_t>(bytes.size() - end)));
    }
    bytes.resize(end);
    bytes.shrink_to_fit();
    return bytes;
  });
}

/// The bytes of a file, each a sample.
class Bytes final : public Source {
 public:
  explicit Bytes(const std::filesystem::path& path) : Bytes(path, unpacked(path)) {}

  [[nodiscard]] std::string fingerprint() const override {
    return fingerprint_of("bytes", {{token_field,
                                     FieldRole::feature,
                                     file_.file().name(),
                                     file_.file().bytes(),
                                     {rows()},
                                     ElementType::uint8}});
  }
  [[nodiscard]] std::vector<std::filesystem::path> files() const override { return {path_}; }

 private:
  Bytes(const std::filesystem::path& path, std::optional<std::vector<std::byte>> bytes)
      : Bytes(path, MappedFile(path, "a text"), std::move(bytes)) {}
  Bytes(const std::filesystem::path& path, MappedFile file,
        std::optional<std::vector<std::byte>> bytes)
      : Source(bytes ? std::ssize(*bytes) : file.file().bytes(),
               {{.name = token_field, .shape = {}, .type = ElementType::uint8}},
               file.file().name()),
        path_(path),
        file_(std::move(file)),
        unpacked_(std::move(bytes)) {
    refuse_arrays();
  }

  [[nodiscard]] const std::byte* bytes() const {
    return unpacked_ ? unpacked_->data() : file_.data();
  }

  // Arrays whose names do not say what they are would be read with their headers.
  void refuse_arrays() const {
    using namespace std::literals;
    constexpr std::array<std::pair<std::string_view, std::string_view>, 3> beginnings{
        {{"\x93NUMPY"sv, "a NumPy array, whose name ends with .npy and which is not packed"},
         {"PK\x03\x04"sv, "a zip archive, as .npz is; unpack it"},
         {"\x89HDF\r\n"sv, "an HDF5 file, of which a dataset is named as FILE:/DATASET"}}};
    for (const auto& [beginning, what] : beginnings) {
      const auto length = static_cast<std::int64_t>(beginning.size());
      if (rows() >= length && std::memcmp(bytes(), beginning.data(), beginning.size()) == 0) {
        fail("{}: expected a text, found {}", in_one_line(path_.string()), what);
      }
    }
  }

  void read_rows(int, std::span<const std::int64_t> rows, const Block&,
                 std::byte* destination) const override {
    if (!unpacked_) file_.file().check_length();
    const std::byte* const from = bytes();
    for (const std::int64_t row : rows) *destination++ = from[row];
  }

  std::filesystem::path path_;
  MappedFile file_;
  std::optional<std::vector<std::byte>> unpacked_;
};

std::unique_ptr<const Source> open_tokens(const std::string& file) {
  if (file.ends_with(".npy")) {
    return std::make_unique<NpySource>(std::vector<NpyFile>{{.field = token_field, .path = file}});
  }
  if (file.find(":/") != std::string::npos || file.ends_with(".h5") || file.ends_with(".hdf5")) {
    return std::make_unique<Hdf5Source>(
        std::vector<Hdf5Field>{{.name = token_field, .location = parse_hdf5_location(file)}});
  }
  return std::make_unique<Bytes>(file);
}

}  // namespace

/// The tokens of all files, one after the other, and which of them are used.
class TextSource::Tokens {
 public:
  explicit Tokens(const TextOptions& options)
      : names_(options.files), document_end_(options.document_end) {
    if (names_.empty()) fail("text: no files were given");
    constexpr std::int64_t longest = std::int64_t{1} << 40;
    if (options.length < 1 || options.length > longest || options.stride < 0 ||
        options.stride > longest ||
        !(0 <= options.from && options.from < options.to && options.to <= 1)) {
      fail(
          "text: windows of length {} and stride {}, from {} to {}; lengths are positive and "
          "0 <= from < to <= 1",
          options.length, options.stride, options.from, options.to);
    }
    std::int64_t count = 0;
    for (const std::string& name : names_) {
      const Source& part = *parts_.emplace_back(open_tokens(name));
      if (!part.field(0).shape.empty()) {
        fail("{}: has {} dimensions; tokens stand along one", in_one_line(name),
             part.field(0).shape.size() + 1);
      }
      if (!is_integer(part.field(0).type)) {
        fail("{}: its elements are floating-point numbers; tokens are integers", in_one_line(name));
      }
      if (part.field(0).type != type()) {
        fail("{} has tokens of type {} and {} of type {}; they must have one",
             in_one_line(names_[0]), name_of(type()), in_one_line(name),
             name_of(part.field(0).type));
      }
      ends_.push_back(count += part.rows() + (document_end_ ? 1 : 0));
    }
    if (document_end_) end_bytes_ = token_bytes(*document_end_);
    const auto place = [&](double part) {
      return static_cast<std::int64_t>(std::floor(part * static_cast<double>(count)));
    };
    used_ = {place(options.from), options.to == 1 ? count : place(options.to)};
    if (used_.length() <= options.length) {
      fail("{}{}: {} tokens; a window of {} and the token behind it take {}",
           in_one_line(names_[0]),
           names_.size() > 1 ? fmt::format(" and {} more", names_.size() - 1) : "", used_.length(),
           options.length, options.length + 1);
    }
  }

  [[nodiscard]] ElementType type() const { return parts_[0]->field(0).type; }
  [[nodiscard]] std::int64_t windows(std::int64_t length, std::int64_t stride) const {
    return (used_.length() - length - 1) / stride + 1;
  }

  /// Writes the used tokens [first, first + count).
  void read(std::int64_t first, std::int64_t count, std::byte* destination) const {
    std::array<std::int64_t, 1024> places;  // in a file; fixed, so that nothing is allocated
    for (std::int64_t at = used_.begin + first, end = at + count; at < end;) {
      const std::size_t part = part_of(at);
      const std::int64_t of_file = parts_[part]->rows() - (at - begin_of(part));
      if (of_file == 0) {
        destination = std::ranges::copy(end_bytes_, destination).out;
        ++at;
        continue;
      }
      const std::int64_t piece = std::min({end - at, of_file, std::ssize(places)});
      std::iota(places.begin(), places.begin() + piece, at - begin_of(part));
      parts_[part]->read(0, std::span(places).first(static_cast<std::size_t>(piece)), {},
                         destination);
      destination += piece * element_bytes(type());
      at += piece;
    }
  }

  /// "novel.txt: token 640".
  [[nodiscard]] std::string locate(std::int64_t token) const {
    const std::size_t part = part_of(used_.begin + token);
    return fmt::format("{}: token {}", in_one_line(names_[part]),
                       used_.begin + token - begin_of(part));
  }
  [[nodiscard]] std::string fingerprint() const {
    std::string text = fmt::format("tokens [{}, {})", used_.begin, used_.end);
    for (const auto& part : parts_) text += "; " + part->fingerprint();
    if (document_end_) text += fmt::format("; files end with {}", *document_end_);
    return text;
  }
  [[nodiscard]] std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& part : parts_) std::ranges::move(part->files(), std::back_inserter(files));
    return files;
  }

 private:
  /// A token as its type writes it.
  [[nodiscard]] std::vector<std::byte> token_bytes(std::int64_t token) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(element_bytes(type())));
    with_type(type(), [&](auto number) {
      using Number = decltype(number);
      const auto most = static_cast<std::int64_t>(
          std::min(static_cast<double>(std::numeric_limits<Number>::max()), 9e18));
      if (token < 0 || token > most) {
        fail("text: document_end: the tokens of {} are numbers from 0 to {}, found {}",
             in_one_line(names_[0]), most, token);
      }
      number = static_cast<Number>(token);
      std::memcpy(bytes.data(), &number, sizeof(number));
    });
    return bytes;
  }
  [[nodiscard]] std::size_t part_of(std::int64_t token) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(ends_, token) - ends_.begin());
  }
  [[nodiscard]] std::int64_t begin_of(std::size_t part) const {
    return part == 0 ? 0 : ends_[part - 1];
  }

  std::vector<std::string> names_;
  std::vector<std::unique_ptr<const Source>> parts_;  // by file
  std::vector<std::int64_t> ends_;                    // of each file's tokens, and its own behind
  std::optional<std::int64_t> document_end_;
  std::vector<std::byte> end_bytes_;  // that token
  Range used_;
};

TextSource::TextSource(const TextOptions& options)
    : TextSource(std::make_unique<const Tokens>(options), options) {}

TextSource::TextSource(std::unique_ptr<const Tokens> tokens, const TextOptions& options)
    : Source(tokens->windows(options.length, options.stride > 0 ? options.stride : options.length),
             {{options.feature, {options.length}, tokens->type(), FieldRole::feature},
              {options.target, {options.length}, tokens->type(), FieldRole::target}},
             "a text"),
      tokens_(std::move(tokens)),
      length_(options.length),
      stride_(options.stride > 0 ? options.stride : options.length) {}

TextSource::~TextSource() = default;

std::string TextSource::locate(int field, std::int64_t row) const {
  return fmt::format("{}: sample {}", tokens_->locate(row * stride_ + field), row);
}

std::int64_t TextSource::classes_by_construction(int) const {
  return tokens_->type() == ElementType::uint8 ? 256 : 0;
}

std::string TextSource::fingerprint() const {
  return fmt::format("text; windows of {} by {}; {}", length_, stride_, tokens_->fingerprint());
}

std::vector<std::filesystem::path> TextSource::files() const {
  return tokens_->files();
}

void TextSource::read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                           std::byte* destination) const {
  const std::int64_t behind = block[0].begin + field;  // field 1, the target, is one token behind
  for (const std::int64_t row : rows) {
    tokens_->read(row * stride_ + behind, block[0].length(), destination);
    destination += block[0].length() * element_bytes(tokens_->type());
  }
}

// ---- as configurations write it
// ------------------------------------------------------------------

namespace {

struct WrittenText {
  Written<"a file name, or a list of files that are one text"> file;
  std::int64_t length = 0;
  std::optional<std::int64_t> stride;
  double from = 0, to = 1;
  std::optional<std::int64_t> document_end;
};

template <class Visitor>
void describe(WrittenText& options, Visitor& option) {
  option.about("windows of a text and the tokens that follow: bytes, or token numbers of an array");
  option.required("file", options.file,
                  "any file, also gzipped, as bytes; FILE.npy or FILE:/DATASET as token numbers");
  option.required("length", options.length, positive, "tokens in a window; a window is a sample");
  option("stride", options.stride, positive, "tokens from window to window; none: length");
  option("from", options.from, at_least(0).below(1),
         "start in the text, as a fraction from 0 to 1");
  option("to", options.to, positive.up_to(1), "end in the text, as a fraction from 0 to 1");
  option("document_end", options.document_end, at_least(0),
         "token that ends a document, appended to each file; none: files are one text");
}

std::shared_ptr<const Source> open_text(const ConfigNode& node, const WrittenText& options,
                                        const SourceContext& context) {
  if (context.inputs.size() != 1) {
    node.fail("a text has one feature, its tokens, but the model has {} inputs",
              context.inputs.size());
  }
  check_one_target(node, context, "texts");
  if (options.from >= options.to) {
    node.find("from").value_or(node).fail("{} is not before {}, which \"to\" is", options.from,
                                          options.to);
  }
  const auto ends = context.document_ends;
  if (options.document_end && !ends.empty() &&
      std::ranges::find(ends, *options.document_end) == ends.end()) {
    node.find("document_end")
        .value_or(node)
        .fail("files end with {}, and documents of the model with {}", *options.document_end,
              joined_text(ends, ", "));
  }
  return std::make_shared<TextSource>(
      TextOptions{.files = one_or_more<std::string>(*options.file.node, "names of files"),
                  .length = options.length,
                  .stride = options.stride.value_or(0),
                  .from = options.from,
                  .to = options.to,
                  .document_end = options.document_end,
                  .feature = context.inputs[0],
                  .target = "targets"});
}

}  // namespace

void add_text(Catalog& catalog) {
  add_source<WrittenText>(catalog, "text", open_text);
}

}  // namespace meshwork
