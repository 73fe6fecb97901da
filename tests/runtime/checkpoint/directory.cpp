#include "runtime/checkpoint/directory.h"

#include "runtime/checkpoint/new_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "collectives/failed_write.h"
#include "runtime/checkpoint/directory_lock.h"
#include "tests/support/catch.h"

namespace meshwork::directory_test {

namespace {

std::vector<std::int64_t> steps_of(const std::vector<FoundCheckpoint>& checkpoints) {
  std::vector<std::int64_t> steps;
  for (const FoundCheckpoint& checkpoint : checkpoints) steps.push_back(checkpoint.step);
  return steps;
}

}  // namespace

TEST_CASE("names carry the step, in an order that a listing shows") {
  CHECK(checkpoint_name(1200) == "step-000001200.h5");
  CHECK(step_in_name("step-000001200.h5") == 1200);
  CHECK(step_in_name(checkpoint_name(12345678901)) == 12345678901);
  for (const char* name : {"step-.h5", "step-12.h5.meshwork-unfinished", "step-12", "step-x.h5",
                           "best.h5", "step--1.h5", "step-99999999999999999999.h5"}) {
    CHECK_FALSE(step_in_name(name).has_value());
  }
}

TEST_CASE("the newest stay, and the best one") {
  const std::vector<FoundCheckpoint> all{
      {"e", 50, 5, "", 0.9}, {"d", 40, 4, "", 0.3}, {"c", 30, 3, "", std::nullopt},
      {"b", 20, 2, "", 0.2}, {"a", 10, 1, "", 0.2}, {"x", 60, 0, "damaged", std::nullopt}};
  CHECK(steps_of(superfluous(all, 2, true)) == std::vector<std::int64_t>{30, 20});
  CHECK(steps_of(superfluous(all, 2, false)) == std::vector<std::int64_t>{30, 20, 10});
  CHECK(steps_of(superfluous(all, 5, true)).empty());
  CHECK(steps_of(superfluous(all, 1, true)) == std::vector<std::int64_t>{40, 30, 20});
}

TEST_CASE("a directory that is not there has no checkpoints, one that cannot be made is an error") {
  CHECK(list_checkpoints("nowhere/at/all", "").checkpoints.empty());
  CHECK_THROWS_WITH(prepare_directory("/proc/nothing"), Catch::Contains("/proc/nothing"));
}

TEST_CASE("a directory that checkpoints cannot be in is found without making anything") {
  namespace fs = std::filesystem;
  fs::remove_all("checked");
  fs::create_directories("checked/there");
  std::ofstream("checked/file").flush();
  fs::create_symlink("loop", "checked/loop");
  fs::create_symlink("nowhere", "checked/dangling");
  const std::string long_name(300, 'x');
  const auto flaw = [](const fs::path& directory) {
    try {
      check_directory(directory);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const char* name : {"checked/there", "checked/there/", "checked/new", "checked/new/below/",
                           "checked/there/../new", ".", "new"}) {
    CHECK(flaw(name) == "");
  }
  CHECK(flaw("checked/file") == "checkpoint directory checked/file: is no directory");
  CHECK(flaw("checked/file/below") ==
        "checkpoint directory checked/file/below: checked/file is no directory");
  CHECK_THAT(flaw("checked/loop/below"), Catch::EndsWith(std::strerror(ELOOP)));
  CHECK_THAT(flaw("checked/dangling"), Catch::Contains("checked/dangling is a symbolic link to") &&
                                           Catch::EndsWith(std::strerror(ENOENT)));
  CHECK_THAT(flaw("checked/there/" + long_name), Catch::EndsWith(std::strerror(ENAMETOOLONG)));
  CHECK_THAT(flaw("checked/new/" + long_name), Catch::EndsWith(std::strerror(ENAMETOOLONG)));
  // Root may go everywhere; somebody else may not.
  if (::geteuid() == 0) {
    fs::create_directories("checked/sealed/below");
    fs::permissions("checked/sealed", fs::perms::owner_all);
    REQUIRE(::seteuid(65534) == 0);
    const std::string sealed = flaw("checked/sealed/below");
    REQUIRE(::seteuid(0) == 0);
    CHECK_THAT(sealed, Catch::Contains("checked/sealed/below: cannot be reached") &&
                           Catch::EndsWith(std::strerror(EACCES)));
  }
  CHECK_FALSE(fs::exists("checked/new"));
}

TEST_CASE("of what cannot be removed the system's reason is told, and not that it is somebody's") {
  namespace fs = std::filesystem;
  if (::geteuid() != 0) return;  // root makes what somebody else may not touch
  fs::remove_all("owned");
  fs::create_directories("owned");
  fs::permissions("owned", fs::perms::all);
  fs::create_directories("owned/kept");
  std::ofstream("owned/kept/a.meshwork-unfinished") << "\x89HDF\r\n\x1a\n and more";
  fs::create_symlink("kept", "owned/other.meshwork-unfinished");
  const auto flaw = [](const char* name) {
    try {
      const MadeFile made(name);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  REQUIRE(::seteuid(65534) == 0);
  const std::string kept = flaw("owned/kept/a.meshwork-unfinished"),
                    other = flaw("owned/other.meshwork-unfinished");
  REQUIRE(::seteuid(0) == 0);
  CHECK(kept ==
        fmt::format("owned/kept/a.meshwork-unfinished: is in the way and cannot be removed: {}",
                    std::strerror(EACCES)));
  CHECK_THAT(other, Catch::Contains("no earlier run left it"));
}

TEST_CASE("what a killed run had not finished is removed, and nothing else") {
  namespace fs = std::filesystem;
  fs::remove_all("unfinished");
  fs::create_directories("unfinished/step-000000004.h5.meshwork-unfinished");
  std::ofstream("unfinished/step-000000001.h5.meshwork-unfinished").flush();
  std::ofstream("unfinished/step-000000002.h5.meshwork-unfinished") << "\x89HDF\r\n\x1a\n and more";
  std::ofstream("unfinished/step-000000003.h5.meshwork-unfinished") << std::string(100, '\0');
  std::ofstream("unfinished/step-000000005.h5.meshwork-unfinished") << "somebody's notes";
  fs::create_symlink("step-000000002.h5.meshwork-unfinished",
                     "unfinished/step-000000006.h5.meshwork-unfinished");
  std::ofstream("unfinished/notes.h5.meshwork-unfinished").flush();
  const CheckpointListing listing = list_checkpoints("unfinished", "");
  REQUIRE(listing.unfinished.size() == 6);
  std::string kept;
  for (const fs::path& file : listing.unfinished) {
    if (!remove_unfinished(file)) kept += file.filename().string().substr(13, 1);
  }
  CHECK(kept == "46");
  CHECK(list_checkpoints("unfinished", "").unfinished.size() == 2);
  CHECK(fs::exists("unfinished/notes.h5.meshwork-unfinished"));
}

TEST_CASE("a directory belongs to one run at a time, and is free when that ends") {
  std::filesystem::remove_all("taken");
  std::filesystem::create_directories("taken");
  {
    const DirectoryLock first("taken", std::chrono::seconds(0));
    CHECK(first.held());
    CHECK_THROWS_WITH(
        DirectoryLock("taken", std::chrono::seconds(0)),
        Catch::Contains("checkpoint directory taken belongs to another run, process "));
    CHECK_THROWS_AS(DirectoryLock("taken", std::chrono::seconds(0)), FailedWrite);
  }
  CHECK(DirectoryLock("taken", std::chrono::seconds(0)).held());
}

TEST_CASE("a file that is no lock is an error, and stays as it is") {
  std::filesystem::remove_all("others");
  std::filesystem::create_directories("others");
  const auto refused = [] {
    CHECK_THROWS_WITH(DirectoryLock("others", std::chrono::seconds(0)),
                      Catch::Contains("others/.lock: is in the way"));
  };
  std::ofstream("others/.lock") << "precious";
  refused();
  std::string text;
  std::ifstream("others/.lock") >> text;
  CHECK(text == "precious");
  std::filesystem::remove("others/.lock");
  REQUIRE(::mkfifo("others/.lock", 0600) == 0);
  refused();
}

TEST_CASE("a lock that is a symbolic link is an error, and its target stays as it is") {
  std::filesystem::remove_all("linked");
  std::filesystem::create_directories("linked");
  std::ofstream("precious") << "precious";
  std::filesystem::create_symlink("../precious", "linked/.lock");
  CHECK_THROWS_WITH(DirectoryLock("linked", std::chrono::seconds(0)),
                    Catch::Contains("linked/.lock") && Catch::Contains("symbolic link"));
  std::string text;
  std::ifstream("precious") >> text;
  CHECK(text == "precious");
}

TEST_CASE("a lock of another user's says that it is one, and what ends the waiting") {
  namespace fs = std::filesystem;
  if (::geteuid() != 0) return;  // root makes what somebody else may not open
  fs::remove_all("shared");
  fs::create_directories("shared");
  fs::permissions("shared", fs::perms::all);
  std::ofstream("shared/.lock") << "process 1 on node3";
  REQUIRE(::seteuid(65534) == 0);
  std::string said;
  try {
    const DirectoryLock lock("shared", std::chrono::seconds(0));
  } catch (const Error& error) {
    said = error.what();
  }
  REQUIRE(::seteuid(0) == 0);
  CHECK_THAT(said,
             Catch::StartsWith("shared/.lock: is the lock of a run of another user (number 0)") &&
                 Catch::Contains("have the file removed"));
}

}  // namespace meshwork::directory_test
