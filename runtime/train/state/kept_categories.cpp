#include "runtime/train/state/kept_categories.h"

#include <algorithm>
#include <set>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/text_list.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/config/node.h"
#include "runtime/train/state/weights.h"

namespace meshwork {

std::vector<CategoryRecord> category_records(const std::vector<Categories>& categories) {
  std::vector<CategoryRecord> records;
  for (const Categories& column : categories) {
    for (const std::string& text : column.texts) records.push_back({column.name, text});
  }
  return records;
}

std::vector<Categories> categories_of(const std::vector<CategoryRecord>& records) {
  std::vector<Categories> categories;
  for (const CategoryRecord& record : records) {
    if (categories.empty() || categories.back().name != record.column) {
      categories.push_back({record.column, {}});
    }
    categories.back().texts.push_back(record.text);
  }
  return categories;
}

std::vector<std::string> category_differences(const std::vector<CategoryRecord>& now,
                                              const std::vector<CategoryRecord>& then) {
  std::vector<std::string> found;
  const std::vector<Categories> columns = categories_of(now);
  for (const Categories& before : categories_of(then)) {
    const Categories* const column = find_categories(columns, before.name);
    if (column == nullptr) {
      found.push_back(
          fmt::format("the training data have no texts in {}, as those of the checkpoint",
                      in_quotes(before.name)));
    } else if (column->texts != before.texts) {
      const auto differ = std::ranges::mismatch(column->texts, before.texts);
      const auto text = [](auto at, auto end) {
        return at == end ? std::string("no text") : in_quotes(*at);
      };
      found.push_back(fmt::format(
          "the number {} stands for {} in {} of the training data, and for {} in the checkpoint; "
          "give the texts under `categories`",
          differ.in2 - before.texts.begin(), text(differ.in1, column->texts.end()),
          in_quotes(before.name), text(differ.in2, before.texts.end())));
    }
  }
  return found;
}

std::vector<Categories> kept_categories(const Communicator& ranks,
                                        const std::filesystem::path& path) {
  std::string list;
  if (ranks.rank() == 0) {
    try {
      const CheckpointReader reader(weights_file(path));
      for (const CategoryRecord& record : reader.state().categories) {
        append_entry(list, record.column);
        append_entry(list, record.text);
      }
    } catch (const Error&) {
      list.clear();
    }
  }
  const std::vector<std::string> entries = entries_of(broadcast_text(ranks, list));
  std::vector<CategoryRecord> records;
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
    records.push_back({entries[i], entries[i + 1]});
  }
  return categories_of(records);
}

}  // namespace meshwork
