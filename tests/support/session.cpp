#define CATCH_CONFIG_RUNNER  // 2.x: the implementation is compiled here
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "tests/support/session.h"

#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

namespace meshwork::test {

namespace {

namespace fs = std::filesystem;

std::vector<std::function<void()>>& releases() {
  static std::vector<std::function<void()>> all;
  return all;
}

std::string folder_suffix;

#if MESHWORK_CATCH_VERSION >= 3
using SessionListenerBase = Catch::EventListenerBase;
#else
using SessionListenerBase = Catch::TestEventListenerBase;
#endif

class EnterFolder : public SessionListenerBase {
 public:
  using SessionListenerBase::SessionListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    const fs::path folder = started_in_ / fs::path(test.lineInfo.file).stem().concat(folder_suffix);
    fs::create_directories(folder);
    fs::current_path(folder);
    SessionListenerBase::testCaseStarting(test);
  }
  void testRunEnded(const Catch::TestRunStats& stats) override {
    fs::current_path(started_in_);
    SessionListenerBase::testRunEnded(stats);
  }

 private:
  fs::path started_in_ = fs::current_path();
};

CATCH_REGISTER_LISTENER(EnterFolder)

/// "transport,shared" as Catch2 selects source files, without what runs by hand alone:
/// "[#transport]~[.],[#shared]~[.]".
std::string selection(const std::string& files) {
  std::istringstream names(files);
  std::string tags;
  for (std::string name; std::getline(names, name, ',');) {
    tags += (tags.empty() ? "[#" : ",[#") + name + "]~[.]";
  }
  return tags;
}

}  // namespace

void after_tests(std::function<void()> release) {
  releases().push_back(std::move(release));
}

void release_all() {
  for (const std::function<void()>& release : releases()) release();
}

int run_session(int argc, char** argv, const std::string& files, const std::string& suffix) {
  static Catch::Session session;  // Catch2 allows one
  folder_suffix = suffix;
  Catch::ConfigData config;
  config.rngSeed = 20261;
#if MESHWORK_CATCH_VERSION >= 3
  config.defaultColourMode = Catch::ColourMode::None;
  config.runOrder = Catch::TestRunOrder::Declared;
#else
  config.useColour = Catch::UseColour::No;
#endif
  if (!files.empty()) {
    config.filenamesAsTags = true;
    config.testsOrTags = {selection(files)};
  }
  session.useConfigData(config);
  if (const int status = session.applyCommandLine(argc, argv); status != 0) return status;
  return session.run();
}

}  // namespace meshwork::test
