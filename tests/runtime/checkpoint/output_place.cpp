// Whether a file can be written at a path, and the writing of a whole one.
#include "runtime/checkpoint/output_place.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "collectives/failed_write.h"
#include "collectives/wrong_input.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/new_file.h"
#include "tests/support/catch.h"

namespace meshwork::output_place_test {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// An empty folder, where the test is.
void begin() {
  fs::remove_all("place");
  fs::create_directories("place/folder");
}

std::string obstacle(const fs::path& file, const fs::path& to_come = {}) {
  return obstacle_to_writing(file, Writing::in_place, to_come);
}

}  // namespace

TEST_CASE("what keeps a file from being written is told by its place alone") {
  begin();
  std::ofstream("place/file") << "text";
  for (const Writing how : {Writing::beside, Writing::in_place}) {
    CHECK(obstacle_to_writing("place/new", how) == "");
    CHECK(obstacle_to_writing("place/file", how) == "");
    CHECK(obstacle_to_writing("new", how) == "");
    CHECK(obstacle_to_writing("", how) == "it is a folder");
    CHECK(obstacle_to_writing("place/folder", how) == "it is a folder");
    CHECK(obstacle_to_writing("place/folder/", how) == "it is a folder");
    CHECK(obstacle_to_writing("place/none/", how) == "it is a folder");
    CHECK(obstacle_to_writing("place/none/x", how) == "there is no folder place/none");
    CHECK(obstacle_to_writing("place/file/x", how) == "Not a directory");
    CHECK(obstacle_to_writing("place/" + std::string(300, 'x'), how) == "File name too long");
  }
  CHECK(fs::exists("place/file"));
  CHECK_FALSE(fs::exists("place/new"));
}

TEST_CASE("a name that is too long only while its file is written beside is told") {
  begin();
  const fs::path file = "place/" + std::string(240, 'x');
  CHECK(obstacle_to_writing(file, Writing::in_place) == "");
  CHECK(obstacle_to_writing(file, Writing::beside) == "File name too long");
}

TEST_CASE("what is in the way of the unfinished file is told") {
  begin();
  fs::create_directories("place/file.meshwork-unfinished");
  CHECK(obstacle_to_writing("place/file", Writing::in_place) == "");
  CHECK(obstacle_to_writing("place/file", Writing::beside) ==
        "place/file.meshwork-unfinished is in the way, and no earlier run left it");
}

TEST_CASE("a log goes through links, to what they name in the end") {
  begin();
  fs::create_symlink("target", "place/link");
  fs::create_symlink("none/target", "place/dangling");
  fs::create_symlink("loop", "place/loop");
  fs::create_symlink("folder", "place/to_folder");
  CHECK(obstacle("place/link") == "");
  CHECK(target_of("place/link") == "place/target");
  CHECK(obstacle("place/dangling") ==
        "it is a link to place/none/target: there is no folder place/none");
  CHECK_THAT(obstacle("place/loop"), Catch::Contains("Too many levels of symbolic links"));
  CHECK(obstacle("place/to_folder") == "it is a link to place/folder: it is a folder");
}

TEST_CASE("nobody waits for a pipe") {
  begin();
  REQUIRE(::mkfifo("place/pipe", 0600) == 0);
  CHECK_THAT(obstacle("place/pipe"), Catch::StartsWith("it is a pipe"));
}

TEST_CASE("a folder that will be made has room for files, and is none itself") {
  begin();
  CHECK(obstacle("place/run/log", "place/run") == "");
  CHECK(obstacle("place/../place/run/log", "./place/run/") == "");
  CHECK(obstacle("place/other/log", "place/run") == "there is no folder place/other");
  CHECK(obstacle("place/run", "place/run") == "it is a folder, that of the checkpoints");
}

TEST_CASE("what the system will never make is a mistake, and no failure that may pass") {
  for (const auto& make : {+[] { const MadeFile file("/proc/no_file"); },
                           +[] { prepare_directory("/proc/no_directory"); }}) {
    try {
      make();
      FAIL("it is said to be made");
    } catch (const WrongInput& error) {
      CHECK_THAT(error.what(), Catch::StartsWith("/proc/no_file: cannot be created: ") ||
                                   Catch::Contains("/proc/no_directory: cannot be made: "));
    }
  }
}

TEST_CASE("a whole file is written, or what was there stays") {
  begin();
  write_whole("place/file", "<svg>1");
  CHECK(content_of("place/file") == "<svg>1");
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  struct rlimit few = before;
  few.rlim_cur = 3;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &few) == 0);
  try {
    write_whole("place/file", "<svg>2");
    ::setrlimit(RLIMIT_FSIZE, &before);
    FAIL("it is said to be written");
  } catch (const FailedWrite& failure) {
    ::setrlimit(RLIMIT_FSIZE, &before);
    CHECK(std::string(failure.what()) == "place/file: cannot be written: File too large");
  }
  CHECK(content_of("place/file") == "<svg>1");
  CHECK_FALSE(fs::exists(name_while_writing("place/file")));
}

}  // namespace meshwork::output_place_test
