#include "runtime/data/written_source.h"

#include <algorithm>

#include "runtime/config/nearest.h"

namespace meshwork {
namespace {

// The entries of `node` for `names`, which are inputs or outputs of the model: `what`.
std::vector<ConfigNode> entries_for(const ConfigNode& node, std::span<const std::string> names,
                                    std::string_view field, std::string_view what) {
  for (const ConfigEntry& entry : node.entries()) {
    if (std::find(names.begin(), names.end(), entry.name) == names.end()) {
      throw entry.key.unknown(
          fmt::format("{} of the model{}", what, what == "output" ? " with a loss" : ""),
          {names.begin(), names.end()});
    }
  }
  std::vector<ConfigNode> entries;
  for (const std::string& name : names) {
    const auto entry = node.find(name);
    if (!entry) node.fail("there is no {} for the model's {} \"{}\"", field, what, name);
    entries.push_back(*entry);
  }
  return entries;
}

}  // namespace

std::string to_text(const SharedWrittenSource& source) {
  return source ? source->node.find("kind")->as<std::string>() : "none";
}

std::vector<ConfigNode> features_of(const ConfigNode& node, std::span<const std::string> inputs,
                                    bool by_name) {
  if (by_name) return entries_for(node, inputs, "feature", "input");
  if (inputs.size() != 1) {
    node.fail("the model has {} inputs, {}; expected a map with a feature for each", inputs.size(),
              quoted_list(inputs));
  }
  return {node};
}

std::vector<ConfigNode> targets_of(const ConfigNode& node, std::span<const std::string> outputs) {
  if (!node.is_map()) {
    node.fail(
        "outputs of the model are compared with targets: {}; expected a map with a target "
        "for each",
        quoted_list(outputs));
  }
  return entries_for(node, outputs, "target", "output");
}

void check_one_target(const ConfigNode& node, const SourceContext& context, std::string_view kind) {
  if (context.outputs.size() > 1) {
    node.fail("{} have one target, but the model compares {} outputs with targets: {}", kind,
              context.outputs.size(), quoted_list(context.outputs));
  }
}

}  // namespace meshwork
