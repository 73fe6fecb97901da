#include "runtime/train/written_outputs.h"

#include <algorithm>
#include <utility>

#include "runtime/config/float_range.h"
#include "runtime/config/nearest.h"
#include "runtime/train/from_config.h"

namespace meshwork {
namespace {

class OutputsReader {
 public:
  OutputsReader(const std::vector<std::string>& names, const Catalog& catalog)
      : names_(names), catalog_(&catalog) {
    for (const std::string& name : names) written_.push_back({.name = name});
    if (names.empty()) written_.emplace_back();
  }

  void read_losses(const ConfigNode& node) {
    if (!is_by_name(node)) {
      // A loss has no state: one serves all outputs.
      const auto loss = catalog_->make<SharedLoss>(node);
      for (WrittenOutput& output : written_) set_loss(output, loss, node);
      return;
    }
    read_by_name(node, [&](WrittenOutput& output, const ConfigNode& loss) {
      set_loss(output, loss.is_null() ? nullptr : catalog_->make<SharedLoss>(loss), loss);
    });
    for (const WrittenOutput& output : written_) {
      if (!output.loss) {
        node.fail("there is no loss for the output \"{}\"; {}: ~ leaves it without", output.name,
                  output.name);
      }
    }
    if (std::none_of(written_.begin(), written_.end(),
                     [](const WrittenOutput& output) { return output.training.loss; })) {
      node.fail("no output has a loss; expected one at least");
    }
  }

  void read_weights(const ConfigNode& node) {
    if (names_.empty()) {
      node.fail("the model has one output, so loss_weights has no effect; leave it out");
    }
    read_by_name(node, [](WrittenOutput& output, const ConfigNode& weight) {
      output.training.weight = weight.as<double>(float_any);
      if (output.loss && !output.training.loss) {
        weight.fail("the output \"{}\" has no loss", output.name);
      }
    });
  }

  void read_metrics(const ConfigNode& node) {
    if (names_.empty() || (names_.size() == 1 && !node.is_map())) {
      set_metrics(written_.front(), node);
      return;
    }
    if (!node.is_map()) {
      node.fail(
          "the model has the outputs {}; expected a map of metrics by their names, such as "
          "{{{}: [mae]}}",
          quoted_list(names_), names_.front());
    }
    read_by_name(node, [&](WrittenOutput& output, const ConfigNode& metrics) {
      set_metrics(output, metrics);
      if (output.loss && !output.training.loss) {
        metrics.fail("the output \"{}\" has no loss, and so no targets to be compared with",
                     output.name);
      }
    });
  }

  std::vector<WrittenOutput> take() { return std::move(written_); }

 private:
  bool is_by_name(const ConfigNode& node) const {
    if (names_.empty() || !node.is_map()) return false;
    const std::vector<ConfigEntry> entries = node.entries();
    return entries.size() != 1 || !catalog_->find<SharedLoss>(entries.front().name);
  }

  // Calls `read` for each entry, with the output that it is of.
  template <class Read>
  void read_by_name(const ConfigNode& node, const Read& read) {
    ConfigErrors errors;
    for (const ConfigEntry& entry : node.entries()) {
      errors.check([&] {
        const auto output =
            std::find_if(written_.begin(), written_.end(),
                         [&](const WrittenOutput& one) { return one.name == entry.name; });
        if (output == written_.end()) throw entry.key.unknown("output of the model", names_);
        read(*output, entry.value);
      });
    }
    errors.raise();
  }

  static void set_loss(WrittenOutput& output, SharedLoss loss, const ConfigNode& node) {
    output.training.loss = std::move(loss);
    output.loss = node;
  }

  void set_metrics(WrittenOutput& output, const ConfigNode& node) {
    output.training.metrics = metrics_from_config(node, *catalog_);
    if (!node.is_null()) output.metrics = node.elements();
  }

  const std::vector<std::string>& names_;
  const Catalog* catalog_;
  std::vector<WrittenOutput> written_;
};

}  // namespace

std::vector<WrittenOutput> read_outputs(const ConfigurationSections& sections,
                                        const std::vector<std::string>& names,
                                        const Catalog& catalog) {
  OutputsReader reader(names, catalog);
  ConfigErrors errors;
  const auto read = [&](const std::optional<ConfigNode>& node, auto function) {
    if (node) errors.check([&] { (reader.*function)(*node); });
  };
  read(sections.loss.node, &OutputsReader::read_losses);
  read(sections.loss_weights.node, &OutputsReader::read_weights);
  read(sections.metrics.node, &OutputsReader::read_metrics);
  errors.raise();
  return reader.take();
}

}  // namespace meshwork
