// JSONLogger: what stands in the file, line by line, also of a run that goes on.
#include "runtime/train/callbacks/json_logger.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "tests/runtime/train/scripted_training.h"
#include "tests/support/catch.h"

namespace meshwork::json_logger_test {
namespace {

using namespace meshwork::test;

const std::filesystem::path file = "json_logger_test.jsonl";

std::vector<std::string> lines() {
  std::ifstream input(file);
  std::vector<std::string> all;
  for (std::string line; std::getline(input, line);) all.push_back(line);
  return all;
}

// The parts of a line that no clock decides.
std::string without_times(const std::string& line) {
  return std::regex_replace(line, std::regex(", \"(samples_per_second|seconds)\": [0-9.e+-]+"), "");
}

}  // namespace

TEST_CASE("an epoch is an object, with all digits and the learning rate") {
  std::filesystem::remove(file);
  ScriptedTraining training({"loss"}, {JSONLogger({.file = file})});
  training.run({{{"loss", 0.1}}, {{"loss", 1.0 / 3}}, {{"loss", std::nan("")}}});
  const std::vector<std::string> all = lines();
  REQUIRE(all.size() == 3);
  CHECK_THAT(without_times(all[0]), Catch::StartsWith("{\"epoch\": 0, \"step\": ") &&
                                        Catch::Contains(", \"loss\": 0.1, ") &&
                                        Catch::Contains("\"learning_rate\": ") &&
                                        Catch::EndsWith("}"));
  CHECK_THAT(all[0], Catch::Contains("\"seconds\": "));
  CHECK_THAT(all[1], Catch::StartsWith("{\"epoch\": 1, ") &&
                         Catch::Contains("\"loss\": 0.3333333333333333,"));
  CHECK_THAT(all[2], Catch::Contains("\"loss\": \"nan\","));
  std::filesystem::remove(file);
}

TEST_CASE("a run that goes on drops the epochs that are trained again, and half a line") {
  std::ofstream(file) << "{\"epoch\": 0, \"loss\": 1}\n{\"epoch\": 1, \"loss\": 2}\n"
                         "{\"epoch\": 2, \"loss\": 3}\n{\"epoch\": 3, \"lo";
  const SharedCallback logger = JSONLogger({.file = file});
  logger->load(logger->save());
  ScriptedTraining training({"loss"}, {logger});
  training.run({{{"loss", 5}}, {{"loss", 6}}}, 2);
  const std::vector<std::string> all = lines();
  REQUIRE(all.size() == 4);
  CHECK(all[1] == "{\"epoch\": 1, \"loss\": 2}");
  CHECK_THAT(all[2], Catch::StartsWith("{\"epoch\": 2, ") && Catch::Contains("\"loss\": 5,"));
  CHECK_THAT(all[3], Catch::StartsWith("{\"epoch\": 3, ") && Catch::Contains("\"loss\": 6,"));
  std::filesystem::remove(file);
}

TEST_CASE("a file that is there is replaced by a run that begins, and others write nothing") {
  std::ofstream(file) << "{\"epoch\": 0, \"loss\": 1}\n";
  ScriptedTraining training({"loss"}, {JSONLogger({.file = file})});
  training.run({{{"loss", 4}}});
  REQUIRE(lines().size() == 1);
  CHECK_THAT(lines()[0], Catch::Contains("\"loss\": 4,"));
  training.root = false;
  training.run({{{"loss", 7}}});
  CHECK_THAT(lines()[0], Catch::Contains("\"loss\": 4,"));
  std::filesystem::remove(file);
}

TEST_CASE("a file that cannot be written is told before the run") {
  CHECK_THROWS_WITH(JSONLogger({}), Catch::Contains("JSONLogger: there is no file name"));
  CHECK_THROWS_WITH(JSONLogger({.file = "nowhere/x.jsonl"})->check({}),
                    "JSONLogger: nowhere/x.jsonl cannot be written: there is no folder nowhere");
  CHECK(JSONLogger({.file = file})->writes() == file);
}

}  // namespace meshwork::json_logger_test
