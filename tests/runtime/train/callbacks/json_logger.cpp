// JSONLogger: what stands in the file, line by line, also of a run that goes on.
#include "runtime/train/callbacks/json_logger.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "collectives/failed_write.h"
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
  ScriptedTraining training({"loss"}, {JSONLogger({.filename = file})});
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
  const SharedCallback logger = JSONLogger({.filename = file});
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

TEST_CASE("a run that goes on keeps a whole line that somebody has left without its end") {
  std::ofstream(file) << "{\"epoch\": 0, \"loss\": 1}\n{\"epoch\": 1, \"loss\": 2}";
  const SharedCallback logger = JSONLogger({.filename = file});
  logger->load(logger->save());
  ScriptedTraining training({"loss"}, {logger});
  training.run({{{"loss", 5}}}, 2);
  const std::vector<std::string> all = lines();
  REQUIRE(all.size() == 3);
  CHECK(all[1] == "{\"epoch\": 1, \"loss\": 2}");
  CHECK_THAT(all[2], Catch::StartsWith("{\"epoch\": 2, "));
  std::filesystem::remove(file);
}

TEST_CASE("that the file was taken away, or another put in its place, is told once") {
  struct Elsewhere final : Callback {
    Elsewhere(bool replaces, int epoch) : replaces_(replaces), epoch_(epoch) {}
    std::string class_name() const override { return "Elsewhere"; }
    void on_epoch_end(Training& training) override {
      if (training.position().epoch != epoch_) return;
      std::filesystem::rename(file, "moved.jsonl");
      if (replaces_) std::ofstream(file) << "another's";
    }
    bool replaces_;
    int epoch_;
  };
  const bool replaces = GENERATE(false, true);
  const int epoch = GENERATE(0, 2);  // the last one's line is written by then
  ScriptedTraining training(
      {"loss"}, {JSONLogger({.filename = file}), std::make_shared<Elsewhere>(replaces, epoch)});
  training.run({{{"loss", 1}}, {{"loss", 2}}, {{"loss", 3}}});
  REQUIRE(training.said.size() == 1);
  CHECK_THAT(training.said[0],
             Catch::StartsWith("WARNING: JSONLogger: another program has removed, renamed or "
                               "replaced json_logger_test.jsonl"));
  CHECK(lines() == (replaces ? std::vector<std::string>{"another's"} : std::vector<std::string>()));
  std::filesystem::rename("moved.jsonl", file);
  CHECK(lines().size() == 3);
  std::filesystem::remove(file);
}

TEST_CASE("lines that belong stay, also behind one of an epoch that is trained again") {
  std::ofstream(file) << "{\"epoch\": 7, \"loss\": 1}\n{\"epoch\": 0, \"loss\": 2}\nno epoch\n"
                         "{\"epoch\": 9, \"loss\": 3}\n{\"epoch\": 1, \"loss\": 4}\n";
  const SharedCallback logger = JSONLogger({.filename = file});
  logger->load(logger->save());
  ScriptedTraining training({"loss"}, {logger});
  training.run({{{"loss", 5}}}, 2);
  const std::vector<std::string> all = lines();
  REQUIRE(all.size() == 4);
  CHECK(all[0] == "{\"epoch\": 0, \"loss\": 2}");
  CHECK(all[1] == "no epoch");
  CHECK(all[2] == "{\"epoch\": 1, \"loss\": 4}");
  CHECK_THAT(all[3], Catch::StartsWith("{\"epoch\": 2, "));
  std::filesystem::remove(file);
}

TEST_CASE("a long log is gone through line by line") {
  {
    std::ofstream log(file);
    for (int epoch = 0; epoch < 60; ++epoch) {
      log << "{\"epoch\": " << epoch << ", \"text\": \"" << std::string(1 << 20, 'x') << "\"}\n";
    }
  }
  const SharedCallback logger = JSONLogger({.filename = file});
  logger->load(logger->save());
  ScriptedTraining training({"loss"}, {logger});
  struct rusage before {
  }, after{};
  ::getrusage(RUSAGE_SELF, &before);
  training.run({{{"loss", 5}}}, 59);
  ::getrusage(RUSAGE_SELF, &after);
  CHECK(after.ru_maxrss - before.ru_maxrss < 20'000);  // KiB, of 60 MiB
  CHECK(lines().size() == 60);
  std::filesystem::remove(file);
}

TEST_CASE("a second run is refused while the first writes, and changes nothing") {
  std::filesystem::remove(file);
  struct Second final : Callback {
    std::string class_name() const override { return "Second"; }
    void on_epoch_end(Training&) override {
      const SharedCallback goes_on = JSONLogger({.filename = file});
      goes_on->load(goes_on->save());
      for (const SharedCallback& logger : {JSONLogger({.filename = file}), goes_on}) {
        ScriptedTraining second({"loss"}, {logger});
        try {
          second.run({{{"loss", 9}}});
          FAIL("two runs write one log");
        } catch (const FailedWrite& failure) {
          CHECK(std::string(failure.what()) ==
                "JSONLogger: json_logger_test.jsonl is being written by another run");
        }
      }
    }
  };
  ScriptedTraining training({"loss"}, {JSONLogger({.filename = file}), std::make_shared<Second>()});
  training.run({{{"loss", 1}}, {{"loss", 2}}});
  REQUIRE(lines().size() == 2);
  CHECK_THAT(lines()[1], Catch::StartsWith("{\"epoch\": 1, "));
  ScriptedTraining next({"loss"}, {JSONLogger({.filename = file})});
  next.run({{{"loss", 1}}});
  CHECK(lines().size() == 1);
  std::filesystem::remove(file);
}

TEST_CASE("a file that is there is replaced by a run that begins, and others write nothing") {
  std::ofstream(file) << "{\"epoch\": 0, \"loss\": 1}\n";
  ScriptedTraining training({"loss"}, {JSONLogger({.filename = file})});
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
  CHECK_THROWS_WITH(JSONLogger({.filename = "nowhere/x.jsonl"})->check({}),
                    "JSONLogger: nowhere/x.jsonl cannot be written: there is no folder nowhere");
  CHECK(JSONLogger({.filename = file})->writes() == file);
}

}  // namespace meshwork::json_logger_test
