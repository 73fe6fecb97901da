#include "runtime/train/engine/kernels_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <fstream>
#include <sstream>

#include "collectives/error.h"
#include "tests/support/catch.h"

namespace meshwork::kernels_file_test {

namespace {

namespace fs = std::filesystem;

const KernelRecords some = {
    {"here", {.platform = "here", .chosen = {{"matmul 1x2x3", "one"}, {"matmul 4x5x6", "two"}}}},
    {"there", {.platform = "there", .chosen = {{"matmul 1x2x3", "a \"b\" \\ c: #"}}}}};

fs::path with_text(const std::string& name, const std::string& text) {
  std::ofstream(name) << text;
  return name;
}

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// So many names are in the folder of the tests.
std::ptrdiff_t names_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), {});
}

}  // namespace

TEST_CASE("records come back from a file as they were written") {
  write_kernel_records("records.yaml", some);
  CHECK(read_kernel_records("records.yaml") == some);
}

TEST_CASE("a file that is not there, or in which nothing stands, holds no records") {
  CHECK(read_kernel_records("nowhere.yaml").empty());
  CHECK(read_kernel_records("no/folder/nowhere.yaml").empty());
  CHECK(read_kernel_records(with_text("empty.yaml", "")).empty());
  CHECK(read_kernel_records(with_text("comments.yaml", "# one\n\n# two\n")).empty());
}

TEST_CASE("a name with a line end or a tab is an error at its place") {
  const auto refused = [](const std::string& text, const std::string& place) {
    INFO(text);
    CHECK_THROWS_WITH(
        read_kernel_records(with_text("names.yaml", text)),
        Catch::StartsWith("names.yaml:" + place + ": ") && Catch::Contains("name on one line"));
  };
  refused("\"here\":\n  \"matmul 32x16x32 bias\": \"gemm\\n\"\n", "2:27");
  refused("\"here\":\n  \"matmul 32x16x32\\tbias\": \"gemm\"\n", "2:3");
  refused("\"here\\n\":\n  \"matmul 32x16x32 bias\": \"gemm\"\n", "1:1");
  refused("\"here\":\n  \"matmul 32x16x32 bias\": |\n    gemm\n", "2:27");
}

TEST_CASE("what is no map of records is an error at its place") {
  CHECK_THROWS_WITH(read_kernel_records(with_text("list.yaml", "- here\n")),
                    Catch::StartsWith("list.yaml:1:1: "));
  CHECK_THROWS_WITH(read_kernel_records(with_text("text.yaml", "here: there\n")),
                    Catch::StartsWith("text.yaml:1:7: "));
}

TEST_CASE("a pipe, a directory or a device is an error, and nobody waits for it") {
  fs::remove("pipe");
  REQUIRE(::mkfifo("pipe", 0600) == 0);
  CHECK_THROWS_WITH(read_kernel_records("pipe"),
                    Catch::Contains("file pipe is a pipe or a device; expected a regular file"));
  CHECK_THROWS_WITH(read_kernel_records("/dev/null"), Catch::Contains("a device"));
  fs::create_directory("folder");
  CHECK_THROWS_WITH(read_kernel_records("folder"), Catch::Contains("folder is a directory"));
}

TEST_CASE("a name that cannot be looked up is an error that says why") {
  fs::remove("circle");
  fs::create_symlink("circle", "circle");
  CHECK_THROWS_AS(read_kernel_records("circle"), Error);
  CHECK_THROWS_WITH(read_kernel_records("circle"),
                    Catch::Contains("file circle cannot be read: Too many levels"));
}

TEST_CASE("a symbolic link stays one: what it names is written, there or not yet") {
  fs::remove_all("links");
  fs::create_directories("links/target");
  fs::create_symlink("second.yaml", "links/first.yaml");
  fs::create_symlink("target/records.yaml", "links/second.yaml");
  for (int time = 0; time < 2; ++time) {
    require_writable("links/first.yaml");
    write_kernel_records("links/first.yaml", some);
    CHECK(fs::is_symlink("links/first.yaml"));
    CHECK(fs::is_symlink("links/second.yaml"));
    CHECK(fs::is_regular_file(fs::symlink_status("links/target/records.yaml")));
    CHECK(read_kernel_records("links/first.yaml") == some);
    CHECK(names_in("links") == 3);
    CHECK(names_in("links/target") == 1);
  }
}

TEST_CASE("a link that others have put where the file is written first is not followed") {
  fs::remove_all("planted");
  fs::create_directory("planted");
  const fs::path victim = with_text("planted/victim", "precious\n");
  std::array<char, HOST_NAME_MAX + 1> host{};
  REQUIRE(::gethostname(host.data(), host.size() - 1) == 0);
  const std::string aside = fmt::format("planted/k.yaml.{}.{}", host.data(), ::getpid());
  fs::create_symlink("victim", aside);
  require_writable("planted/k.yaml");
  fs::create_symlink("victim", aside);
  write_kernel_records("planted/k.yaml", some);
  CHECK(text_of(victim) == "precious\n");
  CHECK(read_kernel_records("planted/k.yaml") == some);
  CHECK(names_in("planted") == 2);
}

TEST_CASE("to try whether a file could be written leaves everything as it is") {
  fs::remove_all("tried");
  fs::create_directory("tried");
  require_writable("tried/new.yaml");
  CHECK(names_in("tried") == 0);
  require_writable(with_text("tried/old.yaml", "# mine\n"));
  CHECK(names_in("tried") == 1);
  CHECK(text_of("tried/old.yaml") == "# mine\n");
  CHECK_THROWS_WITH(require_writable("no/folder/new.yaml"),
                    Catch::Contains("file no/folder/new.yaml cannot be written: No such file"));
}

TEST_CASE("a file keeps its permissions") {
  fs::permissions(with_text("shared.yaml", ""), fs::perms(0664));
  write_kernel_records("shared.yaml", some);
  CHECK(fs::status("shared.yaml").permissions() == fs::perms(0664));
}

}  // namespace meshwork::kernels_file_test
