// The tree behind ConfigNode. Immutable and shared: an alias is the same subtree twice, and an
// override makes new nodes only along its path.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

/// Where a value was written.
struct ConfigPlace {
  std::shared_ptr<const std::string> source;  // the file, or the option that gave the value
  int line = 0;                               // from 1; 0 if the source is all there is to say
  int column = 0;

  [[nodiscard]] std::string text() const;
};

struct ConfigTree {
  enum class Kind { null, scalar, sequence, map };
  struct Child {
    std::shared_ptr<const ConfigTree> key;  // a scalar; null in a sequence
    std::shared_ptr<const ConfigTree> value;
  };

  Kind kind = Kind::null;
  ConfigPlace place;
  std::string text;    // of a scalar
  bool plain = false;  // a scalar without quotes: it may be a number, true or false
  std::vector<Child> children;
  std::int64_t size = 1;        // nodes, aliases written out
  std::int64_t text_bytes = 0;  // of the scalars below, aliases written out
  int height = 1;               // levels

  [[nodiscard]] std::int64_t written_bytes() const {
    return text_bytes + static_cast<std::int64_t>(text.size());
  }

  /// Appends and keeps `size`, `text_bytes` and `height`.
  void add(Child child);
  /// The index of `key` in a map, or -1.
  [[nodiscard]] int index_of(std::string_view key) const;
};

using ConfigTreePointer = std::shared_ptr<const ConfigTree>;

inline constexpr int config_height_limit = 64;
inline constexpr std::int64_t config_size_limit = 200'000;
inline constexpr std::int64_t config_text_limit = std::int64_t{8} << 20;  // bytes
inline constexpr std::size_t config_key_limit = 250;                      // bytes
inline constexpr std::int64_t config_byte_limit = std::int64_t{1} << 20;

/// The index of the first byte that is no UTF-8 text or a control character, or the length.
[[nodiscard]] std::size_t first_bad_byte(std::string_view text);

/// The document in `text`. Values stand in `source`, at their line and column if `with_lines`.
/// Throws `ConfigError`.
[[nodiscard]] ConfigTreePointer parse_yaml(std::string_view text, const std::string& source,
                                           bool with_lines);

/// `root` with the value at `path` replaced by `value`, which stands in `origin`.
/// Throws `ConfigError` with `origin` as its place.
[[nodiscard]] ConfigTreePointer apply_override(const ConfigTreePointer& root,
                                               const std::string& assignment,
                                               const std::string& origin);

/// The path of the entry `key` of the map at `path`; quotes keys that need it.
[[nodiscard]] std::string entry_path(const std::string& path, std::string_view key);

/// Whether `name` is how a class is called: it begins with a capital letter.
[[nodiscard]] bool is_class_name(std::string_view name);

/// What a plain scalar reads as, by the core schema. Numbers out of range still match.
enum class ScalarKind { boolean, integer, number, string };
[[nodiscard]] ScalarKind scalar_kind(std::string_view text);

}  // namespace meshwork
