// `meshwork options`: what a configuration can say, out of the descriptions that it is read by.
#include <map>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "launch/commands.h"
#include "launch/session.h"
#include "runtime/config/nearest.h"
#include "runtime/data/from_config.h"
#include "runtime/train/run_config.h"

namespace meshwork {
namespace {

using Texts = std::vector<OptionText>;

/// The sections of a configuration whose options are plain values, and what stands in none.
std::map<std::string, Texts> sections() {
  std::map<std::string, Texts> all = source_option_texts();
  ModelOptions model;
  WrittenSpread spread;
  FitOptions options;
  bool cache = false;
  OptionLister configuration, data, fit;
  describe(model, configuration);
  describe(spread, configuration);
  describe_data_section(options, data);
  describe_cache(cache, data);
  describe_fit_section(options, fit);
  describe_callbacks(options.callbacks, fit);
  all["configuration"] = std::move(configuration.texts);
  all["data"] = std::move(data.texts);
  all["fit"] = std::move(fit.texts);
  all["checkpoint"] = option_texts<CheckpointOptions>();
  return all;
}

std::string listed(const Texts& options) {
  std::string text;
  for (const OptionText& option : options) {
    const std::string initial =
        option.initial.empty() ? "" : ", " + option.initial + " if not given";
    text += fmt::format("    {:<28}  {}\n", option.name, option.help);
    if (!option.expected.empty() || !initial.empty()) {
      text += fmt::format("    {:<28}    {}{}\n", "",
                          option.expected.empty() ? "a value" : option.expected, initial);
    }
  }
  return text.empty() ? "    no options\n" : text;
}

std::string described(const std::string& name, const Catalog::Described& one) {
  std::string names = name;
  for (const std::string& other : one.short_names) names += ", " + other;
  return fmt::format("  {}\n{}", names, one.options ? listed(one.options()) : "");
}

}  // namespace

std::string options_text(const CommandLine& line, const Communicator*) {
  const Catalog catalog = catalog_of(line);
  const std::map<std::string, Texts> all = sections();
  std::vector<std::string> known;
  std::string text;
  for (const auto& [name, options] : all) {
    known.push_back(name);
    if (line.name == name) return fmt::format("  {}\n{}", name, listed(options));
    text += fmt::format("{}{}", text.empty() ? "sections: " : ", ", name);
  }
  text += "\n";
  for (const auto& [kind, classes] : catalog.described()) {
    std::string names;
    for (const auto& [name, one] : classes) {
      known.push_back(name);
      if (line.name == name) return described(name, one);
      for (const std::string& other : one.short_names) {
        if (line.name == other) return described(name, one);
      }
      names += (names.empty() ? "" : ", ") + name;
    }
    text += fmt::format("{}: {}\n", kind, names);
  }
  if (line.name.empty()) {
    return text + "\n`meshwork options NAME` lists the options of one of these.\n";
  }
  fail("there is nothing called \"{}\" that has options{}", line.name,
       did_you_mean(line.name, known));
}

}  // namespace meshwork
