// NewFile: one run at a time writes an output, and takes nothing that is not its own.
#include "runtime/checkpoint/new_file.h"

#include <unistd.h>

#include <fstream>
#include <iterator>

#include "collectives/failed_write.h"
#include "tests/support/catch.h"

namespace meshwork::new_file_test {
namespace {

namespace fs = std::filesystem;

// In an empty folder.
const fs::path output = "new_file/output";
const fs::path temporary = "new_file/output.meshwork-unfinished";
const fs::path lock = "new_file/.output.meshwork-lock";

void begin() {
  fs::remove_all("new_file");
  fs::create_directories("new_file");
}

void write(const fs::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

std::string content_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// What is said of a failure that may pass.
template <class Action>
std::string failure(const Action& action) {
  try {
    action();
  } catch (const FailedWrite& failed) {
    return failed.what();
  }
  return "";
}

std::ptrdiff_t files() {
  return std::distance(fs::directory_iterator("new_file"), fs::directory_iterator());
}

}  // namespace

TEST_CASE("a second run is told who writes the output, and the first one's file stays") {
  begin();
  {
    NewFile first(output);
    write(first.temporary(), "first");
    CHECK(first.temporary() == temporary);
    CHECK_THAT(failure([] { const NewFile second(output); }),
               Catch::StartsWith(fmt::format("new_file/output: is being written by another run, "
                                             "process {} on ",
                                             ::getpid())));
    CHECK(content_of(temporary) == "first");
    first.give_name();
  }
  CHECK(content_of(output) == "first");
  CHECK(files() == 1);
  { const NewFile next(output); }
  CHECK(content_of(output) == "first");
  CHECK(files() == 1);
}

TEST_CASE("a file that another has put there gets no name of ours, and stays") {
  begin();
  {
    NewFile ours(output);
    fs::remove(temporary);
    write(temporary, "another's");
    CHECK_THAT(failure([&] { ours.give_name(); }),
               Catch::StartsWith("new_file/output: is not written"));
  }
  CHECK_FALSE(fs::exists(output));
  CHECK(content_of(temporary) == "another's");
  CHECK_FALSE(fs::exists(lock));
}

TEST_CASE("a file that somebody makes meanwhile keeps its name, and nothing is lost") {
  begin();
  const bool replaced = GENERATE(false, true);
  if (replaced) write(output, "before");
  {
    NewFile ours(output);
    write(ours.temporary(), "ours");
    write("new_file/other", "another's");
    fs::rename("new_file/other", output);
    CHECK_THAT(failure([&] { ours.give_name(); }),
               Catch::StartsWith("new_file/output: another program has created this file") &&
                   Catch::Contains(temporary.string()));
  }
  CHECK(content_of(output) == "another's");
  CHECK(content_of(temporary) == "ours");
}

TEST_CASE("a file that was there, or has gone meanwhile, is replaced") {
  begin();
  write(output, "before");
  const bool gone = GENERATE(false, true);
  {
    NewFile ours(output);
    write(ours.temporary(), "ours");
    if (gone) fs::remove(output);
    ours.give_name();
  }
  CHECK(content_of(output) == "ours");
  CHECK(files() == 1);
}

TEST_CASE("a folder has one lock by all its names") {
  begin();
  fs::create_directories("new_file/folder");
  fs::create_directory_symlink("folder", "new_file/link");
  const OutputLock first("new_file/folder");
  for (const char* name : {"new_file/folder/", "new_file/folder/.", "new_file/link"}) {
    CHECK_THAT(failure([&] { const OutputLock second(name); }),
               Catch::Contains("is being written by another run"));
  }
}

TEST_CASE("what a killed run has left is replaced: the file, and its lock") {
  begin();
  write(lock, "process 1 on node3");
  write(temporary, GENERATE(as<std::string>(), "", "half", std::string(300, '\0')));
  {
    NewFile file(output);
    CHECK(content_of(temporary).empty());
    write(temporary, "whole");
    file.give_name();
  }
  CHECK(content_of(output) == "whole");
  CHECK(files() == 1);
}

TEST_CASE("what is no unfinished file, or no lock, is in the way") {
  begin();
  write("new_file/precious", "precious");
  SECTION("a link") {
    fs::create_symlink("precious", temporary);
    CHECK_THROWS_WITH(NewFile(output),
                      Catch::Contains("output.meshwork-unfinished: is in the way"));
    CHECK(fs::is_symlink(temporary));
  }
  SECTION("a folder") {
    fs::create_directories(temporary);
    CHECK_THROWS_WITH(NewFile(output),
                      Catch::Contains("output.meshwork-unfinished: is in the way"));
  }
  SECTION("a text for the lock") {
    write(lock, "precious");
    CHECK_THROWS_WITH(NewFile(output), Catch::Contains(".output.meshwork-lock: is in the way"));
    CHECK(content_of(lock) == "precious");
  }
  SECTION("a file that only ends otherwise is nobody's business") {
    write("new_file/output.tmp", "");
    NewFile(output).give_name();
    CHECK(fs::exists("new_file/output.tmp"));
  }
  CHECK(content_of("new_file/precious") == "precious");
}

}  // namespace meshwork::new_file_test
