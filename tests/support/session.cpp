#define CATCH_CONFIG_RUNNER  // 2.x: the implementation is compiled here
#include "tests/support/session.h"

#include "tests/support/catch.h"

namespace meshwork::test {

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
  return session.run();
}

}  // namespace meshwork::test
