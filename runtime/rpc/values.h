// The values that calls between ranks carry: numbers, texts and arrays, written into a payload and
// read from it.
//
// Of each value its *code* travels too, a letter, so that a call which does not fit its function is an
// error that says so, and nothing else. C++ types with one code are one type to a call:
//
//   b  bool                       i  integers, as 64 bits            f  numbers: float and double
//   s  text                       S  std::vector<std::string>        v  nothing
//   F D  arrays of float, double  I J  of int64, int32               B  of bytes (std::uint8_t)
//
// An integer passes for a number. An integer that its parameter cannot hold is an error.
//
// Arrays are `std::vector`, `std::span` of constants (as a parameter), or `RpcArray`. Large ones are
// not copied on their way. A span and an `RpcArray` show the memory in which they arrived; a vector is
// a copy of it. A vector that is moved into a call is sent from its own memory; a span is copied.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "collectives/call_payload.h"
#include "collectives/error.h"

namespace meshwork {

/// An array that several may hold and nobody changes.
template <class Element>
class RpcArray {
 public:
  RpcArray() = default;
  RpcArray(std::vector<Element> values) {  // NOLINT: a vector is an array
    const auto owner = std::make_shared<const std::vector<Element>>(std::move(values));
    values_ = *owner;
    owner_ = owner;
  }
  RpcArray(std::span<const Element> values, std::shared_ptr<const void> owner)
      : values_(values), owner_(std::move(owner)) {}

  [[nodiscard]] std::span<const Element> values() const { return values_; }
  operator std::span<const Element>() const { return values_; }  // NOLINT
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] const Element* data() const { return values_.data(); }
  [[nodiscard]] const Element& operator[](std::size_t index) const { return values_[index]; }
  [[nodiscard]] auto begin() const { return values_.begin(); }
  [[nodiscard]] auto end() const { return values_.end(); }
  [[nodiscard]] const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::span<const Element> values_;
  std::shared_ptr<const void> owner_;
};

/// Collects values behind their codes.
class RpcWriter {
 public:
  void integer(std::int64_t value);
  void number(double value);
  void truth(bool value);
  void text(std::string_view value);
  void texts(const std::vector<std::string>& values);
  void nothing() { codes_ += 'v'; }
  /// `owner` keeps the memory; null: it is copied.
  void array(char code, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  /// What is expected instead of a value.
  void code(char code) { codes_ += code; }

  [[nodiscard]] CallPayload finish();

 private:
  void raw(const void* data, std::size_t bytes);
  void long_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  std::string codes_;
  std::string body_;
  std::vector<CallBlock> blocks_;
};

/// Gives them back, in their order.
class RpcReader {
 public:
  explicit RpcReader(CallPayload payload);

  [[nodiscard]] std::string_view codes() const { return codes_; }
  /// Passes over a code without a value.
  void skip_code() { ++next_; }
  std::int64_t integer();
  double number();
  bool truth();
  std::string text();
  std::vector<std::string> texts();
  /// Aligned for every element.
  CallBlock array();

 private:
  void raw(void* data, std::size_t bytes);
  CallBlock long_bytes();

  CallPayload payload_;
  std::string codes_;
  std::size_t next_ = 0;  // of the codes
  std::size_t at_ = 0;    // in the front
  std::size_t block_ = 0;
};

/// Whether a value of the code `found` passes for one of the code `wanted`.
[[nodiscard]] constexpr bool rpc_accepts(char wanted, char found) {
  return wanted == found || (wanted == 'f' && found == 'i');
}
/// What a code means, in words.
[[nodiscard]] std::string_view rpc_type_in_words(char code);
/// "(text, number)".
[[nodiscard]] std::string rpc_types_in_words(std::string_view codes);

/// How values of a type travel: its `code`, `write` and `read`. There are those below.
template <class Value>
struct RpcType;

template <>
struct RpcType<void> {
  static constexpr char code = 'v';
};

template <>
struct RpcType<bool> {
  static constexpr char code = 'b';
  static void write(RpcWriter& to, bool value) { to.truth(value); }
  static bool read(RpcReader& from) { return from.truth(); }
};

template <std::integral Integer>
struct RpcType<Integer> {
  static constexpr char code = 'i';
  static void write(RpcWriter& to, Integer value) {
    if (!std::in_range<std::int64_t>(value)) fail("{} does not fit 64 bits with a sign", value);
    to.integer(static_cast<std::int64_t>(value));
  }
  static Integer read(RpcReader& from) {
    const std::int64_t value = from.integer();
    if (!std::in_range<Integer>(value)) {
      fail("{} was given for an integer from {} to {}", value, std::numeric_limits<Integer>::min(),
           std::numeric_limits<Integer>::max());
    }
    return static_cast<Integer>(value);
  }
};

template <std::floating_point Number>
struct RpcType<Number> {
  static constexpr char code = 'f';
  static void write(RpcWriter& to, Number value) { to.number(static_cast<double>(value)); }
  static Number read(RpcReader& from) { return static_cast<Number>(from.number()); }
};

template <>
struct RpcType<std::string> {
  static constexpr char code = 's';
  static void write(RpcWriter& to, std::string_view value) { to.text(value); }
  static std::string read(RpcReader& from) { return from.text(); }
};
template <>
struct RpcType<std::string_view> : RpcType<std::string> {};
template <>
struct RpcType<const char*> : RpcType<std::string> {};
template <>
struct RpcType<char*> : RpcType<std::string> {};

template <>
struct RpcType<std::vector<std::string>> {
  static constexpr char code = 'S';
  static void write(RpcWriter& to, const std::vector<std::string>& values) { to.texts(values); }
  static std::vector<std::string> read(RpcReader& from) { return from.texts(); }
};

template <class Element>
inline constexpr char rpc_array_code = 0;
template <>
inline constexpr char rpc_array_code<float> = 'F';
template <>
inline constexpr char rpc_array_code<double> = 'D';
template <>
inline constexpr char rpc_array_code<std::int64_t> = 'I';
template <>
inline constexpr char rpc_array_code<std::int32_t> = 'J';
template <>
inline constexpr char rpc_array_code<std::uint8_t> = 'B';
template <class Element>
concept RpcElement = rpc_array_code<Element>
!= 0;

template <RpcElement Element>
struct RpcType<RpcArray<Element>> {
  static constexpr char code = rpc_array_code<Element>;
  static void write(RpcWriter& to, const RpcArray<Element>& values) {
    to.array(code, std::as_bytes(values.values()), values.owner());
  }
  static RpcArray<Element> read(RpcReader& from) {
    CallBlock block = from.array();
    return {{reinterpret_cast<const Element*>(block.bytes.data()),
             block.bytes.size() / sizeof(Element)},
            std::move(block.owner)};
  }
};

template <RpcElement Element>
struct RpcType<std::vector<Element>> {
  static constexpr char code = rpc_array_code<Element>;
  static void write(RpcWriter& to, std::vector<Element> values) {
    RpcType<RpcArray<Element>>::write(to, RpcArray<Element>(std::move(values)));
  }
  static std::vector<Element> read(RpcReader& from) {
    const RpcArray<Element> values = RpcType<RpcArray<Element>>::read(from);
    return {values.begin(), values.end()};
  }
};

template <class Element>
requires RpcElement<std::remove_const_t<Element>>
struct RpcType<std::span<Element>> {
  static constexpr char code = rpc_array_code<std::remove_const_t<Element>>;
  static void write(RpcWriter& to, std::span<Element> values) {
    to.array(code, std::as_bytes(values), nullptr);
  }
  /// As a parameter, what the span shows lives as long as the function runs.
  static RpcArray<std::remove_const_t<Element>> read(
      RpcReader& from) requires std::is_const_v<Element> {
    return RpcType<RpcArray<std::remove_const_t<Element>>>::read(from);
  }
};

}  // namespace meshwork
