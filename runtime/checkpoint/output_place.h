// Where a file is to be written: whether it can be, which is known before anything is computed, and
// the writing of a whole file.
//
// A file is written in one of two ways. *Beside*: under name_while_writing (new_file.h), and
// renamed when it is whole, so that there is never half of it. *In place*: line after line, as a
// log, and through a symbolic link.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace meshwork {

enum class Writing { beside, in_place };

/// What a symbolic link names in the end, be it there or not; anything else is itself.
[[nodiscard]] std::filesystem::path target_of(std::filesystem::path file);

/// Why no file can be written at `file`, as "there is no folder runs"; "" if one can. The folder
/// `to_come`, unless it is empty, will be made before. Writes nothing. A full disk, and a limit of
/// sizes, are found when the file is written (`FailedWrite`).
[[nodiscard]] std::string obstacle_to_writing(const std::filesystem::path& file, Writing how,
                                              const std::filesystem::path& to_come = {});

/// Why there can be no folder `folder` with new files, as "x is no folder"; "" if it is there, or can
/// be made with those above it.
[[nodiscard]] std::string obstacle_to_folder(const std::filesystem::path& folder);

/// Writes a file of `text` beside. Throws `Error`, and `FailedWrite` if the system does not take it; then there is what was before.
void write_whole(const std::filesystem::path& file, std::string_view text);

}  // namespace meshwork
