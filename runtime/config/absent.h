// What Keras has and Meshwork has not: of each name what to write instead, or why there is nothing.
//
// Messages about an unknown name say it, and `meshwork reference --absent` prints it. A name that a
// catalog has is known, whatever stands here.
#pragma once

#include <span>
#include <string_view>

namespace meshwork {

struct Absence {
  std::string_view kind;     // as KindOf<Value>::word: "layer"; of options: the kind of their class
  std::string_view names;    // with spaces between them; "CSVLogger.x" or ".x" are options
  std::string_view instead;  // a clause, without a full stop
  bool counts = false;       // whether it is missing from what Meshwork wants to have
};

[[nodiscard]] std::span<const Absence> absences();

/// What to write instead of a name of this kind; "" if nothing is said.
[[nodiscard]] std::string_view instead_of(std::string_view kind, std::string_view name);

/// The same of the option `option` of a class of this kind, or of any class of it.
[[nodiscard]] std::string_view instead_of_option(std::string_view kind, std::string_view class_name,
                                                 std::string_view option);

}  // namespace meshwork
