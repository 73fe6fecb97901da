#include "runtime/data/from_config.h"

#include "runtime/data/source_kinds.h"

namespace meshwork {
namespace {

SourceKinds all_kinds() {
  SourceKinds kinds;
  add_sources(kinds);
  return kinds;
}

}  // namespace

std::shared_ptr<const Source> source_from_config(const ConfigNode& node,
                                                 std::span<const std::string> inputs,
                                                 std::uint64_t seed,
                                                 const std::vector<Categories>* categories) {
  return node.located([&] {
    ChoiceTable<decltype(SourceKind::open)> table;
    for (const SourceKind& kind : all_kinds()) table.emplace_back(kind.name, kind.open);
    const auto open = ConfigReader(node).required_node("kind", names_in(table)).choice(table);
    return open(node, {inputs, seed, categories});
  });
}

std::map<std::string, Explained> explained_sources() {
  std::map<std::string, Explained> texts;
  for (SourceKind& kind : all_kinds()) texts.merge(kind.explained);
  return texts;
}

}  // namespace meshwork
