// Runs the test cases of this executable, those of several source files. Apart from `main`, so that
// Catch2's implementation, which is slow to compile in its 2.x generation, is compiled once for all
// tests.
#pragma once

#include <functional>
#include <string>

namespace meshwork::test {

/// Runs the test cases of the source files `files` ("transport,shared"), or, where that is empty,
/// what the command line selects. Returns the exit status. Test cases run in a folder named after
/// their file, with `suffix`, in the one that the process was started in. The order of the tests and
/// the seed of random generators are the same in every process, unless the command line asks
/// otherwise; output has no colours, since most of it goes to files. May be called again.
int run_session(int argc, char** argv, const std::string& files = "",
                const std::string& suffix = "");

/// `release` is called when the tests have been run. What is made before `main`, or once for all
/// tests, and has to be given back before libraries end: a device, a transport.
void after_tests(std::function<void()> release);

/// Calls what `after_tests` was given.
void release_all();

}  // namespace meshwork::test
