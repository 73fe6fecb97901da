// The commands that look at files, where a checkpoint carries a configuration that is none.
#include "launch/checkpoint_files.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "runtime/checkpoint/new_file.h"
#include "runtime/checkpoint/writer.h"
#include "tests/support/catch.h"

namespace meshwork::checkpoint_files_test {
namespace {

void write(const std::string& file, const std::string& configuration) {
  CheckpointState state;
  state.configuration = configuration;
  const std::vector<float> values{1, 2, 3};
  const std::vector<TensorPart> parts{
      {{TensorKind::variable, "d1/bias", "", -1, true, {3}, "[~]", 0}, {{0, 3}}, values.data()}};
  (void)write_checkpoint(Communicator::self(), file, state, parts, {CheckpointWriter::plain});
}

}  // namespace

TEST_CASE("a mistake in the configuration that a checkpoint carries has the checkpoint's name") {
  write("right.h5", "seed: 1\n");
  write("wrong.h5", "seed: 1\nfit: {epochs: 2\n");
  CommandLine line;
  line.files = {"wrong.h5"};
  CHECK_THAT(inspect(line).text,
             Catch::Contains("\n  wrong.h5: configuration:2:6: not valid YAML"));
  for (const char* other : {"right.h5", "wrong.h5"}) {
    line.files = {other, "wrong.h5"};
    CHECK_THROWS_WITH(diff(line), Catch::StartsWith("wrong.h5: configuration:2:6: not valid YAML"));
  }
}

TEST_CASE("an export that is stopped leaves nothing behind") {
  namespace fs = std::filesystem;
  constexpr int variables = 64;
  const std::vector<float> values(1 << 16, 1.0F);
  CheckpointState state;
  std::vector<TensorPart> parts;
  for (int i = 0; i < variables; ++i) {
    const std::string name = fmt::format("d{}/bias", i);
    state.keras_places.push_back({name, fmt::format("layers/dense_{}/vars/0", i)});
    parts.push_back({{TensorKind::variable, name, "", -1, true, {1 << 16}, "[~]", 0},
                     {{0, 1 << 16}},
                     values.data()});
  }
  (void)write_checkpoint(Communicator::self(), "large.h5", state, parts, {CheckpointWriter::plain});
  CommandLine line;
  line.command = OnFiles(export_weights);
  line.files = {"large.h5"};
  line.output = "stopped.weights.h5";
  fs::remove(line.output);
  const fs::path unfinished_one = name_while_writing(line.output);
  std::thread stops([&] {
    while (!fs::exists(unfinished_one)) std::this_thread::yield();
    ::kill(::getpid(), SIGTERM);
  });
  const int status = run_on_files(line, nullptr);
  stops.join();
  CHECK(status == 75);
  CHECK_FALSE(fs::exists(line.output));
  CHECK_FALSE(fs::exists(unfinished_one));
  CHECK_FALSE(fs::exists(".stopped.weights.h5.meshwork-lock"));
}

}  // namespace meshwork::checkpoint_files_test
