#include "runtime/config/character.h"

namespace meshwork {

void from_config(const ConfigNode& node, char& character) {
  const auto text = node.as<std::string>();
  if (text.size() != 1) {
    node.fail("expected one character, found {}", node.found());
  }
  character = text[0];
}

}  // namespace meshwork
