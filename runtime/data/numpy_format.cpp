#include "runtime/data/numpy_format.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "collectives/error.h"
#include "runtime/config/node.h"
#include "runtime/data/stored_type.h"

namespace meshwork {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are read as they are stored");

constexpr std::string_view numpy_magic = "\x93NUMPY";
// NumPy itself refuses to read a longer one without being told to.
constexpr std::int64_t longest_header = std::int64_t{1} << 16;

template <class Stored>
std::int64_t convert_elements(const std::byte* from, std::int64_t count, std::byte* to) {
  with_type(type_of_stored<Stored>(), [&](auto value) {
    for (std::int64_t i = 0; i < count; ++i) {
      Stored stored;
      std::memcpy(&stored, from + i * static_cast<std::int64_t>(sizeof stored), sizeof stored);
      value = static_cast<decltype(value)>(stored);
      std::memcpy(to + i * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
    }
  });
  return count;
}

// Infinities stay infinities; no other number becomes one.
std::int64_t convert_doubles(const std::byte* from, std::int64_t count, std::byte* to) {
  const auto at = [&](std::int64_t i) {
    double stored = 0;
    std::memcpy(&stored, from + i * 8, sizeof stored);
    return stored;
  };
  const auto is_unfit = [](double stored) {
    return std::isinf(static_cast<float>(stored)) && !std::isinf(stored);
  };
  bool unfit = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(at(i));
    unfit |= is_unfit(at(i));
    std::memcpy(to + i * 4, &value, sizeof value);
  }
  std::int64_t first = unfit ? 0 : count;
  while (first < count && !is_unfit(at(first))) ++first;
  return first;
}

// IEEE 754's binary16.
float from_half(std::uint16_t bits) {
  const std::uint32_t exponent = bits >> 10 & 0x1F, mantissa = bits & 0x3FF;
  const std::uint32_t sign = std::uint32_t{bits} >> 15 << 31;
  if (exponent == 0) {  // zero and subnormal numbers
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign == 0 ? magnitude : -magnitude;
  }
  const std::uint32_t wide = exponent == 0x1F ? 0xFF : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

std::int64_t convert_halves(const std::byte* from, std::int64_t count, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t stored = 0;
    std::memcpy(&stored, from + i * 2, 2);
    const float value = from_half(stored);
    std::memcpy(to + i * 4, &value, 4);
  }
  return count;
}

struct NumpyType {
  std::string_view descr;
  std::int64_t stored_bytes;
  ElementType type;
  decltype(StoredElements::convert) convert;
};

template <class Stored>
constexpr NumpyType stored_as(std::string_view descr) {
  constexpr ElementType type = type_of_stored<Stored>();
  const bool as_it_is =
      with_type(type, [](auto value) { return std::is_same_v<decltype(value), Stored>; });
  return {descr, sizeof(Stored), type, as_it_is ? nullptr : convert_elements<Stored>};
}

constexpr NumpyType exact_doubles = stored_as<double>("<f8");

constexpr NumpyType numpy_types[] = {stored_as<std::uint8_t>("|b1"),
                                     stored_as<std::uint8_t>("|u1"),
                                     stored_as<std::int8_t>("|i1"),
                                     stored_as<std::uint16_t>("<u2"),
                                     stored_as<std::int16_t>("<i2"),
                                     stored_as<std::int32_t>("<i4"),
                                     stored_as<std::uint32_t>("<u4"),
                                     stored_as<std::int64_t>("<i8"),
                                     {"<f2", 2, ElementType::float32, convert_halves},
                                     stored_as<float>("<f4"),
                                     {"<f8", 8, ElementType::float32, convert_doubles}};

// What the elements are that are not read, and what to do about it.
std::string refusal_of(std::string_view descr) {
  if (descr.starts_with('>')) return "big-endian; save array.astype(array.dtype.newbyteorder('<'))";
  const char kind = descr.size() > 1 ? descr[1] : '\0';
  switch (kind) {
    case 'O':
      return "Python objects, which are not read; save an array of numbers";
    case 'S':
    case 'U':
      return "strings; save their numbers, as numpy.unique(array, return_inverse=True)[1] has them";
    case 'c':
      return "complex numbers; save real and imaginary parts";
    case 'M':
    case 'm':
      return "dates or times; save array.astype('int64')";
    case 'V':
      return "raw bytes; save an array of numbers";
    case 'u':
      return "64-bit integers without sign; save array.astype('int64')";
    case 'f':
      return "floating-point numbers of a size that is not read; save array.astype('float32')";
    default:
      return "of an unknown type; integers and floating-point numbers are read";
  }
}

// Reads the literal of Python that a header consists of.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& subject, bool exact)
      : text_(text), subject_(subject), exact_(exact) {}

  void parse(NumpyHeader& header) {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<Shape> shape;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr) {
        if (peek() == '[') {
          fail("{}: its elements are compound values; save an array of numbers for each part",
               subject_);
        }
        descr = string();
      } else if (key == "fortran_order" && !fortran_order) {
        fortran_order = boolean();
      } else if (key == "shape" && !shape) {
        shape = tuple();
      } else {
        wrong(fmt::format("the key {} is unknown or there twice", in_quotes(key)));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) wrong("something follows the map");
    if (!descr || !fortran_order || !shape) {
      wrong("'descr', 'fortran_order' and 'shape' are expected");
    }
    take(header, *descr, *fortran_order, std::move(*shape));
  }

 private:
  void take(NumpyHeader& header, const std::string& descr, bool fortran_order, Shape shape) {
    const auto* const type = std::ranges::find(numpy_types, descr, &NumpyType::descr);
    if (type == std::end(numpy_types)) {
      fail("{}: its elements, {}, are {}", subject_, in_quotes(descr), refusal_of(descr));
    }
    if (fortran_order) {
      fail("{}: is stored column by column (fortran_order); save numpy.ascontiguousarray(array)",
           subject_);
    }
    header.dtype = descr;
    const NumpyType& taken = exact_ && descr == exact_doubles.descr ? exact_doubles : *type;
    header.type = taken.type;
    header.elements = {taken.stored_bytes, element_bytes(taken.type), taken.convert};
    header.data_bytes = taken.stored_bytes;
    bool overflow = false, empty = false;
    for (const std::int64_t length : shape) {
      empty = empty || length == 0;
      overflow |= __builtin_mul_overflow(header.data_bytes, length, &header.data_bytes);
    }
    if (empty) header.data_bytes = 0;
    // Elements of samples may be wider than stored ones, by a factor of 4 at most.
    if ((overflow && !empty) || header.data_bytes > std::numeric_limits<std::int64_t>::max() / 8) {
      fail("{}: the header claims shape {} of {}, more than any memory; the file is damaged",
           subject_, to_string(shape), descr);
    }
    header.shape = std::move(shape);
  }

  [[noreturn]] void wrong(std::string_view what) const {
    fail("{}: the header is damaged: {}, at byte {} of {}", subject_, what, at_,
         in_quotes(text_.substr(0, 200)));
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  char peek() {
    skip_spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char letter) {
    if (peek() != letter || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char letter) {
    if (!accept(letter)) wrong(fmt::format("'{}' is expected", letter));
  }
  std::string string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') wrong("a string is expected");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) wrong("a string without an end");
    const std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skip_spaces();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true},
                                      std::pair<std::string_view, bool>{"False", false}}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    wrong("True or False is expected");
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      skip_spaces();
      std::int64_t length = 0;
      const char* const begin = text_.data() + at_;
      const auto [end, problem] = std::from_chars(begin, text_.data() + text_.size(), length);
      if (problem != std::errc() || length < 0) wrong("a length is expected");
      at_ += static_cast<std::size_t>(end - begin);
      shape.push_back(length);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
  const std::string& subject_;
  bool exact_;
  std::size_t at_ = 0;
};

}  // namespace

NumpyHeader read_numpy_header(
    const std::function<std::int64_t(std::byte*, std::int64_t)>& read_bytes,
    const std::string& subject, bool exact) {
  NumpyHeader header;
  const auto read = [&](void* destination, std::int64_t bytes) {
    const std::int64_t got = read_bytes(static_cast<std::byte*>(destination), bytes);
    if (got < bytes) {
      fail("{}: the header is truncated: {} bytes expected, {} found", subject,
           header.bytes + bytes, header.bytes + got);
    }
    header.bytes += bytes;
  };
  std::array<char, 8> begin{};
  read(begin.data(), 8);
  if (std::string_view(begin.data(), 6) != numpy_magic) {
    std::string found;
    for (int i = 0; i < 6; ++i) {
      found +=
          fmt::format("{:02x}", static_cast<unsigned char>(begin[static_cast<std::size_t>(i)]));
    }
    fail("{}: no array of NumPy: it begins with the bytes {}; expected 934e554d5059", subject,
         found);
  }
  const int major = static_cast<unsigned char>(begin[6]);
  const int minor = static_cast<unsigned char>(begin[7]);
  if (major < 1 || major > 3 || minor != 0) {
    fail("{}: version {}.{} of NumPy's format; 1.0, 2.0 and 3.0 are read", subject, major, minor);
  }
  std::uint32_t length = 0;
  read(&length, major == 1 ? 2 : 4);
  if (length > longest_header) {
    fail("{}: the header claims {} bytes of text; {} are the most", subject, length,
         longest_header);
  }
  std::string text(length, '\0');
  read(text.data(), length);
  HeaderParser(text, subject, exact).parse(header);
  return header;
}

}  // namespace meshwork
