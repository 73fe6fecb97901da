// Configurations that are wrong in ways nobody thought of: the examples, mutated, through all that
// `meshwork plan` does. Each either gives a plan or an Error on one line, soon.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "launch/commands.h"
#include "launch/session.h"
#include "tests/support/catch.h"
#include "tests/support/mutate.h"

namespace meshwork::fuzz_test {
namespace {

std::vector<std::string> examples() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(MESHWORK_SOURCE_DIR "/configs")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> texts;
  for (const auto& file : files) {
    std::ifstream stream(file);
    texts.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return texts;
}

// Whether there was a plan.
bool try_plan(const std::string& text) {
  std::ofstream("mutated.yaml", std::ios::binary) << text;
  CommandLine line;
  line.config = "mutated.yaml";
  std::vector<std::string> warnings;
  try {
    const std::string shown = plan(read_run(line), line, 1, warnings);
    CHECK(!shown.empty());
    return true;
  } catch (const Error& error) {
    CHECK(std::string(error.what()).size() > 0);
    return false;
  }
}

}  // namespace

TEST_CASE("mutated configurations give a plan or an error, soon") {
  const std::vector<std::string> texts = examples();
  REQUIRE(texts.size() >= 6);
  test::Mutator mutator(20240229);
  int planned = 0;
  constexpr int count = 3000;
  for (int i = 0; i < count; ++i) {
    const std::string text = mutator.mutate(texts[static_cast<std::size_t>(i) % texts.size()]);
    std::ofstream("last.yaml", std::ios::binary) << text;  // to look at after a crash
    const auto start = std::chrono::steady_clock::now();
    planned += try_plan(text) ? 1 : 0;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    INFO(text);
    CHECK(seconds.count() < 5);
  }
  // Neither way is so rare that nothing was tried.
  CHECK(planned > count / 50);
  CHECK(planned < count - count / 50);
}

}  // namespace meshwork::fuzz_test
