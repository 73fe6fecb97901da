// The `main` of tests that need no MPI.
#include "tests/support/session.h"

int main(int argc, char** argv) {
  const int status = meshwork::test::run_session(argc, argv);
  meshwork::test::release_all();
  return status;
}
