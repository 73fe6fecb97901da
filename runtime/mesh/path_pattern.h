// PathPattern: the paths of a model that a user means, by one key.
//
// A key means the path that is the same text, or is a regular expression (ECMAScript) that matches
// whole paths. Optimizers look for their keys in parts of paths. A key may carry its *origin*, the
// place where it was written: "configs/mnist.yaml:7:14", "Muon: exclude_layers". It stands in front
// of every message about the key. Messages call the key what it is to the user, for instance a
// "layout key".
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

/// A key that matches none of a model's paths.
struct UnmatchedKey {
  std::string key;
  std::string origin;
  /// The nearest paths by edit distance, nearest first, three at most.
  std::vector<std::string> nearest;
  /// The paths that the key would match if it were allowed to match a part of them.
  std::vector<std::string> unanchored;
  /// One line: what does not match, what there is instead, and the origin.
  std::string message;
};

class PathPattern {
 public:
  /// `what` is what messages call the key. Throws `Error`: a key that is empty, or an
  /// expression that is malformed or refers back to a group, with position and reason.
  PathPattern(std::string_view what, std::string key, std::string origin = "");

  [[nodiscard]] const std::string& key() const { return key_; }
  [[nodiscard]] const std::string& origin() const { return origin_; }
  /// Whether the key means `path`.
  [[nodiscard]] bool matches(const std::string& path) const;
  /// Whether `path` has a part that the key matches.
  [[nodiscard]] bool is_found_in(const std::string& path) const;
  /// None if the key matches one of `paths`.
  [[nodiscard]] std::optional<UnmatchedKey> unmatched(std::span<const std::string> paths) const;

 private:
  struct Expression;

  std::string what_, key_, origin_;
  // Null for a key that means itself alone. Distributions have such a key for each variable.
  std::shared_ptr<const Expression> expression_;
};

/// The origin in front of a message, if there is one: "configs/mnist.yaml:7:14: ".
[[nodiscard]] std::string before(const std::string& origin);

}  // namespace meshwork
