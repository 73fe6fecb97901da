// Runs the test cases of this executable. Apart from `main`, so that Catch2's implementation, which
// is slow to compile in its 2.x generation, is compiled once for all tests.
#pragma once

#include <functional>

namespace meshwork::test {

/// Runs what the command line selects and returns the exit status. The order of the tests and the
/// seed of random generators are the same in every process, unless the command line asks otherwise;
/// output has no colours, since most of it goes to files.
int run_session(int argc, char** argv);

/// `release` is called when the tests have been run. What is made before `main`, or once for all
/// tests, and has to be given back before libraries end: a device, a transport.
void after_tests(std::function<void()> release);

}  // namespace meshwork::test
