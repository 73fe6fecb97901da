// meshwork inspect: what is in a checkpoint, or in a file of Keras's weights.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <concepts>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <system_error>
#include <variant>
#include <vector>

#include "collectives/element_type.h"
#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "collectives/path_text.h"
#include "collectives/printable.h"
#include "launch/checkpoint_files.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/fields.h"
#include "runtime/checkpoint/keras_weights.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/config/load.h"
#include "runtime/config/text_table.h"
#include "runtime/graph/plan_report.h"
#include "runtime/train/state/saved_run.h"
#include "runtime/train/state/weights.h"

namespace meshwork {
namespace {

// The last epochs of a history that are shown as text.
constexpr std::size_t shown_epochs = 10;

std::int64_t bytes_of(const Shape& shape) {
  return element_count(shape) * float32_bytes;
}

std::string value_text(const std::variant<double, std::string>& value) {
  return std::holds_alternative<double>(value)
             ? fmt::format("{}", std::get<double>(value))
             : fmt::format("\"{}\"", std::get<std::string>(value));
}

// Slots by the path of their variable.
std::map<std::string, std::vector<std::string>> slots_of(const CheckpointReader& reader) {
  std::map<std::string, std::vector<std::string>> slots;
  for (const CheckpointTensor& tensor : reader.tensors()) {
    if (tensor.kind == TensorKind::slot) {
      slots[tensor.path].push_back(tensor.slot);
    }
  }
  return slots;
}

struct Sizes {
  std::int64_t variables = 0;  // bytes
  std::int64_t slots = 0;
  std::int64_t kept = 0;
  std::int64_t parameters = 0;  // elements of variables
  std::int64_t trained = 0;
  std::int64_t count = 0;  // variables
};

Sizes sizes_of(const CheckpointReader& reader) {
  Sizes sizes;
  for (const CheckpointTensor& tensor : reader.tensors()) {
    const std::int64_t bytes = bytes_of(tensor.shape);
    if (tensor.kind == TensorKind::slot) {
      sizes.slots += bytes;
    } else if (tensor.kind == TensorKind::kept) {
      sizes.kept += bytes;
    } else {
      sizes.variables += bytes;
      sizes.parameters += bytes / 4;
      sizes.trained += tensor.trainable ? bytes / 4 : 0;
      ++sizes.count;
    }
  }
  return sizes;
}

// ---- as text ------------------------------------------------------------------------------------

std::string standing(const CheckpointState& state) {
  if (state.epochs == 0) {
    return fmt::format("step {}; no run has begun", state.step);
  }
  std::string text =
      fmt::format("step {}, {} of {} epochs done", state.step, state.epoch, state.epochs);
  if (state.batch > 0) {
    text += fmt::format(", then {} of {} batches ({} samples)", state.batch, state.steps_per_epoch,
                        state.samples);
  }
  return text + (state.stopped ? "; ended by a callback" : "");
}

// The variables as a tree of their paths.
std::string variable_tree(const CheckpointReader& reader) {
  const std::map<std::string, std::vector<std::string>> slots = slots_of(reader);
  TextTable table({"variable", "shape", "type", "layout", "size", "slots"}, {4});
  std::vector<std::string> open;  // the groups that the last variable was in
  for (const CheckpointTensor& tensor : reader.tensors()) {
    if (tensor.kind != TensorKind::variable) {
      continue;
    }
    std::vector<std::string> parts;
    std::istringstream path(tensor.path);
    for (std::string part; std::getline(path, part, '/');) parts.push_back(part);
    const std::vector<std::string> groups(parts.begin(), parts.end() - 1);
    std::size_t same = 0;
    while (same < groups.size() && same < open.size() && groups[same] == open[same]) {
      ++same;
    }
    for (std::size_t depth = same; depth < groups.size(); ++depth) {
      table.add({std::string(2 * depth, ' ') + groups[depth], "", "", "", "", ""});
    }
    open = groups;
    const auto own = slots.find(tensor.path);
    table.add({std::string(2 * groups.size(), ' ') + parts.back(), to_string(tensor.shape),
               "float32", tensor.layout, readable_bytes(bytes_of(tensor.shape)),
               !tensor.trainable    ? "not trained"
               : own == slots.end() ? ""
                                    : joined_text(own->second, ", ")});
  }
  return table.text(2, text_width(STDOUT_FILENO));
}

std::string history_table(const CheckpointState& state) {
  std::vector<std::string> heading{"epoch"};
  for (const auto& [log, values] : state.history) {
    heading.push_back(log);
  }
  std::vector<std::size_t> numbers;
  for (std::size_t c = 0; c < heading.size(); ++c) {
    numbers.push_back(c);
  }
  TextTable table(heading, numbers);
  const std::size_t epochs = state.history_epochs.size();
  for (std::size_t e = epochs - std::min(epochs, shown_epochs); e < epochs; ++e) {
    std::vector<std::string> row{std::to_string(state.history_epochs[e] + 1)};
    for (const auto& [log, values] : state.history) {
      // A log that not every epoch has is not told by epoch.
      row.push_back(values.size() == epochs ? fmt::format("{:.6g}", values[e]) : "");
    }
    table.add(std::move(row));
  }
  return (epochs > shown_epochs ? fmt::format("  the last {} of {} epochs\n", shown_epochs, epochs)
                                : std::string()) +
         table.text(2, text_width(STDOUT_FILENO));
}

// `text` with one space for every stretch of spaces and ends of lines.
std::string on_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    if (c != ' ' && c != '\n') {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

// What a configuration, which messages call `title`, says of the main things, a line each.
std::string main_points(const std::string& configuration, const std::string& title) {
  std::string text;
  try {
    const ConfigNode document = parse_config(configuration, title);
    const auto add = [&](const char* name, const std::string& value) {
      text += wrapped(fmt::format("  {:<10} {}\n", name, value), text_width(STDOUT_FILENO));
    };
    if (const auto model = document.find("model")) {
      std::vector<std::string> layers;
      if (const auto list = model->find("layers")) {
        for (const ConfigNode& layer : list->elements()) {
          layers.push_back(layer.single_entry("a layer").name);
        }
      }
      add("model", joined_text(layers, ", "));
    }
    for (const char* name : {"mesh", "layout", "batch_axis", "loss", "optimizer", "metrics"}) {
      if (const auto node = document.find(name)) {
        add(name, on_one_line(to_yaml(*node)));
      }
    }
  } catch (const Error& error) {
    return fmt::format("  {}\n", error.what());
  }
  return text;
}

// What of several kernels the run takes.
std::string kernels_of(const KernelRecord& record) {
  return record.platform.empty() ? "fixed"
                                 : fmt::format("timed for {}, {} specifications", record.platform,
                                               record.chosen.size());
}

std::string text_of(const CheckpointReader& reader) {
  const CheckpointState& state = reader.state();
  const Sizes sizes = sizes_of(reader);
  std::string text = reader.file().string() + '\n';
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) {
      text += wrapped(fmt::format("  {:<10} {}\n", name, value), text_width(STDOUT_FILENO));
    }
  };
  add("written", fmt::format("{} by {}, {}; format {}", state.created, state.program, state.writer,
                             reader.format_version()));
  add("size", fmt::format("{}: variables {}, slots {}{}", readable_bytes(reader.bytes()),
                          readable_bytes(sizes.variables), readable_bytes(sizes.slots),
                          sizes.kept > 0 ? ", kept by callbacks " + readable_bytes(sizes.kept)
                                         : std::string()));
  add("stands at", standing(state));
  add("mesh", state.mesh);
  add("device", state.device);
  add("precision", state.precision);
  add("kernels", kernels_of(state.kernels));
  if (state.data_rows > 0) {
    add("data", fmt::format("{}; {} samples in batches of {}{}", in_one_line(state.data),
                            state.data_rows, state.batch_size, state.shuffle ? ", shuffled" : ""));
  }
  add("seed", std::to_string(state.seed));
  if (!state.optimizer.empty()) {
    add("optimizer", fmt::format("{}, learning rate {}{}", state.optimizer, state.learning_rate,
                                 state.constant_rate ? "" : " by " + state.schedule));
  }
  for (const CallbackRecord& record : state.callbacks) {
    std::string about;
    std::vector<std::string> values;
    for (const auto& [name, value] : record.state) {
      if (name == subject_key) {
        about = " of " + std::get<std::string>(value);
      } else {
        values.push_back(fmt::format("{} {}", name, value_text(value)));
      }
    }
    add("callback",
        fmt::format("{}{}{}{}{}", record.class_name, about, values.empty() ? "" : ": ",
                    joined_text(values, ", "), record.keeps_weights ? "; keeps weights" : ""));
  }
  text += fmt::format("\n{} variables, {} parameters, {} of them trained\n{}", sizes.count,
                      sizes.parameters, sizes.trained, variable_tree(reader));
  if (!state.history_epochs.empty()) {
    text += "\nhistory\n" + history_table(state);
  }
  if (!state.configuration.empty()) {
    text += "\nconfiguration (all of it with --configuration)\n" +
            main_points(state.configuration, reader.file().string() + ": configuration");
  }
  return text;
}

std::string text_of(const CheckpointListing& listing, const std::string& directory) {
  std::string text = fmt::format("{}: {} checkpoint{}\n", directory, listing.checkpoints.size(),
                                 listing.checkpoints.size() == 1 ? "" : "s");
  TextTable table({"file", "step", "epochs", "size", ""}, {1, 2, 3});
  for (const FoundCheckpoint& found : listing.checkpoints) {
    std::error_code problem;
    const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(found.file, problem));
    table.add({found.file.filename().string(), std::to_string(found.step),
               found.readable() ? std::to_string(found.epoch) : "?",
               problem ? "?" : readable_bytes(bytes),
               found.damage.empty() ? found.refusal : "DAMAGED: " + found.damage});
  }
  for (const std::filesystem::path& file : listing.unfinished) {
    table.add({file.filename().string(), "", "", "", "not finished; never read"});
  }
  return text + table.text(2, text_width(STDOUT_FILENO)) + '\n';
}

// ---- as JSON ------------------------------------------------------------------------------------

template <class Values, class ToJson>
std::string json_list(const Values& values, const ToJson& to_json) {
  std::string text;
  for (const auto& value : values) {
    text += (text.empty() ? "" : ", ") + to_json(value);
  }
  return "[" + text + "]";
}

std::string json_shape(const Shape& shape) {
  return json_list(shape, [](std::int64_t length) { return std::to_string(length); });
}

std::string json_tensor(const CheckpointTensor& tensor, const CheckpointState& state) {
  std::string text = fmt::format(
      R"({{"name": {}, "path": {}, "shape": {}, "dtype": "float32", "layout": {}, "trainable": {}, )"
      R"("bytes": {})",
      json_text(name_of(tensor, state.callbacks)), json_text(tensor.path), json_shape(tensor.shape),
      json_text(tensor.layout), tensor.trainable, bytes_of(tensor.shape));
  if (!tensor.slot.empty()) {
    text += ", \"slot\": " + json_text(tensor.slot);
  }
  if (tensor.callback >= 0) {
    text += fmt::format(", \"callback\": {}", tensor.callback);
  }
  return text + "}";
}

std::string json_callback(const CallbackRecord& record) {
  std::string values;
  for (const auto& [name, value] : record.state) {
    values += fmt::format("{}{}: {}", values.empty() ? "" : ", ", json_text(name),
                          std::holds_alternative<double>(value)
                              ? json_number(std::get<double>(value))
                              : json_text(std::get<std::string>(value)));
  }
  return fmt::format(R"({{"class": {}, "state": {{{}}}, "keeps_weights": {}}})",
                     json_text(record.class_name), values, record.keeps_weights);
}

std::string json_kernels(const KernelRecord& record) {
  std::string chosen;
  for (const auto& [key, name] : record.chosen) {
    chosen += fmt::format("{}{}: {}", chosen.empty() ? "" : ", ", json_text(key), json_text(name));
  }
  return fmt::format(R"({{"platform": {}, "chosen": {{{}}}}})", json_text(record.platform), chosen);
}

// Lists fields (fields.h), but those of which something better is said.
struct JsonFields {
  void operator()(const char* name, const std::string& text) { add(name, json_text(text)); }
  void operator()(const char* name, double number) { add(name, json_number(number)); }
  template <std::integral Number>
  void operator()(const char* name, Number number) {
    add(name, fmt::format("{}", number));
  }
  void dataset(const char* name, const std::string& text) { (*this)(name, text); }
  void dataset(const char* name, const std::vector<std::string>& texts) {
    add(name, json_list(texts, json_text));
  }
  void dataset(const char* name, const std::vector<double>& numbers) {
    add(name, json_list(numbers, json_number));
  }
  template <class Pairs>
  void columns(const char*, const char*, const Pairs&) {}
  void add(const char* name, const std::string& value) {
    json += fmt::format("{}  \"{}\": {}", json.empty() ? "\n" : ",\n", name, value);
  }

  std::string json;
};

std::string json_of(const CheckpointReader& reader) {
  const CheckpointState& state = reader.state();
  JsonFields field;
  field("file", reader.file().string());
  field("bytes", reader.bytes());
  field("format_version", reader.format_version());
  describe_file(state, field);
  describe_state(state, field);
  const auto add = [&](const char* name, const std::string& json) { field.add(name, json); };
  add("kernels", json_kernels(state.kernels));
  add("tensors", json_list(reader.tensors(), [&](const CheckpointTensor& tensor) {
        return "\n    " + json_tensor(tensor, state);
      }));
  add("callbacks", json_list(state.callbacks, json_callback));
  std::string history = fmt::format(
      "\"epoch\": {}",
      json_list(state.history_epochs, [](std::int64_t epoch) { return std::to_string(epoch); }));
  for (const auto& [log, values] : state.history) {
    history += fmt::format(", {}: {}", json_text(log), json_list(values, json_number));
  }
  add("history", "{" + history + "}");
  return "{" + field.json + "\n}\n";
}

std::string json_of(const CheckpointListing& listing) {
  return json_list(listing.checkpoints, [](const FoundCheckpoint& found) {
    return fmt::format(R"({{"file": {}, "step": {}, "epoch": {}, "damage": {}, "refusal": {}}})",
                       json_text(found.file.string()), found.step, found.epoch,
                       json_text(found.damage), json_text(found.refusal));
  });
}

// ---- Keras --------------------------------------------------------------------------------------

std::string text_of(const KerasWeightsReader& reader) {
  TextTable table({"array", "shape"});
  for (const KerasArray& array : reader.arrays()) {
    table.add({array.place, to_string(array.shape)});
  }
  return fmt::format("{}: weights of Keras, {} arrays\n{}", reader.file(), reader.arrays().size(),
                     table.text(2, text_width(STDOUT_FILENO)));
}

std::string json_of(const KerasWeightsReader& reader) {
  return fmt::format("{{\n  \"file\": {},\n  \"arrays\": {}\n}}\n",
                     json_text(reader.file().string()),
                     json_list(reader.arrays(), [](const KerasArray& array) {
                       return fmt::format("\n    {{\"place\": {}, \"shape\": {}}}",
                                          json_text(array.place), json_shape(array.shape));
                     }));
}

}  // namespace

Said inspect(const CommandLine& line) {
  const std::string& path = line.files.front();
  const std::filesystem::path file = [&] {
    // Of a directory whose newest cannot be read, the list is worth seeing, and the newest whole
    // one.
    std::error_code problem;
    if (std::filesystem::is_directory(path, problem)) {
      for (const FoundCheckpoint& found : list_checkpoints(path, "").checkpoints) {
        if (found.readable()) {
          return found.file;
        }
      }
    }
    return weights_file(path);
  }();
  if (file == path && !is_checkpoint_file(file)) {
    const KerasWeightsReader reader(file);
    return {0, line.json ? json_of(reader) : text_of(reader), ""};
  }
  const CheckpointReader reader(file);
  if (line.configuration) {
    if (reader.state().configuration.empty()) {
      fail("{}: contains no configuration: it was written from C++", reader.file());
    }
    return {0, reader.state().configuration, ""};
  }
  if (file == path) {
    return {0, line.json ? json_of(reader) : text_of(reader), ""};
  }
  const CheckpointListing listing = list_checkpoints(path, "");
  if (line.json) {
    return {0,
            fmt::format("{{\"directory\": {}, \"checkpoints\": {}, \"newest\": {}}}\n",
                        json_text(path), json_of(listing), json_of(reader)),
            ""};
  }
  Said said{0, text_of(listing, path) + text_of(reader), ""};
  constexpr std::string_view damaged = "DAMAGED: ";
  for (std::size_t at = said.text.find(damaged); at != std::string::npos;
       at = said.text.find(damaged, at + 1)) {
    said.colours.try_emplace(at, damaged.size(), Colour::red);
  }
  return said;
}

}  // namespace meshwork
