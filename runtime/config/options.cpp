#include "runtime/config/options.h"

#include "collectives/joined_text.h"

namespace meshwork {

using options_detail::AnyOptions;
using options_detail::AnyValue;

OptionVisitor option_reader(ConfigReader& reader, const Catalog& catalog) {
  return OptionVisitor([&](const char* name, AnyValue& value, const ValueRange& range, const char*,
                           bool required) {
    reader.check([&] {
      const std::optional<ConfigNode> node =
          required ? reader.required_node(name, value.expected(range)) : reader.node(name);
      if (!node) return;
      if (value.is_object()) {
        value.read(*node, range, catalog);  // what is wrong there is an option of another object
      } else {
        reader.advised([&] { value.read(*node, range, catalog); });
      }
    });
  });
}

OptionVisitor option_checker(std::string owner) {
  return OptionVisitor([owner = std::move(owner)](const char* name, AnyValue& value,
                                                  const ValueRange& range, const char*,
                                                  bool) { value.check(owner, name, range); });
}

OptionVisitor option_lister(OptionList& list) {
  return OptionVisitor(
      [&](const char* name, AnyValue& value, const ValueRange& range, const char* help,
          bool required) {
        const std::string text = value.text();
        list.settings.emplace_back(name, text);
        list.explained.options.push_back(
            {name, value.expected(range), required ? "" : text, help, required});
      },
      [&](const std::string& text) { list.explained.about = text; });
}

void options_detail::read(const AnyOptions& options, const ConfigNode& node, const Catalog& catalog,
                          const std::string& name, const std::vector<std::string>& others,
                          const std::string& kind) {
  ConfigReader reader(node, name, kind);
  OptionVisitor visitor = option_reader(reader, catalog);
  options.describe(options.options, visitor);
  for (const std::string& other : others) static_cast<void>(reader.node(other));
  reader.finish();
}

void options_detail::check(const AnyOptions& options, const std::string& owner) {
  OptionVisitor visitor = option_checker(owner);
  options.describe(options.options, visitor);
}

OptionList options_detail::list(const AnyOptions& options) {
  OptionList list;
  OptionVisitor visitor = option_lister(list);
  options.describe(options.options, visitor);
  return list;
}

std::string words_of(const Settings& settings) {
  std::vector<std::string> words;
  for (const auto& [name, value] : settings) words.push_back(name + " " + value);
  return joined_text(words, ", ");
}

}  // namespace meshwork
