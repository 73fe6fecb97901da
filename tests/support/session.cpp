#define CATCH_CONFIG_RUNNER  // 2.x: the implementation is compiled here
#include "tests/support/session.h"

#include <utility>
#include <vector>

#include "tests/support/catch.h"

namespace meshwork::test {

namespace {

std::vector<std::function<void()>>& releases() {
  static std::vector<std::function<void()>> all;
  return all;
}

}  // namespace

void after_tests(std::function<void()> release) {
  releases().push_back(std::move(release));
}

int run_session(int argc, char** argv) {
  Catch::Session session;
  session.configData().rngSeed = 20261;
#if MESHWORK_CATCH_VERSION >= 3
  session.configData().defaultColourMode = Catch::ColourMode::None;
  session.configData().runOrder = Catch::TestRunOrder::Declared;
#else
  session.configData().useColour = Catch::UseColour::No;
#endif
  if (const int status = session.applyCommandLine(argc, argv); status != 0) return status;
  const int status = session.run();
  for (const std::function<void()>& release : releases()) release();
  return status;
}

}  // namespace meshwork::test
