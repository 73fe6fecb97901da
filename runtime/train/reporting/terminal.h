// The terminal: whether a person looks at what is printed, on how many columns, and in colours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace meshwork {

/// Whether what is written to `descriptor` (1 is standard output) ends at a terminal. Open MPI
/// gives each rank a pseudo-terminal of its own, whatever becomes of the job's output; so under its
/// launcher it is the launcher's output that counts.
[[nodiscard]] bool ends_at_terminal(int descriptor);

/// The columns of the terminal at which `descriptor` ends, now: COLUMNS, if that is set, or what
/// the terminal says, or 80. 0 where it ends at none: a file takes lines of any length.
[[nodiscard]] int terminal_width(int descriptor);

/// For tables and other text that has to be read whole: of a terminal that is narrower than 80
/// columns, these.
[[nodiscard]] std::size_t text_width(int descriptor);

/// Whether the terminal takes escape sequences; none is dumb that says nothing.
[[nodiscard]] bool takes_escapes(int descriptor);

enum class Colour : std::uint8_t { red, yellow, green };

/// Whether what is written to `descriptor` may have colours: on a terminal that takes escape
/// sequences, if NO_COLOR is not set.
[[nodiscard]] bool shows_colours(int descriptor);

/// `text`, in `colour` where `descriptor` shows colours.
[[nodiscard]] std::string coloured(std::string_view text, Colour colour, int descriptor);

[[nodiscard]] bool is_warning(std::string_view line);

/// A message: in yellow if it is a warning.
[[nodiscard]] std::string coloured_message(std::string_view line, int descriptor);

}  // namespace meshwork
