// The commands that look at files, where a checkpoint carries a configuration that is none.
#include "launch/checkpoint_files.h"

#include <filesystem>
#include <string>

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

}  // namespace meshwork::checkpoint_files_test
