// Logs: named values of a batch or an epoch, in the order in which they were first set.
//
// The trainer puts "loss" first, then the metrics, then those of validation under "val_" and the
// same names; callbacks may add more. Display has an order of its own, Keras's: alphabetical,
// values of training before those of validation, "learning_rate" last.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshwork {

class Logs {
 public:
  using Entry = std::pair<std::string, double>;

  Logs() = default;
  Logs(std::initializer_list<Entry> entries);

  /// Sets `name`; a new one goes to the end.
  void set(std::string_view name, double value);
  [[nodiscard]] std::optional<double> find(std::string_view name) const;
  /// Throws `Error` naming those there are.
  [[nodiscard]] double at(std::string_view name) const;
  void clear() { entries_.clear(); }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] auto begin() const { return entries_.begin(); }
  [[nodiscard]] auto end() const { return entries_.end(); }
  [[nodiscard]] std::vector<std::string> names() const;
  /// The entries in the order of display.
  [[nodiscard]] std::vector<Entry> in_display_order() const;

  bool operator==(const Logs&) const = default;

 private:
  std::vector<Entry> entries_;
};

}  // namespace meshwork
