// The nearest right name, for messages: what somebody who wrote a name that does not exist most
// likely meant.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

/// How many letters have to be inserted, deleted, replaced or swapped with their neighbour to make
/// `b` of `a` (optimal string alignment: no letter is touched twice).
[[nodiscard]] std::int64_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `name` by edit distance without regard to case, the first of equals; ""
/// if none is so near that it could have been meant: one letter away for names of up to three,
/// else half of the longer name. A name cut short counts as one letter away.
[[nodiscard]] std::string nearest_name(std::string_view name,
                                       std::span<const std::string> candidates);

/// The `count` candidates nearest to `name`, nearest first, however far they are.
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view name,
                                                     std::span<const std::string> candidates,
                                                     std::size_t count);

/// `; did you mean "Dense"?` with the nearest name, or "" if there is none: the end of a message.
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       std::span<const std::string> candidates);

/// `"a", "b" and "c"`; "none" for an empty list.
[[nodiscard]] std::string quoted_list(std::span<const std::string> names);

}  // namespace meshwork
