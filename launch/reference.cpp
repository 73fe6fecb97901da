// `meshwork reference`: everything that a configuration may contain, from the descriptions by which
// it is read (runtime/config/options.h). configs/README.md and layers/README.md contain parts of it,
// the manual page meshwork(5) all.
#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "launch/command_tree.h"
#include "launch/commands.h"
#include "launch/roff.h"
#include "launch/session.h"
#include "runtime/config/absent.h"
#include "runtime/config/nearest.h"
#include "runtime/train/run_config.h"

namespace meshwork {
namespace {

struct Entry {
  std::vector<std::string> names;  // the first is the class's or the section's
  Explained explained;
};

/// The sections, or the classes of one kind.
struct Group {
  std::string name;  // "layers"
  std::vector<Entry> entries;
};

Explained configuration_explained() {
  OptionList list;
  OptionVisitor option = option_lister(list);
  ModelOptions model;
  ConfigurationSections sections;
  WrittenSpread spread;
  describe(model, option);
  describe(spread, option);
  describe(sections, option);
  return std::move(list.explained);
}

Explained data_explained() {
  OptionList list;
  OptionVisitor option = option_lister(list);
  DataSets sets;
  FitOptions fit;
  bool cache = false;
  bool one_hot = false;
  option.about("samples and batches");
  describe(sets, option);
  describe_data_section(fit, option);
  describe_cache(cache, option);
  describe_one_hot(one_hot, option);
  return std::move(list.explained);
}

Explained fit_explained() {
  OptionList list;
  OptionVisitor option = option_lister(list);
  FitOptions fit;
  bool gradient_norm = false;
  option.about("epochs, validation and callbacks");
  describe_fit_section(fit, option);
  describe_gradient_norm(gradient_norm, option);
  describe_callbacks(fit.callbacks, option);
  return std::move(list.explained);
}

Explained pipeline_explained() {
  OptionList list;
  OptionVisitor option = option_lister(list);
  StagesOptions stages;
  PipelineSchedule schedule = StepWalk().schedule;
  describe_pipeline(stages, schedule, option);
  return std::move(list.explained);
}

// "losses" of "loss".
std::string group_of(const std::string& kind) {
  return kind + (kind.ends_with("s") ? "es" : "s");
}

std::vector<Group> groups(const Catalog& catalog) {
  std::vector<Group> all{{"sections",
                          {{{"configuration"}, configuration_explained()},
                           {{"data"}, data_explained()},
                           {{"model"}, explained<ModelSection>()},
                           {{"fit"}, fit_explained()},
                           {{"pipeline"}, pipeline_explained()},
                           {{"checkpoint"}, explained<CheckpointOptions>()},
                           {{"log"}, explained<LogFiles>()}}}};
  for (const auto& [kind, classes] : catalog.described()) {
    Group& group = all.emplace_back();
    group.name = group_of(kind);
    for (const auto& [name, one] : classes) {
      Entry& entry = group.entries.emplace_back();
      entry.names = {name};
      entry.names.insert(entry.names.end(), one.short_names.begin(), one.short_names.end());
      if (one.explain) entry.explained = one.explain();
    }
  }
  return all;
}

std::string default_of(const OptionText& option) {
  if (option.required) return "required";
  return option.initial.empty() ? "\"\"" : option.initial;
}

// A line for each option, and one for its type and default.
std::string lines_of(const std::vector<OptionText>& options) {
  std::size_t width = 0;
  for (const OptionText& option : options) width = std::max(width, option.name.size());
  std::string text;
  for (const OptionText& option : options) {
    const std::string expected = option.expected.empty() ? "" : option.expected + "; ";
    text += fmt::format("  {:<{}}  {}\n  {:<{}}  {}{}{}\n", option.name, width, option.help, "",
                        width, expected, option.required ? "" : "default ", default_of(option));
  }
  return text;
}

std::string as_text(const Entry& entry) {
  std::string text = joined_text(entry.names, ", ");
  if (!entry.explained.about.empty()) text += ": " + entry.explained.about;
  return text + "\n" + lines_of(entry.explained.options);
}

// Text of a cell: a bar would end it.
std::string in_cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) {
    text.insert(at, "\\");
  }
  return text;
}

std::string as_markdown(const Entry& entry) {
  std::string text = fmt::format("#### {}\n\n", joined_text(entry.names, ", "));
  if (!entry.explained.about.empty()) text += fmt::format("{}\n\n", entry.explained.about);
  if (entry.explained.options.empty()) return text;
  text += "| option | meaning | type | default |\n|---|---|---|---|\n";
  for (const OptionText& option : entry.explained.options) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", option.name, in_cell(option.help),
                        in_cell(option.expected), in_cell(default_of(option)));
  }
  return text + "\n";
}

std::string as_roff(const Entry& entry) {
  std::string text = fmt::format(".SS \"{}\"\n", roff(joined_text(entry.names, ", ")));
  if (!entry.explained.about.empty()) text += roff(entry.explained.about) + ".\n";
  for (const OptionText& option : entry.explained.options) {
    const std::string type = option.expected.empty() ? "" : option.expected + "; ";
    text += roff_item(option.name, "",
                      fmt::format("{}\n.br\n{}{}{}", roff(option.help), roff(type),
                                  option.required ? "" : "default ", roff(default_of(option))));
  }
  return text;
}

// `head`, then the names with commas between them, in lines of 80 columns, further ones indented.
std::string wrapped(const std::string& head, const std::vector<std::string>& names) {
  std::string text = head;
  std::size_t column = text.size();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = names[i] + (i + 1 < names.size() ? "," : "");
    if (column > 0 && column + 1 + name.size() > 80) {
      text += "\n ";
      column = 1;
    }
    text += (column == 0 ? "" : " ") + name;
    column += (column == 0 ? 0 : 1) + name.size();
  }
  return text + "\n";
}

std::string overview(const std::vector<Group>& all) {
  std::string text;
  for (const Group& group : all) {
    std::vector<std::string> names;
    for (const Entry& entry : group.entries) names.push_back(entry.names[0]);
    text += wrapped(group.name + ":", names);
  }
  return text +
         "\n`meshwork reference NAME` explains one of these, a whole line such as layers, or an "
         "option\nsuch as batch_size.\n";
}

enum class Form { text, markdown, man };

std::string title(const std::string& group, Form form) {
  if (form == Form::text) return "";
  return form == Form::markdown ? fmt::format("### {}\n\n", group)
                                : fmt::format(".SH \"{}\"\n", roff(group));
}

std::string written(const Entry& entry, Form form) {
  return form == Form::markdown ? as_markdown(entry)
         : form == Form::man    ? as_roff(entry)
                                : as_text(entry);
}

bool same_words(const OptionText& a, const OptionText& b) {
  return std::tie(a.help, a.expected, a.initial, a.required) ==
         std::tie(b.help, b.expected, b.initial, b.required);
}

// The sections and classes that have the option `name`, those together that say the same of it; ""
// if there are none.
std::string explained_option(const std::vector<Group>& all, const std::string& name, Form form) {
  std::vector<Entry> different;
  for (const Group& group : all) {
    for (const Entry& entry : group.entries) {
      for (const OptionText& option : entry.explained.options) {
        if (option.name != name) continue;
        const auto same = std::ranges::find_if(different, [&](const Entry& before) {
          return same_words(before.explained.options.front(), option);
        });
        if (same == different.end()) {
          different.push_back({{entry.names.front()}, {.options = {option}}});
        } else {
          same->names.push_back(entry.names.front());
        }
      }
    }
  }
  if (different.empty()) return "";
  std::string text = form == Form::text ? fmt::format("{} is an option of:\n", name) : "";
  for (const Entry& entry : different) {
    text += form == Form::text ? "\n" + wrapped("", entry.names) + lines_of(entry.explained.options)
                               : written(entry, form);
  }
  return text;
}

[[noreturn]] void fail_unknown(const std::string& name, const std::vector<std::string>& known) {
  for (const Absence& absence : absences()) {
    if (const std::string_view instead = instead_of(absence.kind, name); !instead.empty()) {
      fail("there is no {} \"{}\": {}", absence.kind, name, instead);
    }
  }
  const std::string nearest = did_you_mean(name, known);
  fail("there is nothing called \"{}\"{}", name,
       nearest.empty()
           ? fmt::format("; the nearest names are {}", quoted_list(nearest_names(name, known, 3)))
           : nearest);
}

// The explanation of `name`: a group, one entry of a group, a key of the configuration, or an option.
std::string explained_name(const std::vector<Group>& all, const std::string& name, Form form) {
  std::vector<std::string> known;
  std::set<std::string> options;
  std::string text;
  for (const Group& group : all) {
    known.push_back(group.name);
    if (group.name == name) text += title(name, form);
    for (const Entry& entry : group.entries) {
      known.insert(known.end(), entry.names.begin(), entry.names.end());
      for (const OptionText& option : entry.explained.options) options.insert(option.name);
      if (group.name == name || std::count(entry.names.begin(), entry.names.end(), name) > 0) {
        text += (form == Form::text && !text.empty() ? "\n" : "") + written(entry, form);
      }
    }
  }
  // Keys of the configuration that are no section with keys of their own: "augment", "mesh".
  for (const OptionText& option : configuration_explained().options) {
    if (!text.empty() || option.name != name) continue;
    text = written({{name}, {.options = {option}}}, form);
  }
  if (text.empty()) text = explained_option(all, name, form);
  if (text.empty()) {
    known.insert(known.end(), options.begin(), options.end());
    fail_unknown(name, known);
  }
  return text;
}

// What Keras has of the groups `names` that is not in `catalog`, and what to write instead.
std::string absent_text(const Catalog& catalog, const std::vector<std::string>& names,
                        bool markdown) {
  std::string text;
  for (const std::string& group : names) {
    std::string rows;
    for (const Absence& absence : absences()) {
      const std::string kind(absence.kind);
      if (group_of(kind) != group) continue;
      const auto described = catalog.described().find(kind);
      std::string absent;
      std::istringstream words{std::string(absence.names)};
      for (std::string name; words >> name;) {
        if (described != catalog.described().end() && described->second.contains(name)) continue;
        const char* quote = markdown ? "`" : "";
        absent += (absent.empty() ? "" : ", ") + fmt::format("{}{}{}", quote, name, quote);
      }
      if (absent.empty()) continue;
      rows += markdown
                  ? fmt::format("| {} | {} | {} |\n", absent, in_cell(std::string(absence.instead)),
                                absence.counts ? "yes" : "")
                  : fmt::format("  {}\n    {}\n", absent, absence.instead);
    }
    if (rows.empty()) fail("\"{}\" has all names of Keras", group);
    text += markdown ? fmt::format(
                           "**{} of Keras**\n\n| name | instead | missing |\n|---|---|---|\n{}\n",
                           group, rows)
                     : fmt::format("{}{} of Keras\n{}", text.empty() ? "" : "\n", group, rows);
  }
  return text;
}

}  // namespace

std::vector<std::string> reference_names(const CommandLine& line) {
  std::vector<std::string> names;
  for (const Group& group : groups(catalog_of(line))) {
    names.push_back(group.name);
    for (const Entry& entry : group.entries) names.push_back(entry.names.front());
  }
  return names;
}

std::string reference_text(const CommandLine& line, const Communicator*) {
  if (line.absent) {
    std::set<std::string> kinds;
    for (const Absence& absence : absences()) kinds.insert(group_of(std::string(absence.kind)));
    return absent_text(catalog_of(line),
                       line.names.empty() ? std::vector(kinds.begin(), kinds.end()) : line.names,
                       line.markdown);
  }
  const std::vector<Group> all = groups(catalog_of(line));
  const Form form = line.man ? Form::man : line.markdown ? Form::markdown : Form::text;
  std::vector<std::string> names = line.names;
  if (names.empty()) {
    if (form == Form::text) return overview(all);
    for (const Group& group : all) names.push_back(group.name);
  }
  std::string text;
  if (form == Form::man) text = roff_title(5, "sections, classes and options of a configuration");
  for (const std::string& name : names) {
    text += (text.empty() || form != Form::text ? "" : "\n") + explained_name(all, name, form);
  }
  return text + (form == Form::man ? ".SH SEE ALSO\n.BR meshwork (1)\n" : "");
}

}  // namespace meshwork
