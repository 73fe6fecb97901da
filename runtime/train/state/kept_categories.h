// The categories of the training data as checkpoints keep them, so that the numbers of texts mean
// the same when a model is tried on other data.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "runtime/checkpoint/contents.h"
#include "runtime/data/categories.h"

namespace meshwork {

[[nodiscard]] std::vector<CategoryRecord> category_records(
    const std::vector<Categories>& categories);
[[nodiscard]] std::vector<Categories> categories_of(const std::vector<CategoryRecord>& records);

/// What differs between the categories `now` and those of a checkpoint, a line a column. A
/// checkpoint without any says nothing.
[[nodiscard]] std::vector<std::string> category_differences(
    const std::vector<CategoryRecord>& now, const std::vector<CategoryRecord>& then);

/// Those in the checkpoint that `path` stands for (weights_file); none if it is another file, or
/// cannot be read, which is said where its weights are. Collective.
[[nodiscard]] std::vector<Categories> kept_categories(const Communicator& ranks,
                                                      const std::filesystem::path& path);

}  // namespace meshwork
