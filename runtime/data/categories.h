// Categories: texts as numbers.
//
// Where samples have a text, such as a city or the name of a class, a network is given a number. The
// texts that occur are sorted by their bytes, and the number of a text is its place, from 0: so it
// depends on which texts there are and not on their order in a file, and is the same on all ranks.
//
// Data that a trained network is tried on have to mean the same by a number, though they may lack a
// text or have another. So they are opened with the categories of the training data, which
// checkpoints keep; a text that is not among them is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

/// The texts of one column of a table, or of one field.
struct Categories {
  std::string name;                // of the column
  std::vector<std::string> texts;  // by number
  bool operator==(const Categories&) const = default;
};

/// How many texts a column or a field may have: checkpoints keep them.
inline constexpr std::size_t most_categories = std::size_t{1} << 16;

/// Those that are called `name`; null if there are none.
[[nodiscard]] inline const Categories* find_categories(std::span<const Categories> all,
                                                       std::string_view name) {
  for (const Categories& categories : all) {
    if (categories.name == name) return &categories;
  }
  return nullptr;
}

/// "city (3: 1f0c...)": the name, how many there are, and a hash of the texts.
[[nodiscard]] std::string to_text(const Categories& categories);

}  // namespace meshwork
