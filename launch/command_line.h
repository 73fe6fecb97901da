// The command line of the `meshwork` program: what was asked for, before anything is done.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "collectives/exchange.h"
#include "runtime/config/load.h"
#include "runtime/graph/lower.h"
#include "runtime/shape/shape.h"
#include "runtime/train/loop/generation.h"
#include "runtime/train/run_config.h"

namespace meshwork {

class Communicator;
class Runtime;
struct CommandLine;
struct Said;

/// What a command does: it runs on the ranks of a job; or it says a text, looks at files as one
/// process, or as all `ranks` together, where those are null for a process alone.
using OnRanks = int (*)(Runtime& runtime, const CommandLine& line);
using Saying = std::string (*)(const CommandLine& line, const Communicator* ranks);
using OnFiles = Said (*)(const CommandLine& line);
using OnFilesTogether = Said (*)(const CommandLine& line, const Communicator* ranks);
using Command = std::variant<OnRanks, Saying, OnFiles, OnFilesTogether>;

struct CommandLine {
  Command command;
  std::string config;
  std::vector<ConfigOverride> overrides;  // --set, --mesh, --seed, --extension, in their order
  std::vector<std::string> extensions;    // shared libraries with classes of the user's own, again
  bool verbose = false;
  bool dry_run = false;
  bool resume = false;  // train: go on from the newest checkpoint
  // train, evaluate, predict: a checkpoint, a directory of them, or weights of Keras
  std::string weights;
  // train: also write predictions; predict, export, import: where to
  std::string output;
  bool overwrite = false;  // train, predict, export, import: also files of other kinds
  // evaluate, predict, plan: which data
  std::optional<DataPart> part;
  // generate
  std::string prompt;
  GenerationOptions generation;
  // plan
  bool json = false;
  std::int64_t rank = 0;
  std::optional<std::int64_t> ranks;
  std::optional<std::int64_t> rows;
  Mode mode = Mode::train;
  std::string picture;  // the path of a tensor
  std::string svg;      // a file for the picture
  // reference: sections, classes or groups of them; test-layer: layers and libraries; new: the
  // kind; completion: the shell
  std::vector<std::string> names;
  // test-layer
  std::vector<Shape> shapes;  // of a sample of each input
  std::string device = "auto";
  std::int64_t layouts = 64;  // of a case on a mesh
  bool markdown = false;
  bool man = false;
  bool absent = false;
  // inspect, verify, diff, export, import; `json` as well
  std::vector<std::string> files;
  bool configuration = false;  // inspect: print it alone
  bool weights_only = false;   // diff, export, import: no optimizer
  double tolerance = 0;        // diff: of the absolute difference of two numbers
};

/// What to do, or how to end at once: `text` goes to standard output if `status` is 0, else to
/// standard error.
struct ParsedCommandLine {
  std::optional<CommandLine> commands;
  /// The command and its options, which all ranks have to be given alike. What they set in the
  /// configuration is not in it: that is compared there, as is the file.
  Settings asked;
  int status = 0;
  std::string text;
};

/// Reads the arguments of the program. Throws nothing: wrong ones give the text that says so, with
/// status 2.
[[nodiscard]] ParsedCommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace meshwork
