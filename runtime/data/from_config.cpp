#include "runtime/data/from_config.h"

#include "runtime/data/source_kinds.h"

namespace meshwork {
namespace {

SourceKinds all_kinds() {
  SourceKinds kinds;
  add_sources(kinds);
  return kinds;
}

SourceKind kind_of(const ConfigNode& node) {
  const SourceKinds kinds = all_kinds();
  ChoiceTable<std::size_t> table;
  for (std::size_t i = 0; i < kinds.size(); ++i) table.emplace_back(kinds[i].name, i);
  return kinds[ConfigReader(node).required_node("kind", names_in(table)).choice(table)];
}

}  // namespace

std::shared_ptr<const Source> source_from_config(const ConfigNode& node,
                                                 const SourceContext& context) {
  return node.located([&] { return kind_of(node).open(node, context); });
}

void check_source(const ConfigNode& node) {
  node.located([&] { kind_of(node).check(node); });
}

std::map<std::string, Explained> explained_sources() {
  std::map<std::string, Explained> texts;
  for (SourceKind& kind : all_kinds()) texts.merge(kind.explained);
  return texts;
}

}  // namespace meshwork
