// Files of predictions, read back.
#include "launch/predictions.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "runtime/data/hdf5.h"
#include "tests/support/catch.h"

namespace meshwork::predictions_test {

namespace {

std::string text_of(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Three samples of two numbers, in two batches.
void write(const std::string& name) {
  std::filesystem::remove(name);  // of an earlier run
  const auto file = make_prediction_file(name, 3, {{"d", {2}}});
  file->write(0, std::vector<std::vector<float>>{{1, 0.1f, -2.5f, 1e-20f}});
  file->write(2, std::vector<std::vector<float>>{{16777216, 0}});
  CHECK(!std::filesystem::exists(name));
  file->finish();
}

}  // namespace

TEST_CASE("a CSV file has a line of names and one for each sample, with all digits") {
  write("predictions.csv");
  CHECK(text_of("predictions.csv") == "output_0,output_1\n1,0.1\n-2.5,1e-20\n16777216,0\n");
  CHECK(!std::filesystem::exists("predictions.csv.meshwork-unfinished"));
}

TEST_CASE("an HDF5 file has the data set \"predictions\"") {
  write("predictions.h5");
  const Hdf5Source source({{"outputs", {"predictions.h5", "/predictions"}}});
  CHECK(source.rows() == 3);
  CHECK(source.field(0).shape == Shape{2});
  std::vector<float> values(6);
  source.read(0, std::vector<std::int64_t>{0, 1, 2}, {{0, 2}}, values.data());
  CHECK(values == std::vector<float>{1, 0.1f, -2.5f, 1e-20f, 16777216, 0});
}

TEST_CASE("several outputs are columns one behind the other, and data sets of their own") {
  const std::vector<PredictedOutput> outputs{{"head/price", {}}, {"kind, \"b\"", {2}}};
  for (const std::string name : {"several.csv", "several.h5"}) {
    std::filesystem::remove(name);
    const auto file = make_prediction_file(name, 3, outputs);
    file->write(0, std::vector<std::vector<float>>{{1, 2}, {3, 4, 5, 6}});
    file->write(2, std::vector<std::vector<float>>{{7}, {8, 9}});
    file->finish();
  }
  CHECK(text_of("several.csv") ==
        "output_head/price_0,\"output_kind, \"\"b\"\"_0\",\"output_kind, \"\"b\"\"_1\"\n"
        "1,3,4\n2,5,6\n7,8,9\n");
  const Hdf5Source source({{"price", {"several.h5", "/predictions/head/price"}},
                           {"kind", {"several.h5", "/predictions/kind, \"b\""}}});
  CHECK(source.rows() == 3);
  CHECK(source.field(0).shape.empty());
  std::vector<float> values(6);
  source.read(1, std::vector<std::int64_t>{0, 1, 2}, {{0, 2}}, values.data());
  CHECK(values == std::vector<float>{3, 4, 5, 6, 8, 9});
}

TEST_CASE("a file that cannot be made, or would be of no known kind, is an error that names it") {
  CHECK_THROWS_WITH(make_prediction_file("nowhere/a.csv", 1, {{"d", {2}}}),
                    Catch::Contains("nowhere/a.csv"));
  CHECK_THROWS_WITH(make_prediction_file("nowhere/a.h5", 1, {{"d", {2}}}),
                    Catch::Contains("nowhere/a.h5"));
  CHECK_THROWS_WITH(make_prediction_file("a.txt", 1, {{"d", {2}}}), Catch::Contains(".csv"));
}

TEST_CASE("a directory of the file's name is found before anything is predicted") {
  for (const std::string name : {"folder.csv", "folder.h5"}) {
    std::filesystem::create_directories(name);
    CHECK_THROWS_WITH(make_prediction_file(name, 1, {{"d", {2}}}),
                      Catch::Contains(name + ": predictions cannot be written: it is a folder"));
    CHECK(!std::filesystem::exists(name + ".meshwork-unfinished"));
  }
}

TEST_CASE("a NaN is written without a sign") {
  std::filesystem::remove("nan.csv");
  const auto file = make_prediction_file("nan.csv", 1, {{"d", {2}}});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  file->write(0, std::vector<std::vector<float>>{{nan, -nan}});
  file->finish();
  CHECK(text_of("nan.csv") == "output_0,output_1\nnan,nan\n");
}

TEST_CASE("a file that grows no further gives one line with the system's reason") {
  const auto file = make_prediction_file("large.h5", 100000, {{"d", {4}}});
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 4096;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string message;
  try {
    file->write(0, std::vector<std::vector<float>>(1, std::vector<float>(400000, 1.0f)));
  } catch (const Error& error) {
    message = error.what();
  }
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  INFO(message);
  CHECK(message.starts_with("large.h5: cannot be written: "));
  CHECK(message.ends_with("File too large"));
  CHECK(message.find('\n') == std::string::npos);
}

}  // namespace meshwork::predictions_test
