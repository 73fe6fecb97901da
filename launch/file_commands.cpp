#include "launch/file_commands.h"

#include "launch/checkpoint_files.h"

namespace meshwork {
namespace {

constexpr const char* inspect_examples = R"(
Prints the contents of a checkpoint: variables with shapes, layouts and slots, progress of the run,
mesh, history, callbacks, and the main points of the configuration. For a directory, it lists all
checkpoints and prints the newest readable one. For Keras's weights, it lists the arrays.

Examples:
  meshwork inspect checkpoints
  meshwork inspect checkpoints/step-000001200.h5 --json
  meshwork inspect checkpoints --configuration > again.yaml

Exit status: 0; 2 if the file cannot be read.)";

constexpr const char* verify_examples = R"(
Reads every region of the checkpoints, compares it with its checksum, and prints the damaged arrays
and regions. A directory stands for all its checkpoints. Several ranks share the work.

Examples:
  meshwork verify checkpoints
  meshwork verify run1/step-000000100.h5 run2
  mpirun -n 8 meshwork verify checkpoints

Exit status: 0 if everything is intact; 1 if something is damaged or is no checkpoint; 2 if a file
does not exist, or a directory has no checkpoints.)";

constexpr const char* diff_examples = R"(
Compares two checkpoints, or a checkpoint with Keras's weights, array by array. Two checkpoints are
equal if variables, slots, kept weights, step, epoch, learning rate, history and callbacks are equal.
Differences of mesh, device, program and configuration are only noted.

Examples:
  meshwork diff checkpoints/step-000001200.h5 checkpoints/step-000002400.h5
  meshwork diff run_on_1_rank run_on_8_ranks --tolerance 1e-5
  meshwork diff checkpoints model.weights.h5 --weights-only

Exit status, as diff's: 0 equal; 1 different; 2 if one cannot be read.)";

constexpr const char* export_examples = R"(
Writes a checkpoint's weights and optimizer state in Keras 3's format, for
`model.load_weights("model.weights.h5")` in Keras. Layers are matched by class and order, not by
name: build the same model in the same order on either side.

Examples:
  meshwork export checkpoints --keras model.weights.h5
  meshwork export checkpoints/step-000001200.h5 --keras model.weights.h5 --weights-only

Exit status: 0; 1 if the disk is full; 2 if a file cannot be read, or the output cannot be written.)";

}  // namespace

void add_file_commands(CLI::App& program, CommandLine& line, Commands& commands) {
  CLI::App* inspect = add_command(program, commands, "inspect", "Show the contents of a checkpoint",
                                  inspect_examples, meshwork::inspect);
  inspect->add_option("FILE", line.files, "A checkpoint, a directory of them, or Keras's weights")
      ->type_name("")
      ->required()
      ->expected(1);
  inspect->add_flag("--json", line.json, "Print JSON");
  inspect->add_flag("--configuration", line.configuration,
                    "Print only the configuration in the checkpoint");

  CLI::App* verify =
      add_command(program, commands, "verify", "Compare checkpoints with their checksums",
                  verify_examples, meshwork::verify);
  verify->add_option("FILE", line.files, "Checkpoints, or directories of them")
      ->type_name("")
      ->required();

  CLI::App* diff = add_command(program, commands, "diff", "Show the differences of two checkpoints",
                               diff_examples, meshwork::diff);
  diff->add_option("FILES", line.files, "Two checkpoints, directories of them, or Keras's weights")
      ->type_name("A B")
      ->required()
      ->expected(2);
  diff->add_option("--tolerance", line.tolerance,
                   "Largest absolute difference between equal numbers; default 0")
      ->type_name("NUMBER")
      ->check(number_from(0));
  diff->add_flag("--weights-only", line.weights_only, "Compare only the variables");

  CLI::App* exported =
      add_command(program, commands, "export", "Write a checkpoint as Keras's weights",
                  export_examples, export_weights);
  exported->add_option("FILE", line.files, "A checkpoint, or a directory of them")
      ->type_name("")
      ->required()
      ->expected(1);
  exported->add_option("--keras", line.output, "Output file; its name ends with .weights.h5")
      ->type_name("FILE")
      ->required();
  add_overwrite(*exported, line);
  exported->add_flag("--weights-only", line.weights_only, "Leave out the optimizer's state");
}

}  // namespace meshwork
