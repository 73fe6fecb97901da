// A list of layers as a configuration writes it, and how they are joined.
//
//     layers:
//       - Dense: {name: d1, units: 64}
//       - Dense: {name: d2, units: 64, inputs: d1}
//       - Add: {inputs: [d1, d2]}
//       - d1: {name: again}                       # the layer of that name, called again
//       - Repeat:                                 # block_0, block_1, ... block_11
//           name: block
//           count: 12
//           layers:
//             - Dense: {name: up, units: 64}
//             - Add: {inputs: [input, up]}        # what the block is called on
//
// A *value* is something that has an output: an input or a layer. A layer takes the values that its
// `inputs` name, else the one before it. Names count within their list. The copies of a Repeat
// stand one after the other; each has variables of its own, under the paths `block_0/up/kernel` and
// so on.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/config/catalog.h"
#include "runtime/config/node.h"
#include "runtime/config/options.h"
#include "runtime/graph/layer.h"

namespace meshwork {

struct RepeatOptions {
  std::string name = "block";
  std::int64_t count = 1;
  Written<"a list of layers"> layers;
};

/// Of a Repeat, with those that it is in.
inline constexpr std::int64_t most_blocks = 10000;

template <class Visitor>
void describe(RepeatOptions& repeat, Visitor& option) {
  option.about("blocks of the same layers, one after the other, each with variables of its own");
  option("name", repeat.name, "prefix of the blocks' names: block_0, block_1");
  option.required("count", repeat.count, positive.up_to(most_blocks), "number of blocks");
  option.required("layers", repeat.layers,
                  "layers of a block, as in a model; `input` is the input of the block");
}

class LayerList {
 public:
  struct Value {
    std::string name;                        // "" for a layer without one
    std::optional<SymbolicTensor> symbol;    // none for one in which something is wrong
    std::optional<SharedLayer> layer = {};   // which makes it
    std::optional<SharedLayer> rename = {};  // which gives the name to a call of an earlier layer
    std::vector<std::size_t> operands = {};  // of the layer
    ConfigNode node;                         // where it was written
    bool is_input = false;
    bool used = false;
  };
  using Found = std::optional<std::size_t>;  // an index; none for what cannot be known

  /// Makes layers of `catalog`, which outlives it. `whole` is what it is the list of, in messages.
  explicit LayerList(const Catalog& catalog, std::string whole = "the model")
      : catalog_(&catalog), whole_(std::move(whole)) {}

  [[nodiscard]] const std::vector<Value>& values() const { return values_; }
  Value& add_input(const std::string& name, const ConfigNode& written);
  /// Names may be those of inputs that could not be read.
  void inputs_are_unknown() { inputs_known_ = false; }

  /// Reads the layers of `layers` and calls them. Throws `ConfigError` with all that is wrong.
  void read(const ConfigNode& layers);
  /// The value that `node` names. Throws `ConfigError` if there is none.
  [[nodiscard]] Found find(const ConfigNode& node) const;
  /// The values at `outputs` leave the list. Throws `ConfigError` for values that nothing takes,
  /// and for an output that is an input.
  void use(const std::vector<std::size_t>& outputs);

 private:
  void read_layer(const ConfigNode& node);
  void read_repeat(const ConfigNode& node);
  SharedLayer block(const RepeatOptions& options, std::int64_t index, const ConfigNode& node) const;
  const Value* called_again(const ConfigNode& node) const;
  std::vector<Found> operands_of(const ConfigEntry& entry);
  std::optional<std::vector<SymbolicTensor>> symbols_of(const std::vector<Found>& operands);
  void check_name(const std::string& name, const ConfigNode& options,
                  const ConfigNode& layer) const;
  std::vector<Found> previous(const ConfigNode& layer) const;
  std::vector<Found> find_all(const ConfigNode& names) const;

  const Catalog* catalog_;
  std::string whole_;
  std::int64_t copies_ = 1;            // of this list, in the Repeats that it is in
  bool inputs_known_ = true;           // by their names, at least
  std::vector<Value> values_;          // inputs, then layers
  std::vector<std::string> upcoming_;  // the names of all layers, as written
  ConfigErrors errors_;
};

}  // namespace meshwork
