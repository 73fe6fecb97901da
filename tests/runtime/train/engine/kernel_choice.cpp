// One choice of kernels for all ranks, recorded: with prices instead of durations, and with those
// of the CPU.
#include "runtime/train/engine/kernel_choice.h"
#include "runtime/device/kernel_spec.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/products.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <thread>

#include "collectives/exchange.h"
#include "layers/dense.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/added_device.h"
#include "tests/support/counted_device.h"
#include "tests/support/one_rank.h"

namespace meshwork::kernel_choice_test {

using namespace meshwork::test;

namespace {

namespace fs = std::filesystem;

// What products cost on the device "counted" of this process.
Prices& prices() {
  static Prices all;
  return all;
}

struct OnCountedDevice {
  test::AddedDevice counted{{.kind = "counted"}, [](const DeviceOptions& options) {
                              return std::make_unique<CountedDevice>(prices(), options);
                            }};
};

// Two candidates for every product, of which the named one costs half of the other.
void make_faster(const std::string& name) {
  prices() = {};
  prices().candidates = [name](const MatmulSpec&) {
    return std::vector{at_price("one", name == "one" ? 1 : 2),
                       at_price("two", name == "two" ? 1 : 2)};
  };
}

void say_nothing(const std::string&) {}

MatmulSpec product_of(std::int64_t rows) {
  return {.m = rows, .n = 3, .k = 4};
}

// A file or directory of all ranks, which is not there.
fs::path fresh(const std::string& name) {
  const Communicator world = Communicator::world();
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
  if (world.rank() == 0) fs::remove_all(name);
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
  return fs::current_path() / name;
}

void write_on_root(const fs::path& file, const std::string& text) {
  const Communicator world = Communicator::world();
  if (world.rank() == 0) std::ofstream(file) << text;
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
}

// What all ranks find in `file`, before any of them goes on.
std::string content(const fs::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  check_mpi(MPI_Barrier(Communicator::world().native()), "MPI_Barrier");
  return text.str();
}

// Whether all ranks have the same.
bool same_on_all(const KernelRecord& record) {
  std::string text = record.platform;
  for (const auto& [key, name] : record.chosen) text += fmt::format("\n{}: {}", key, name);
  return distinct_texts(Communicator::world(), text).size() == 1;
}

struct Outcome {
  std::vector<std::vector<float>> weights;
  std::vector<double> losses;
  std::string printed;  // on rank 0
};

// 26 samples in batches of 8, the last of 2: ranks have blocks of several lengths, or of none.
Outcome train(const std::string& kernels, std::int64_t epochs, CheckpointOptions checkpoint = {}) {
  DeviceMesh mesh({{"data", -1}});
  const auto input = Input({5});
  const auto x = Dense({.name = "d1", .units = 7, .activation = Activation::relu})(input);
  Model model(input, Dense({.name = "d2", .units = 3})(x), DataParallel(mesh),
              {.seed = 3, .device = "counted", .kernels = kernels});
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.1})});
  std::vector<Array> arrays{Array("x", random_floats(26 * 5, 1), {26, 5}),
                            Array("t", random_floats(26 * 3, 2), {26, 3}, FieldRole::target)};
  const auto samples = std::make_shared<ArraySource>(std::move(arrays));
  Outcome outcome;
  std::ostringstream printed;
  std::streambuf* const before = std::cout.rdbuf(printed.rdbuf());
  const History history = model.fit(samples, {.epochs = epochs,
                                              .batch_size = 8,
                                              .validation = samples,
                                              .verbose = Verbosity::lines,
                                              .checkpoint = std::move(checkpoint)});
  std::cout.rdbuf(before);
  outcome.printed = printed.str();
  outcome.losses = history.at("loss");
  for (const char* variable : {"d1/kernel", "d1/bias", "d2/kernel", "d2/bias"}) {
    outcome.weights.push_back(model.variable(variable));
  }
  return outcome;
}

CheckpointOptions checkpoints_in(const fs::path& directory) {
  return {.directory = directory, .resume = Resume::automatic};
}

KernelRecord record_in(const fs::path& directory) {
  return CheckpointReader(list_checkpoints(directory, "").checkpoints.front().file).state().kernels;
}

}  // namespace

TEST_CASE_METHOD(OnCountedDevice,
                 "the word of the lowest rank that has a shape holds on all ranks") {
  const Communicator world = Communicator::world();
  // All have the shape of 1 row; rank r has those of r + 10 rows, and of r + 11.
  make_faster(world.rank() % 2 == 0 ? "two" : "one");
  CountedDevice device(prices(), {});
  KernelChooser chooser(world, device, nullptr, {}, say_nothing);
  chooser.choose({product_of(1), product_of(10 + world.rank()), product_of(11 + world.rank()),
                  product_of(1), ZeroSpec{4}});
  const KernelRecord& record = chooser.record();
  CHECK(same_on_all(record));
  CHECK(record.platform == prices().platform);
  CHECK(record.chosen.size() == static_cast<std::size_t>(2 + world.size()));
  CHECK(record.chosen.at("matmul 1x3x4") == "two");
  CHECK(record.chosen.at("matmul 10x3x4") == "two");
  for (int rank = 0; rank < world.size(); ++rank) {
    CHECK(record.chosen.at(fmt::format("matmul {}x3x4", 11 + rank)) ==
          (rank % 2 == 0 ? "two" : "one"));
  }
}

TEST_CASE_METHOD(OnCountedDevice, "what was chosen stays, and is not timed again") {
  const Communicator world = Communicator::world();
  make_faster("two");
  CountedDevice device(prices(), {});
  KernelChooser chooser(world, device, nullptr, {}, say_nothing);
  chooser.choose({product_of(1)});
  const std::int64_t runs = prices().runs_by("one");
  CHECK(runs > 0);
  make_faster("one");
  chooser.choose({product_of(1)});
  CHECK(prices().runs_by("one") == 0);
  chooser.choose({product_of(1), product_of(2)});
  CHECK(prices().runs_by("one") == runs);
  CHECK(chooser.record().chosen ==
        std::map<std::string, std::string>{{"matmul 1x3x4", "two"}, {"matmul 2x3x4", "one"}});
}

TEST_CASE_METHOD(OnCountedDevice, "a candidate that one rank does not have is taken by none") {
  const Communicator world = Communicator::world();
  prices() = {};
  prices().candidates = [&](const MatmulSpec&) {
    std::vector found{at_price("slow", 4), at_price("middle", 2), at_price("fast", 1)};
    if (world.rank() == world.size() - 1) found.pop_back();
    return found;
  };
  CountedDevice device(prices(), {});
  KernelChooser chooser(world, device, nullptr, {}, say_nothing);
  chooser.choose({product_of(1)});
  CHECK(same_on_all(chooser.record()));
  CHECK(chooser.record().chosen.at("matmul 1x3x4") == "middle");
}

TEST_CASE_METHOD(OnCountedDevice, "ranks on platforms that differ have a record of both") {
  const Communicator world = Communicator::world();
  make_faster("two");
  prices().platform = world.rank() == 0 ? "B" : "A";
  CountedDevice device(prices(), {});
  KernelChooser chooser(world, device, nullptr, {}, say_nothing);
  CHECK(chooser.record().platform == (world.size() == 1 ? "B" : "A and B"));
}

TEST_CASE_METHOD(OnCountedDevice, "a rank that cannot time ends the choice on all") {
  const Communicator world = Communicator::world();
  make_faster("two");
  prices().candidates = [&](const MatmulSpec&) {
    const auto seconds = [&](std::int64_t) -> double {
      if (world.rank() == world.size() - 1) throw Error("the clock stands still");
      return 1;
    };
    return std::vector<Prices::Candidate>{{"one", seconds}, {"two", seconds}};
  };
  CountedDevice device(prices(), {});
  KernelChooser chooser(world, device, nullptr, {}, say_nothing);
  CHECK_THROWS_WITH(chooser.choose({product_of(1)}), Catch::Contains("the clock stands still"));
}

TEST_CASE_METHOD(OnCountedDevice,
                 "fixed kernels are the first candidates, and nothing is timed or recorded") {
  make_faster("two");
  const fs::path directory = fresh("fixed");
  (void)train("fixed", 1, checkpoints_in(directory));
  CHECK(prices().runs_by("two") == 0);
  CHECK(record_in(directory) == KernelRecord{});
}

TEST_CASE_METHOD(OnCountedDevice,
                 "a model trains by the kernels that were chosen, alike on all ranks") {
  make_faster("one");
  const Outcome fixed = train("fixed", 2);
  const Outcome first = train("timed", 2);
  CHECK(first.weights == fixed.weights);
  const std::int64_t by_one = prices().runs_by("one");
  make_faster("two");
  const fs::path directory = fresh("chosen");
  const Outcome second = train("timed", 2, checkpoints_in(directory));
  // Their numbers differ in the last bits, which is how one sees it.
  CHECK(second.weights != fixed.weights);
  CHECK(prices().runs_by("two") > 0);
  CHECK(by_one > 0);
  const KernelRecord record = record_in(directory);
  CHECK(same_on_all(record));
  CHECK(record.platform == "a counted device");
  CHECK(record.chosen.contains(
      fmt::format("matmul {}x7x5 bias relu", 8 / Communicator::world().size())));
  for (const auto& [key, name] : record.chosen) {
    INFO(key);
    CHECK(name == "two");
  }
  for (const std::vector<float>& weights : second.weights) {
    CHECK(distinct_texts(Communicator::world(),
                         std::string(reinterpret_cast<const char*>(weights.data()),
                                     weights.size() * sizeof(float)))
              .size() == 1);
  }
}

TEST_CASE_METHOD(
    OnCountedDevice,
    "a run that goes on takes the kernels of its checkpoint, whatever timing would say") {
  make_faster("two");
  const Outcome straight = train("timed", 4);
  const fs::path directory = fresh("resumed");
  (void)train("timed", 2, checkpoints_in(directory));
  const KernelRecord record = record_in(directory);
  make_faster("one");
  const Outcome resumed = train("timed", 4, checkpoints_in(directory));
  CHECK(resumed.weights == straight.weights);
  CHECK(resumed.losses == straight.losses);
  CHECK(record_in(directory) == record);
  CHECK(prices().runs_by("one") == 0);  // nothing was even timed
  CHECK(resumed.printed.find("kernels: ") == std::string::npos);
}

TEST_CASE_METHOD(OnCountedDevice,
                 "a run that goes on elsewhere times its kernels anew, and says so") {
  make_faster("two");
  const fs::path directory = fresh("elsewhere");
  (void)train("timed", 1, checkpoints_in(directory));
  make_faster("one");
  prices().platform = "another device";
  const Outcome resumed = train("timed", 2, checkpoints_in(directory));
  CHECK(prices().runs_by("one") > 0);
  const KernelRecord record = record_in(directory);
  CHECK(record.platform == "another device");
  for (const auto& [key, name] : record.chosen) CHECK(name == "one");
  if (Communicator::world().rank() == 0) {
    CHECK(resumed.printed.find("kernels: timed for another device anew, were timed for a counted "
                               "device; numbers go on equal to rounding") != std::string::npos);
  }
  // And by the rule, where the configuration says so now.
  const Outcome fixed = train("fixed", 3, checkpoints_in(directory));
  if (Communicator::world().rank() == 0) {
    CHECK(fixed.printed.find("kernels: fixed, were timed for another device") != std::string::npos);
  }
}

TEST_CASE_METHOD(OnCountedDevice,
                 "a model that was trained before takes up the kernels of a checkpoint, too") {
  make_faster("two");
  const fs::path directory = fresh("second");
  (void)train("timed", 1, checkpoints_in(directory));
  make_faster("one");
  DeviceMesh mesh({{"data", -1}});
  const auto input = Input({5});
  const auto x = Dense({.name = "d1", .units = 7, .activation = Activation::relu})(input);
  Model model(input, Dense({.name = "d2", .units = 3})(x), DataParallel(mesh),
              {.seed = 3, .device = "counted", .kernels = "timed"});
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.1})});
  std::vector<Array> arrays{Array("x", random_floats(26 * 5, 1), {26, 5}),
                            Array("t", random_floats(26 * 3, 2), {26, 3}, FieldRole::target)};
  const auto samples = std::make_shared<ArraySource>(std::move(arrays));
  (void)model.fit(samples, {.batch_size = 8, .verbose = Verbosity::silent});
  CHECK(prices().runs_by("one") > 0);
  prices().runs.clear();
  (void)model.fit(samples, {.epochs = 2,
                            .batch_size = 8,
                            .verbose = Verbosity::silent,
                            .checkpoint = checkpoints_in(directory)});
  CHECK(prices().runs_by("one") == 0);
  CHECK(prices().runs_by("two") > 0);
}

TEST_CASE_METHOD(
    OnCountedDevice,
    "a file keeps what was timed, for this platform beside others, and the next run uses it") {
  const fs::path file = fresh("kernels.yaml");
  write_on_root(file, "\"elsewhere, 7 threads\": {\"matmul 1x2x3\": one}\n");
  make_faster("two");
  const Outcome first = train(file.string(), 2);
  const std::string before = content(file);
  CHECK(before.find("\"elsewhere, 7 threads\":\n  \"matmul 1x2x3\": \"one\"") != std::string::npos);
  CHECK(before.find("\"a counted device\":\n") != std::string::npos);
  make_faster("one");
  const Outcome second = train(file.string(), 2);
  CHECK(second.weights == first.weights);
  CHECK(prices().runs_by("one") == 0);
  CHECK(content(file) == before);
  // What is taken out of it is timed anew; what it has stays.
  const std::string key = fmt::format("tn 5x7x{}", 8 / Communicator::world().size());
  std::string shorter;
  std::istringstream lines(before);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(key) == std::string::npos) shorter += line + "\n";
  }
  CHECK(shorter.size() < before.size());
  write_on_root(file, shorter);
  (void)train(file.string(), 2);
  if (Communicator::world().rank() == 0) CHECK(prices().runs_by("one") > 0);
  const std::string after = content(file);
  CHECK(after.find(key) != std::string::npos);
  CHECK(after.find("two") != std::string::npos);
}

TEST_CASE_METHOD(OnCountedDevice, "a file that names a kernel which is none has it timed anew") {
  const fs::path file = fresh("unknown.yaml");
  write_on_root(file, "\"a counted device\": {\"matmul 1x3x4\": three}\n");
  make_faster("two");
  const Communicator world = Communicator::world();
  CountedDevice device(prices(), {});
  KernelChooser chooser(world, device, nullptr, file, say_nothing);
  CHECK(chooser.record().chosen.at("matmul 1x3x4") == "three");
  chooser.choose({product_of(1)});
  CHECK(chooser.record().chosen.at("matmul 1x3x4") == "two");
  // Whose place what was timed takes in the file, too.
  CHECK(content(file).find("\"matmul 1x3x4\": \"two\"") != std::string::npos);
  CHECK(content(file).find("three") == std::string::npos);
}

TEST_CASE_METHOD(OnCountedDevice, "a file of other platforms alone is said to be of them") {
  const fs::path file = fresh("others.yaml");
  write_on_root(file, "\"elsewhere\": {\"matmul 1x2x3\": one}\n");
  make_faster("two");
  const Communicator world = Communicator::world();
  CountedDevice device(prices(), {});
  std::string said;
  KernelChooser chooser(world, device, nullptr, file,
                        [&](const std::string& line) { said += line; });
  if (world.rank() == 0) {
    CHECK(said == fmt::format("kernels: {} is of elsewhere; they are timed anew for a counted "
                              "device",
                              file.string()));
  } else {
    CHECK(said.empty());
  }
}

TEST_CASE_METHOD(OnCountedDevice,
                 "a file that holds no records, or cannot be written, is an error on all ranks") {
  const Communicator world = Communicator::world();
  make_faster("two");
  CountedDevice device(prices(), {});
  const fs::path file = fresh("wrong.yaml");
  write_on_root(file, "\"a counted device\":\n  \"matmul 1x3x4\": [one]\n");
  CHECK_THROWS_WITH(KernelChooser(world, device, nullptr, file, say_nothing),
                    Catch::Contains("wrong.yaml:2:19") && Catch::Contains("expected a string"));
  write_on_root(file, "\"a counted device\":\n  \"matmul 1x3x4\": \"one\\n\"\n");
  CHECK_THROWS_WITH(KernelChooser(world, device, nullptr, file, say_nothing),
                    Catch::Contains("wrong.yaml:2:19") && Catch::Contains("on one line"));
  // Before anything is timed.
  CHECK_THROWS_WITH(
      KernelChooser(world, device, nullptr, fs::path("not/there/kernels.yaml"), say_nothing),
      Catch::Contains("not/there/kernels.yaml cannot be written: No such file"));
}

TEST_CASE_METHOD(OnCountedDevice, "names travel between ranks whatever stands in them") {
  const Communicator world = Communicator::world();
  prices() = {};
  prices().candidates = [](const MatmulSpec&) {
    return std::vector{at_price("one\n", 2), at_price("2:t\two", 1)};
  };
  CountedDevice device(prices(), {});
  KernelChooser chooser(world, device, nullptr, {}, say_nothing);
  chooser.choose({product_of(1), product_of(2 + world.rank())});
  CHECK(chooser.record().chosen.size() == static_cast<std::size_t>(1 + world.size()));
  for (const auto& [key, name] : chooser.record().chosen) CHECK(name == "2:t\two");
}

TEST_CASE_METHOD(OnCountedDevice,
                 "that kernels are timed is said once, and how long it took where that is long") {
  const Communicator world = Communicator::world();
  std::vector<std::string> said;
  make_faster("two");
  CountedDevice device(prices(), {});
  KernelChooser chooser(world, device, nullptr, {},
                        [&](const std::string& line) { said.push_back(line); });
  chooser.choose({product_of(1), product_of(2)});
  chooser.choose({product_of(1), product_of(3)});
  const bool is_root = world.rank() == 0;
  CHECK(said == (is_root ? std::vector<std::string>{"kernels: timing 2 of them"}
                         : std::vector<std::string>{}));
  prices().candidates = [](const MatmulSpec&) {
    return std::vector<Prices::Candidate>{at_price("one", 1),
                                          {"two", [](std::int64_t run) {
                                             if (run == 0)
                                               std::this_thread::sleep_for(std::chrono::seconds(1));
                                             return 1.0;
                                           }}};
  };
  said.clear();
  chooser.choose({product_of(4)});
  REQUIRE(said.size() == (is_root ? 1 : 0));
  if (is_root) CHECK_THAT(said[0], Catch::StartsWith("kernels: timed 1 of them in 1."));
}

TEST_CASE_METHOD(OnCountedDevice,
                 "a stop that one rank is asked for ends the timing on all after the same kernel") {
  const Communicator world = Communicator::world();
  const fs::path file = fresh("stopped.yaml");
  StopRequest request;
  prices() = {};
  prices().candidates = [&](const MatmulSpec& product) {
    const bool asks = product.m == 2 && world.rank() == world.size() - 1;
    return std::vector<Prices::Candidate>{at_price("one", 2),
                                          {"two", [&request, asks](std::int64_t) {
                                             if (asks) request.ask(7);
                                             return 1.0;
                                           }}};
  };
  CountedDevice device(prices(), {});
  KernelChooser chooser(world, device, nullptr, file, say_nothing);
  const std::vector<KernelSpec> specs{product_of(1), product_of(2), product_of(3), product_of(4)};
  const auto stopped_at = [](const char* done) {
    return Catch::Predicate<Stopped>(
        [done](const Stopped& stopped) {
          return stopped.reason() == 7 &&
                 stopped.what() == fmt::format(
                                       "stopped by a request (7) while kernels were timed, "
                                       "{} done",
                                       done);
        },
        done);
  };
  CHECK_THROWS_MATCHES(chooser.choose(specs, &request), Stopped, stopped_at("2 of 4"));
  CHECK(chooser.record().chosen.size() == 2);
  CHECK(content(file).find("matmul 2x3x4") != std::string::npos);
  CHECK(content(file).find("matmul 3x3x4") == std::string::npos);
  // Who was asked before it begins times nothing; the rest is timed by the next run.
  prices().runs.clear();
  CHECK_THROWS_MATCHES(chooser.choose(specs, &request), Stopped, stopped_at("0 of 2"));
  if (request.reason() > 0) CHECK(prices().runs.empty());
  KernelChooser next(world, device, nullptr, file, say_nothing);
  prices().runs.clear();
  next.choose(specs);
  CHECK(next.record().chosen.size() == 4);
  CHECK(prices().runs.size() == 4);  // of two products, each by two candidates
}

TEST_CASE_METHOD(
    OnCountedDevice,
    "a file gets what a checkpoint has and it lacks, and keeps what it has otherwise") {
  const Communicator world = Communicator::world();
  const fs::path file = fresh("lacking.yaml");
  write_on_root(file, "\"a counted device\": {\"matmul 1x3x4\": one, \"matmul 2x3x4\": one}\n");
  make_faster("one");
  CountedDevice device(prices(), {});
  std::vector<std::string> said;
  KernelChooser chooser(world, device, nullptr, file,
                        [&](const std::string& line) { said.push_back(line); });
  const KernelRecord checkpoint{
      .platform = "a counted device",
      .chosen = {{"matmul 1x3x4", "one"}, {"matmul 2x3x4", "two"}, {"matmul 3x3x4", "two"}}};
  CHECK(chooser.take_up(checkpoint));
  CHECK(chooser.record() == checkpoint);
  const std::string text = content(file);
  CHECK(text.find("\"matmul 2x3x4\": \"one\"") != std::string::npos);
  CHECK(text.find("\"matmul 3x3x4\": \"two\"") != std::string::npos);
  if (world.rank() == 0) {
    REQUIRE(said.size() == 1);
    CHECK(said[0] == fmt::format("kernels: {} differs from the checkpoint in 1 of them, such as "
                                 "\"matmul 2x3x4\" (\"one\" there, \"two\" here); those of the "
                                 "checkpoint are used",
                                 file.string()));
  } else {
    CHECK(said.empty());
  }
  chooser.choose({product_of(1), product_of(2), product_of(3)});
  CHECK(prices().runs.empty());
  CHECK(content(file) == text);
}

TEST_CASE_METHOD(
    OnCountedDevice,
    "a run that goes on writes the kernels of its checkpoint to a file that is not there") {
  make_faster("two");
  const fs::path directory = fresh("resumed_with_file");
  (void)train("timed", 1, checkpoints_in(directory));
  make_faster("one");
  const fs::path file = fresh("from_checkpoint.yaml");
  (void)train(file.string(), 2, checkpoints_in(directory));
  CHECK(prices().runs_by("one") == 0);
  const std::string text = content(file);
  for (const auto& [key, name] : record_in(directory).chosen) {
    CHECK(text.find(fmt::format("\"{}\": \"{}\"", key, name)) != std::string::npos);
  }
}

TEST_CASE_METHOD(OnCountedDevice, "kernels are fixed, timed, or those of a file") {
  CHECK_FALSE(kernels_option("fixed").timed);
  CHECK(kernels_option("timed").timed);
  CHECK(kernels_option("timed").file.empty());
  CHECK(kernels_option("kernels.yaml").timed);
  CHECK(kernels_option("there/kernels").file == "there/kernels");
  CHECK_THROWS_WITH(kernels_option("time"), Catch::Contains("\"time\"") &&
                                                Catch::Contains("did you mean \"timed\"?") &&
                                                Catch::Contains("the name of a file"));
  CHECK_THROWS_WITH(kernels_option(""), Catch::Contains("known: fixed, timed"));
}

TEST_CASE_METHOD(
    OnCountedDevice,
    "the CPU's kernels, chosen by timing, give the numbers of the fixed ones to rounding") {
  DeviceMesh mesh({{"data", -1}});
  std::vector<std::vector<float>> weights;
  for (const char* kernels : {"fixed", "timed"}) {
    const auto input = Input({50});
    const auto x = Dense({.name = "d1", .units = 33, .activation = Activation::relu})(input);
    Model model(input, Dense({.name = "d2", .units = 3})(x), DataParallel(mesh),
                {.seed = 3, .device = "cpu", .kernels = kernels});
    model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.05})});
    std::vector<Array> arrays{Array("x", random_floats(60 * 50, 1), {60, 50}),
                              Array("t", random_floats(60 * 3, 2), {60, 3}, FieldRole::target)};
    (void)model.fit(std::make_shared<ArraySource>(std::move(arrays)),
                    {.epochs = 3, .batch_size = 17, .verbose = Verbosity::silent});
    weights.push_back(model.variable("d1/kernel"));
  }
  for (std::size_t i = 0; i < weights[0].size(); ++i) {
    REQUIRE(weights[1][i] == Approx(weights[0][i]).margin(1e-5));
  }
}

}  // namespace meshwork::kernel_choice_test
