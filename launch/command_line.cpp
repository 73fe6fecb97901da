#include "launch/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <utility>

#include "collectives/joined_text.h"
#include "collectives/printable.h"
#include "launch/command_tree.h"
#include "launch/commands.h"
#include "launch/new_configurations.h"
#include "launch/version.h"
#include "runtime/config/nearest.h"
#include "runtime/device/device.h"

namespace meshwork {
namespace {

constexpr const char* program_examples = R"(
Examples:
  meshwork new regression >mine.yaml
  meshwork train configs/fashion_mnist_mlp.yaml
  mpirun -n 8 meshwork train configs/fashion_mnist_mlp.yaml --mesh data=4,model=2
  mpirun -n 4 meshwork train configs/fashion_mnist_mlp.yaml --set optimizer.learning_rate=0.01
  meshwork plan configs/fashion_mnist_mlp.yaml --mesh data=64,model=16
  meshwork reference Adam
  meshwork evaluate configs/fashion_mnist_mlp.yaml --checkpoint checkpoints
  meshwork inspect checkpoints
  mpirun -n 4 meshwork devices

Exit status:
  0    success
  1    failure while running, such as a full disk; damage found by verify; a difference found by diff
  2    wrong configuration, file or command line; damaged data; no checkpoint that fits the run
  3    a rank hung; the watchdog ended the job
  75   shut down cleanly by SIGTERM or SIGUSR1; start it again to continue
  76   trained, but the last state could not be saved
  130  shut down cleanly by SIGINT; a second SIGINT ends it at once

`meshwork COMMAND --help` explains each command, `meshwork reference` every configuration key.)";

constexpr const char* train_examples = R"(
Trains the model, validates it after each epoch and, if the configuration has test data, evaluates
it at the end. Batch sizes are global. A step gives the same results on every mesh, to rounding.
Over thousands of steps rounding makes runs on different meshes drift apart, as another seed would.

Examples:
  meshwork train configs/keras_guide_mlp.yaml
  mpirun -n 8 meshwork train configs/fashion_mnist_mlp.yaml --mesh data=4,model=2
  mpirun -n 2 meshwork train configs/fashion_mnist_mlp.yaml --set fit.epochs=1 --predict test.csv
  mpirun -n 4 meshwork train configs/fashion_mnist_mlp.yaml --dry-run
  mpirun -n 4 meshwork train configs/fashion_mnist_mlp.yaml --set checkpoint.directory=run1 --resume
  mpirun -n 2 meshwork train configs/fashion_mnist_mlp.yaml --weights model.weights.h5)";

constexpr const char* evaluate_examples = R"(
Computes loss and metrics over a set of samples. Weights come from a checkpoint or a weights file
of Keras; without --checkpoint they are the initial ones, made from `seed`.

Examples:
  meshwork evaluate configs/fashion_mnist_mlp.yaml --checkpoint checkpoints
  mpirun -n 4 meshwork evaluate configs/fashion_mnist_mlp.yaml --weights model.weights.h5
  mpirun -n 2 meshwork evaluate configs/fashion_mnist_mlp.yaml --data train)";

constexpr const char* predict_examples = R"(
Writes the model's output for every sample of a set, in the order of the samples. HDF5 files get the
dataset "predictions", CSV files one line per sample. Weights come from a checkpoint or a weights
file of Keras; without --checkpoint they are the initial ones, made from `seed`.

Examples:
  meshwork predict configs/fashion_mnist_mlp.yaml --checkpoint checkpoints --output predictions.h5
  mpirun -n 2 meshwork predict configs/fashion_mnist_mlp.yaml --data train --output predictions.csv)";

constexpr const char* generate_examples = R"(
Generates text token by token with a language model. A model with 256 tokens reads and writes bytes,
so prompt and result are text. Any other model reads and writes token numbers. A seed gives the same
text on every mesh. The data of the configuration are not needed.

A model with causal attention reads each token once and keeps its keys and values. Each rank keeps
those of its heads; `plan --mode predict --rows 1` shows their bytes. Once the text is longer than the
model's input, each new token costs a pass over all places. A model without causal attention always
pays this cost. A note names the tokens that do.

Examples:
  meshwork generate configs/gpt_mini.yaml --checkpoint checkpoints --prompt "A hacker is "
  meshwork generate configs/gpt_mini.yaml --checkpoint checkpoints --prompt "Unix" --temperature 0.8 --top-k 20
  mpirun -n 2 meshwork generate configs/gpt_mini.yaml --checkpoint checkpoints --prompt "Unix" --seed 3)";

constexpr const char* plan_examples = R"(
Shows the model on a mesh: layout, block and bytes of every variable and output, every collective of
a step with its bytes, and the memory of a rank. Needs neither MPI nor the ranks of the mesh.

Examples:
  meshwork plan configs/fashion_mnist_mlp.yaml
  meshwork plan configs/fashion_mnist_mlp.yaml --mesh data=4096,model=16 --rows 65536
  meshwork plan configs/fashion_mnist_mlp.yaml --mesh data=2,model=4 --rank 5 --json
  meshwork plan configs/fashion_mnist_mlp.yaml --mesh data=2,model=4 --layout hidden_1/kernel
  meshwork plan configs/pipeline_mlp.yaml --mesh stage=4,data=1 --svg parts.svg)";

constexpr const char* summary_examples = R"(
Prints the summary that `train` prints before the first step: the layers with their outputs,
parameters and layouts, then mesh, device, data and checkpoints. Trains nothing, and needs no ranks.

Examples:
  meshwork summary configs/fashion_mnist_mlp.yaml
  meshwork summary configs/fashion_mnist_mlp.yaml --mesh data=2,model=4)";

constexpr const char* import_examples = R"(
Writes a checkpoint of the model in CONFIG with weights saved by Keras 3. The optimizer's state comes
along if the file has it and the configuration has the same optimizer. `meshwork train CONFIG
--resume` continues from the checkpoint. Layers are matched by class and order, not by name. (train,
evaluate and predict also read Keras's weights directly, with --weights.)

Examples:
  meshwork import configs/fashion_mnist_mlp.yaml model.weights.h5 --output checkpoints
  meshwork import configs/fashion_mnist_mlp.yaml model.weights.h5 --output start.h5 --weights-only

Exit status: 0; 1 if the checkpoint cannot be written; 2 if the weights do not fit the model or
cannot be read.)";

constexpr const char* devices_examples = R"(
Shows host, device, threads and mesh coordinates of each rank. Without CONFIG and --mesh the mesh is
{data: -1}.

Examples:
  mpirun -n 4 meshwork devices
  mpirun -n 8 meshwork devices --mesh data=2,model=4)";

constexpr const char* reference_examples = R"(
Explains all parts of a configuration: sections, sources of data, layers, losses, metrics,
optimizers, schedules, callbacks, initializers, regularizers and constraints, with their options.

Examples:
  meshwork reference
  meshwork reference Adam
  meshwork reference batch_size
  meshwork reference layers --markdown)";

constexpr const char* test_layer_examples = R"(
Tests the claims that a layer makes about itself. On one rank the test compares its gradients with
finite differences of the loss. On every mesh of 1, 2, ... ranks of the job it spreads the layer in
every legal layout, and compares predictions, loss and gradients with one rank. A layer that
`generate` can run on pieces of a sequence also predicts from pieces, in float32 and in bfloat16, and
is compared with the whole pass. Of more than --layouts layouts a random choice is tested. The report
names letters of the layer's rules that no tested layout split; more layouts or longer samples may
split them. NAME is a layer as a configuration writes it, or a shared library, which --extension names
as well. Without --shape the test uses samples of several shapes.

Examples:
  mpirun -n 4 meshwork test-layer build/mine.so Swish
  mpirun -n 4 meshwork test-layer 'Conv2D: {filters: 3, kernel_size: 3}' --shape 7,5,2
  mpirun -n 4 meshwork test-layer 'Add: {}' --shape 3,7 --shape 3,7 --layouts 1000

Exit status: 0 if the layer passes; 1 if it fails; 2 for an unknown layer, or a shape that the layer
does not take.)";

constexpr const char* new_examples = R"(
Prints a configuration to start from, with a comment on each line. `regression` predicts numbers from
a table, `classification` classes from a table, `images` classes of images in a folder per class, and
`text` classes of texts as token numbers, by attention.

Examples:
  meshwork new regression >mine.yaml
  meshwork train mine.yaml --dry-run)";

constexpr const char* man_examples = R"(
Prints the manual page meshwork(1), with the text of every `--help`. `meshwork reference --man` prints
meshwork(5). `cmake --install` installs both.

Examples:
  meshwork man | man -l -
  meshwork reference --man | man -l -)";

constexpr const char* completion_examples = R"(
Prints a script with which bash or zsh completes commands, options, files and the names of layers,
optimizers and other classes. `cmake --install` installs it for the shells; elsewhere, source it.

Examples:
  source <(meshwork completion bash)
  source <(meshwork completion zsh))";

constexpr std::int64_t most_tokens = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t most_ranks = std::numeric_limits<int>::max();  // as MPI counts them

std::string without_spaces_around(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// "data=2,model=4" as an override of `mesh`.
ConfigOverride mesh_override(const std::string& text) {
  std::string axes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string axis = text.substr(begin, end - begin);
    const std::size_t equals = std::min(axis.find('='), axis.size());
    const std::string name = without_spaces_around(axis.substr(0, equals));
    const std::string size = without_spaces_around(axis.substr(std::min(equals + 1, axis.size())));
    if (name.empty() || size.empty()) {
      throw CLI::ValidationError(
          "--mesh",
          fmt::format("expected AXIS=SIZE,AXIS=SIZE,..., found \"{}\" in \"{}\"", axis, text));
    }
    axes += fmt::format("{}\"{}\": {}", axes.empty() ? "" : ", ", name, size);
    begin = end + 1;
  }
  return {fmt::format("mesh={{{}}}", axes), "--mesh"};
}

void add_overrides(CLI::App& command, CommandLine& line) {
  command
      .add_option_function<std::vector<std::string>>(
          "--set",
          [&line](const std::vector<std::string>& assignments) {
            for (const std::string& assignment : assignments) {
              line.overrides.emplace_back(assignment);
            }
          },
          "Override a value of the configuration: --set fit.epochs=1; may be repeated")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false)
      ->trigger_on_parse();
}

void add_config(CLI::App& command, CommandLine& line, bool required) {
  CLI::Option* config =
      command.add_option("CONFIG", line.config, "The configuration, a YAML file")->type_name("");
  if (required) {
    config->required();
  }
  add_overrides(command, line);
  command
      .add_option_function<std::string>(
          "--mesh",
          [&line](const std::string& text) { line.overrides.push_back(mesh_override(text)); },
          "Mesh axes and their sizes; -1: all remaining ranks")
      ->type_name("AXIS=SIZE,...")
      ->trigger_on_parse();
}

void add_extensions(CLI::App& command, CommandLine& line) {
  command
      .add_option_function<std::vector<std::string>>(
          "--extension",
          [&line](const std::vector<std::string>& files) {
            for (const std::string& file : files) {
              line.extensions.push_back(file);
              line.overrides.emplace_back(fmt::format("extensions[]={:?}", file), "--extension");
            }
          },
          "Shared library with classes of your own; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->trigger_on_parse();
}

void add_model_options(CLI::App& command, CommandLine& line) {
  command
      .add_option_function<std::string>(
          "--seed",
          [&line](const std::string& seed) {  // checked as the configuration's
            line.overrides.emplace_back(fmt::format("seed={}", seed), "--seed");
          },
          "Random seed (weights, dropout, shuffling, synthetic data)")
      ->type_name("NUMBER")
      ->trigger_on_parse();
  add_extensions(command, line);
}

void add_run_options(CLI::App& command, CommandLine& line) {
  command.add_flag("--verbose", line.verbose,
                   "Print the effective configuration and the plan first");
  command.add_flag("--dry-run", line.dry_run,
                   "Check everything, print the effective configuration and the plan, and stop");
  command.add_flag_callback(
      "--check-plan", [&line] { line.overrides.emplace_back("check_plan=true", "--check-plan"); },
      "Compare the traffic of every step with the plan, and stop if they differ");
}

void add_weights(CLI::App& command, const std::string& names, CommandLine& line,
                 const std::string& description) {
  command.add_option(names, line.weights, description)->type_name("FILE");
}

void add_part(CLI::App& command, CommandLine& line) {
  static const std::map<std::string, DataPart> parts{
      {"train", DataPart::train}, {"validation", DataPart::validation}, {"test", DataPart::test}};
  command
      .add_option_function<std::string>(
          "--data", [&line](const std::string& name) { line.part = parts.at(name); },
          "Set of samples: train, validation or test; default: the last of these in the "
          "configuration")
      ->type_name("PART")
      ->check(one_of({"train", "validation", "test"}));
}

void add_output(CLI::App& command, const std::string& option, CommandLine& line,
                const std::string& description) {
  const CLI::Validator known(
      [](std::string& file) -> std::string {
        for (const char* extension : {".h5", ".hdf5", ".csv"}) {
          if (file.ends_with(extension)) {
            return "";
          }
        }
        return "expected a name that ends with .h5, .hdf5 or .csv, found \"" + file + "\"";
      },
      "");
  command.add_option(option, line.output, description)->type_name("FILE")->check(known);
}

// The option that CLI11 begins its text with, and what it is given too little or too much of.
std::string wrong_count(const CLI::App& asked, std::string_view text) {
  const std::string name(text.substr(0, text.find_first_of(": ")));
  for (const CLI::Option* option : asked.get_options()) {
    if (option->get_name() != name && !option->check_lname(name)) continue;
    const std::string value = value_of(*option);
    if (value.empty()) return fmt::format("{} takes no value", option->get_name());
    if (value == name) {
      const std::string several = option->get_type_name();  // "A B" of an argument of two
      return fmt::format("expected {}", several.empty() ? "one " + name : several);
    }
    return text.find("At Most") == std::string_view::npos
               ? fmt::format("{}: {} is missing", name, value)
               : fmt::format("{} is given twice", name);
  }
  return std::string(text);
}

// `unknown option "--mehs"; did you mean "--mesh"?`, and the like. Values that are wrong have been
// told by the checks of their options.
std::string problem_with(CLI::App& program, const CLI::App& asked, const CLI::ParseError& error) {
  // What is left over where no command takes it; values of an unknown option are left over as well.
  std::vector<std::string> left = program.remaining(true);
  std::stable_partition(left.begin(), left.end(),
                        [](const std::string& argument) { return argument.starts_with("-"); });
  std::vector<std::string> known;
  for (const CLI::App* command : commands_of(asked)) {
    known.push_back(command->get_name());
  }
  if (left.empty()) {
    if (&asked == &program) return fmt::format("expected a command: {}", joined_text(known, ", "));
    return dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr
               ? wrong_count(asked, error.what())
               : std::string(error.what());
  }
  const std::string name = left.front().substr(0, left.front().find('='));
  if (!name.starts_with("-")) {
    return known.empty() ? fmt::format("unexpected argument \"{}\"", name)
                         : fmt::format("unknown command \"{}\"{} (known: {})", name,
                                       did_you_mean(name, known), joined_text(known, ", "));
  }
  known.clear();
  for (const CLI::Option* option : asked.get_options()) {
    for (const std::string& long_name : option->get_lnames()) {
      known.push_back("--" + long_name);
    }
  }
  return fmt::format("unknown option \"{}\"{}", name, did_you_mean(name, known));
}

std::string wrong_arguments(const CLI::App& asked, const std::string& problem) {
  const std::string command =
      asked.get_parent() == nullptr ? "meshwork" : fmt::format("meshwork {}", asked.get_name());
  return fmt::format("{}: {}\n`{} --help` lists commands and options.\n", command,
                     in_one_line(problem), command);
}

// The option or argument that was given an empty value; "" for none.
std::string empty_value(const CLI::App& asked) {
  for (const CLI::Option* option : asked.get_options()) {
    const std::vector<std::string> values = option->results();
    if (std::ranges::find(values, "") != values.end()) {
      return fmt::format("{}: expected a {}, found \"\"", option->get_name(), value_of(*option));
    }
  }
  return "";
}

// The options that do not override the configuration.
Settings asked_for(const CLI::App& command, const CommandLine& line) {
  Settings asked{{"command", command.get_name()}};
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool in_configuration =
        name == "CONFIG" || name == "--set" ||
        std::any_of(line.overrides.begin(), line.overrides.end(),
                    [&](const ConfigOverride& change) { return change.origin == name; });
    if (option->count() > 0 && !in_configuration) {
      asked.emplace_back(name, joined_text(option->results(), " "));
    }
  }
  return asked;
}

ParsedCommandLine without_command(int status, const std::string& text) {
  return {std::nullopt, {{"command", "none: " + text.substr(0, text.find('\n'))}}, status, text};
}

}  // namespace

CLI::App* add_command(CLI::App& program, Commands& commands, const char* name, const char* what,
                      const char* examples, Command command) {
  CLI::App* added = program.add_subcommand(name, what);
  added->footer(examples);
  commands[added] = command;
  return added;
}

CLI::Validator one_of(std::vector<std::string> choices) {
  const std::string listed = fmt::format("{{{}}}", joined_text(choices, ","));
  return {[choices = std::move(choices)](std::string& text) -> std::string {
            if (std::ranges::find(choices, text) != choices.end()) return "";
            return fmt::format("expected {}, found \"{}\"{}", joined_text(choices, " or "), text,
                               did_you_mean(text, choices));
          },
          listed};
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return {[least, most](std::string& text) -> std::string {
            std::int64_t number = 0;
            const char* const end = text.data() + text.size();
            const auto [rest, problem] = std::from_chars(text.data(), end, number);
            if (problem == std::errc() && rest == end && least <= number && number <= most)
              return "";
            return fmt::format("expected a whole number from {} to {}, found \"{}\"", least, most,
                               text);
          },
          ""};
}

CLI::Validator number_from(int least) {
  return {
      [least](std::string& text) -> std::string {
        double number = 0;
        // A NaN is not at least anything.
        if (CLI::detail::lexical_cast(text, number) && number >= least && std::isfinite(number)) {
          return "";
        }
        return fmt::format("expected a number of at least {}, found \"{}\"", least, text);
      },
      ""};
}

void add_overwrite(CLI::App& command, CommandLine& line) {
  command.add_flag("--overwrite", line.overwrite,
                   "Replace files of other kinds too, but never one that this run reads");
}

// "5,7".
static Shape read_shape(const std::string& text) {
  Shape shape;
  for (const std::string& length : CLI::detail::split(text, ',')) {
    std::int64_t number = 0;
    if (!CLI::detail::lexical_cast(without_spaces_around(length), number) || number < 1) {
      throw CLI::ValidationError(
          "--shape",
          fmt::format("expected lengths of dimensions, such as 5,7, found \"{}\"", text));
    }
    shape.push_back(number);
  }
  return shape;
}

static void add_test_layer(CLI::App& program, CommandLine& line, Commands& commands) {
  CLI::App* test = add_command(program, commands, "test-layer",
                               "Test a layer's gradients, and its results on meshes",
                               test_layer_examples, test_layer);
  test->add_option("NAME", line.names, "Layers, and shared libraries with layers of your own")
      ->type_name("")
      ->required();
  add_extensions(*test, line);
  test->add_option_function<std::vector<std::string>>(
          "--shape",
          [&line](const std::vector<std::string>& shapes) {
            for (const std::string& shape : shapes) line.shapes.push_back(read_shape(shape));
          },
          "Shape of a sample, without the batch; for several inputs, once per input")
      ->type_name("LENGTH,...")
      ->allow_extra_args(false);
  test->add_option("--layouts", line.layouts,
                   "Largest number of layouts to test per mesh and model")
      ->type_name("NUMBER")
      ->check(whole_number(1, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
  std::vector<std::string> devices = device_kinds();
  devices.insert(devices.begin(), "auto");
  test->add_option("--device", line.device, "Device of each rank")
      ->type_name("DEVICE")
      ->check(one_of(devices))
      ->capture_default_str();
}

static void add_commands(CLI::App& program, CommandLine& line, Commands& commands) {
  program.set_version_flag("--version", version_text(), "Print version, compiler and libraries");
  program.footer(program_examples);
  program.require_subcommand(1);
  program.get_formatter()->column_width(30);

  CLI::App* train =
      add_command(program, commands, "train", "Train a model", train_examples, meshwork::train);
  add_config(*train, line, true);
  add_model_options(*train, line);
  add_run_options(*train, line);
  train->add_flag("--resume", line.resume,
                  "Continue from the newest intact checkpoint in checkpoint.directory, if any");
  add_weights(*train, "--weights", line,
              "Start from these weights: a checkpoint, a directory (its newest one), or Keras's "
              ".weights.h5; a checkpoint found by --resume takes precedence");
  add_output(*train, "--predict", line,
             "After training, write the model's output for the test data, or for the set in "
             "--data: .h5, .hdf5 or .csv");
  add_overwrite(*train, line);
  add_part(*train, line);

  train->add_flag_callback(
      "--profile", [&line] { line.overrides.emplace_back("fit.profile=true", "--profile"); },
      "Print the time of a step at the end, by layer, instruction and kernel");

  CLI::App* evaluate =
      add_command(program, commands, "evaluate", "Compute the loss and the metrics",
                  evaluate_examples, meshwork::evaluate);
  add_config(*evaluate, line, true);
  add_model_options(*evaluate, line);
  add_run_options(*evaluate, line);
  add_weights(*evaluate, "--checkpoint,--weights", line,
              "Weights: a checkpoint, a directory (its newest one), or Keras's .weights.h5");
  add_part(*evaluate, line);

  CLI::App* predict =
      add_command(program, commands, "predict", "Write the model's output for every sample",
                  predict_examples, meshwork::predict);
  add_config(*predict, line, true);
  add_model_options(*predict, line);
  add_run_options(*predict, line);
  add_weights(*predict, "--checkpoint,--weights", line,
              "Weights: a checkpoint, a directory (its newest one), or Keras's .weights.h5");
  add_part(*predict, line);
  add_output(*predict, "--output", line, "Output file: .h5, .hdf5 or .csv");
  predict->get_option("--output")->required();
  add_overwrite(*predict, line);

  CLI::App* generate =
      add_command(program, commands, "generate", "Generate text with a language model",
                  generate_examples, meshwork::generate);
  add_config(*generate, line, true);
  add_model_options(*generate, line);
  add_weights(*generate, "--checkpoint,--weights", line,
              "Weights: a checkpoint, a directory (its newest one), or Keras's .weights.h5");
  generate
      ->add_option("--prompt", line.prompt,
                   "Start of the text: bytes, or token numbers with spaces between them")
      ->type_name("TEXT")
      ->required();
  generate->add_option("--tokens", line.generation.tokens, "Number of tokens to generate")
      ->type_name("NUMBER")
      ->check(whole_number(0, most_tokens))
      ->capture_default_str();
  generate
      ->add_option("--temperature", line.generation.temperature,
                   "Divisor of the scores; 0: take the likeliest token")
      ->type_name("NUMBER")
      ->check(number_from(0))
      ->capture_default_str();
  generate
      ->add_option("--top-k", line.generation.top_k,
                   "Number of likeliest tokens to draw from; 0: all")
      ->type_name("NUMBER")
      ->check(whole_number(0, most_tokens))
      ->capture_default_str();

  static const std::map<std::string, Mode> modes{
      {"train", Mode::train}, {"evaluate", Mode::evaluate}, {"predict", Mode::predict}};
  CLI::App* plan = add_command(program, commands, "plan",
                               "Show layouts, collectives and memory of a model on a mesh",
                               plan_examples, plan_text);
  add_config(*plan, line, true);
  add_model_options(*plan, line);
  plan->add_flag("--json", line.json, "Print JSON");
  plan->add_option("--rank", line.rank, "Show the blocks and collectives of this rank")
      ->type_name("NUMBER")
      ->check(whole_number(0, most_ranks));
  plan->add_option("--ranks", line.ranks, "Number of ranks, for an axis of size -1")
      ->type_name("NUMBER")
      ->check(whole_number(1, most_ranks));
  plan->add_option("--rows", line.rows, "Rows of the global batch; default: data.batch_size")
      ->type_name("NUMBER")
      ->check(whole_number(1, std::numeric_limits<std::int64_t>::max()));
  plan->add_option_function<std::string>(
          "--mode", [&line](const std::string& mode) { line.mode = modes.at(mode); },
          "Step to show: train, evaluate or predict")
      ->type_name("MODE")
      ->check(one_of({"train", "evaluate", "predict"}));
  plan->add_option("--layout", line.picture,
                   "Draw which rank holds which block of this variable, output or input")
      ->type_name("TENSOR");
  plan->add_option("--svg", line.svg,
                   "Draw into this file: the layout with --layout, else the parts of a placed "
                   "model and their messages")
      ->type_name("FILE");
  plan->add_flag("--overwrite", line.overwrite, "With --svg: replace a file of another kind");
  add_part(*plan, line);

  CLI::App* summary = add_command(program, commands, "summary", "Show the model and the run",
                                  summary_examples, summary_text);
  add_config(*summary, line, true);
  add_model_options(*summary, line);
  summary->add_option("--ranks", line.ranks, "Number of ranks, for an axis of size -1")
      ->type_name("NUMBER")
      ->check(whole_number(1, most_ranks));

  CLI::App* devices =
      add_command(program, commands, "devices", "Show host, device and coordinates of each rank",
                  devices_examples, meshwork::devices);
  add_config(*devices, line, false);

  std::vector<std::string> kinds;
  for (const NewConfiguration& configuration : new_configurations()) {
    kinds.push_back(configuration.kind);
  }
  CLI::App* new_one = add_command(program, commands, "new", "Print a configuration to start from",
                                  new_examples, new_text);
  new_one->add_option("KIND", line.names, "Kind of configuration")
      ->type_name("")
      ->required()
      ->expected(1)
      ->check(one_of(kinds));

  CLI::App* reference = add_command(program, commands, "reference",
                                    "Explain sections, classes and options of a configuration",
                                    reference_examples, reference_text);
  reference
      ->add_option(
          "NAME", line.names,
          "A class, such as Adam; a section, such as fit; a group, such as layers; or an option")
      ->type_name("");
  CLI::Option* markdown = reference->add_flag("--markdown", line.markdown, "Print Markdown");
  CLI::Option* manual = reference->add_flag("--man", line.man, "Print a manual page, meshwork(5)")
                            ->excludes(markdown);
  reference
      ->add_flag("--absent", line.absent,
                 "Print the names of Keras that Meshwork lacks, and replacements for them")
      ->excludes(manual);
  add_extensions(*reference, line);

  add_test_layer(program, line, commands);
  add_file_commands(program, line, commands);
  CLI::App* imported =
      add_command(program, commands, "import", "Write Keras's weights as a checkpoint",
                  import_examples, import_weights);
  add_config(*imported, line, true);
  add_model_options(*imported, line);
  imported->add_option("FILE", line.files, "Keras's weights, .weights.h5")
      ->type_name("")
      ->required()
      ->expected(1);
  imported->add_option("--output", line.output, "A directory for checkpoints, or NAME.h5")
      ->type_name("PATH")
      ->required();
  add_overwrite(*imported, line);
  imported->add_flag("--weights-only", line.weights_only, "Leave out the optimizer's state");

  add_command(program, commands, "man", "Print the manual page", man_examples, man_text);
  CLI::App* completion =
      add_command(program, commands, "completion", "Print a script that completes command lines",
                  completion_examples, completion_text);
  completion->add_option("SHELL", line.names, "bash or zsh")
      ->type_name("")
      ->required()
      ->expected(1)
      ->check(one_of({"bash", "zsh"}));
}

CommandTree::CommandTree()
    : program("Meshwork trains neural networks over MPI on any mix of data and model parallelism.",
              "meshwork") {
  add_commands(program, line, commands);
  for (CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    for (CLI::Option* option : command->get_options()) {
      if (value_of(*option).empty()) option->disable_flag_override();
    }
  }
}

std::vector<const CLI::App*> commands_of(const CLI::App& program) {
  return program.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::string value_of(const CLI::Option& option) {
  if (!option.nonpositional()) return option.get_name();
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  // CLI11 tells of the choices of `one_of` behind the type, as "PART:{train,validation,test}".
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  if (begin == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, type.find('}') - begin - 1), ',');
}

ParsedCommandLine parse_command_line(int argc, const char* const* argv) {
  CommandTree tree;
  CLI::App& program = tree.program;
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream problems;
    // Help and the version come as errors with status 0.
    if (program.exit(error, out, problems) == 0) {
      return without_command(0, out.str());
    }
    const CLI::App& asked =
        program.get_subcommands().empty() ? program : *program.get_subcommands().front();
    return without_command(2, wrong_arguments(asked, problem_with(program, asked, error)));
  }
  const CLI::App* const asked = program.get_subcommands().front();
  if (const std::string problem = empty_value(*asked); !problem.empty()) {
    return without_command(2, wrong_arguments(*asked, problem));
  }
  tree.line.command = tree.commands.at(asked);
  return {tree.line, asked_for(*asked, tree.line), 0, ""};
}

}  // namespace meshwork
