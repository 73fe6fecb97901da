// The `main` of tests that need no MPI.
#include "tests/support/session.h"

int main(int argc, char** argv) {
  return meshwork::test::run_session(argc, argv);
}
