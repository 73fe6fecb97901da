// TensorBoard: which events stand in which file, also of a run that goes on.
//
// Files are read without the protobuf library: records with a checksum of this file's own, and
// messages field by field, as protobuf's encoding has them.
#include "runtime/train/callbacks/tensorboard.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/train/callbacks/event_files.h"
#include "runtime/train/callbacks/event_messages.h"
#include "runtime/train/loop/between_steps.h"
#include "tests/runtime/train/scripted_training.h"
#include "tests/support/catch.h"

namespace meshwork::tensorboard_test {
namespace {

using namespace meshwork::test;
namespace fs = std::filesystem;

const fs::path runs = "tensorboard_test";

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t value = 0xffffffff;
  for (const char byte : bytes) {
    value ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) value = value & 1 ? value >> 1 ^ 0x82f63b78 : value >> 1;
  }
  return ~value;
}
std::uint32_t masked(std::uint32_t value) {
  return std::rotr(value, 15) + 0xa282ead8;
}

std::uint64_t number(std::string_view& bytes, std::size_t count) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), count);
  bytes.remove_prefix(count);
  return value;
}

// A message of protobuf's by the numbers of its fields; of each what it has: a number, or bytes.
struct Message {
  std::multimap<int, std::uint64_t> numbers;
  std::multimap<int, std::string> texts;

  explicit Message(std::string_view bytes) {
    const auto varint = [&] {
      std::uint64_t value = 0;
      for (int shift = 0;; shift += 7) {
        REQUIRE_FALSE(bytes.empty());
        const auto byte = static_cast<unsigned char>(bytes[0]);
        bytes.remove_prefix(1);
        value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
      }
    };
    while (!bytes.empty()) {
      const std::uint64_t key = varint();
      const int field = static_cast<int>(key >> 3);
      switch (key & 7) {
        case 0:
          numbers.emplace(field, varint());
          break;
        case 1:
          numbers.emplace(field, number(bytes, 8));
          break;
        case 2: {
          const std::uint64_t length = varint();
          REQUIRE(length <= bytes.size());
          texts.emplace(field, bytes.substr(0, length));
          bytes.remove_prefix(length);
          break;
        }
        default:
          FAIL("an unexpected type of a field");
      }
    }
  }
  [[nodiscard]] std::string text(int field) const {
    const auto found = texts.find(field);
    return found == texts.end() ? "" : found->second;
  }
  [[nodiscard]] Message message(int field) const { return Message(text(field)); }
  [[nodiscard]] std::uint64_t at(int field) const {
    const auto found = numbers.find(field);
    return found == numbers.end() ? 0 : found->second;
  }
};

template <class Number>
std::vector<double> packed(const std::string& bytes) {
  std::vector<Number> values(bytes.size() / sizeof(Number));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return {values.begin(), values.end()};
}

std::string content_of(const fs::path& file) {
  std::ostringstream content;
  content << std::ifstream(file, std::ios::binary).rdbuf();
  return content.str();
}

// The files of a folder, in the order in which TensorBoard reads them.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> all;
  if (fs::exists(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) all.push_back(entry.path());
  }
  std::sort(all.begin(), all.end());
  return all;
}

struct Value {
  std::int64_t step;
  std::vector<double> numbers;
};

// What stands in a folder: the values of each tag, in their order, and the steps of STARTs.
struct Read {
  std::map<std::string, std::vector<Value>> values;
  std::map<std::string, std::string> plugins;
  std::vector<std::int64_t> starts;

  explicit Read(const fs::path& folder) {
    for (const fs::path& file : files_in(folder)) {
      const std::string content = content_of(file);
      std::string_view rest = content;
      bool first = true;
      while (!rest.empty()) {
        REQUIRE(rest.size() >= 16);
        const std::string_view head = rest.substr(0, 8);
        const std::uint64_t length = number(rest, 8);
        CHECK(number(rest, 4) == masked(crc32c(head)));
        REQUIRE(rest.size() >= length + 4);
        const std::string_view event = rest.substr(0, length);
        rest.remove_prefix(length);
        CHECK(number(rest, 4) == masked(crc32c(event)));
        take(Message(event), std::exchange(first, false));
      }
    }
  }
  [[nodiscard]] std::vector<std::string> tags() const {
    std::vector<std::string> all;
    for (const auto& [tag, of_tag] : values) all.push_back(tag);
    return all;
  }
  // "0: 0.5, 1: 0.25" of scalars.
  [[nodiscard]] std::string text(const std::string& tag) const {
    std::string all;
    const auto found = values.find(tag);
    if (found == values.end()) return "none";
    for (const Value& value : found->second) {
      all += fmt::format("{}{}: {}", all.empty() ? "" : ", ", value.step, value.numbers.at(0));
    }
    return all;
  }

 private:
  void take(const Message& event, bool first) {
    CHECK(std::bit_cast<double>(event.at(1)) > 1e9);  // a time
    const auto step = static_cast<std::int64_t>(event.at(2));
    if (first) {
      CHECK(event.text(3) == "brain.Event:2");
      CHECK(event.message(10).text(1) == "meshwork");
      return;
    }
    if (event.texts.contains(7)) {
      CHECK(event.message(7).at(1) == 1);
      starts.push_back(step);
      return;
    }
    const Message summary = event.message(5);
    for (auto [at, end] = summary.texts.equal_range(1); at != end; ++at) {
      const Message value(at->second);
      const std::string tag = value.text(1);
      const Message tensor = value.message(8);
      plugins[tag] = value.message(9).message(1).text(1);
      const bool scalar = plugins[tag] == "scalars";
      CHECK(tensor.at(1) == (scalar ? 1 : 2));
      CHECK(value.message(9).at(4) == (scalar ? 1 : 2));
      CHECK(tensor.texts.contains(2));
      values[tag].push_back(
          {step, scalar ? packed<float>(tensor.text(5)) : packed<double>(tensor.text(6))});
    }
  }
};

// Whether there is nothing to test.
bool is_missing() {
  if (!writes_events()) WARN("SKIPPED: built without protobuf");
  return !writes_events();
}

std::vector<Logs> three_epochs() {
  return {{{"loss", 0.5}, {"val_loss", 0.75}},
          {{"loss", 0.25}, {"val_loss", 0.625}},
          {{"loss", std::numeric_limits<double>::quiet_NaN()}}};
}

}  // namespace

TEST_CASE("a record is a length, its checksum, the bytes and theirs") {
  CHECK(crc32c("123456789") == 0xe3069283);  // the check value of CRC-32C
  const std::string record = record_of("123456789");
  REQUIRE(record.size() == 8 + 4 + 9 + 4);
  CHECK(record.substr(0, 8) == std::string("\x09\0\0\0\0\0\0\0", 8));
  CHECK(record.substr(12, 9) == "123456789");
  std::string_view last = std::string_view(record).substr(21);
  CHECK(number(last, 4) == masked(0xe3069283));
}

TEST_CASE("epochs stand under Keras's tags, of training and of validation") {
  if (is_missing()) return;
  fs::remove_all(runs);
  ScriptedTraining training({"loss"}, {TensorBoard({.log_dir = runs})});
  training.run(three_epochs());
  const Read train(runs / "train"), validation(runs / "validation");
  CHECK(train.tags() ==
        std::vector<std::string>{"epoch_learning_rate", "epoch_loss", "epoch_samples_per_second"});
  CHECK(train.text("epoch_loss") == "0: 0.5, 1: 0.25, 2: nan");
  CHECK(train.text("epoch_learning_rate") == "0: 1, 1: 1, 2: 1");
  CHECK(validation.tags() == std::vector<std::string>{"epoch_loss"});
  CHECK(validation.text("epoch_loss") == "0: 0.75, 1: 0.625");
  CHECK(train.starts == std::vector<std::int64_t>{0});
  for (const auto& [tag, plugin] : train.plugins) CHECK(plugin == "scalars");
  fs::remove_all(runs);
}

TEST_CASE("the means so far are written every so many updates") {
  if (is_missing()) return;
  fs::remove_all(runs);
  ScriptedTraining training({"loss"}, {TensorBoard({.log_dir = runs, .update_freq = {2}})});
  training.run(epochs_of("loss", {4, 8}), 0, 3);
  const Read train(runs / "train");
  CHECK(train.text("batch_loss") == "2: 4, 4: 8, 6: 8");
  CHECK(train.text("epoch_loss") == "0: 4, 1: 8");
  fs::remove_all(runs);
}

TEST_CASE("a run that goes on drops what is trained again, and half a record") {
  if (is_missing()) return;
  fs::remove_all(runs);
  {
    ScriptedTraining training({"loss"}, {TensorBoard({.log_dir = runs, .update_freq = {1}})});
    training.run({{{"loss", 1}, {"val_loss", 10}},
                  {{"loss", 2}, {"val_loss", 20}},
                  {{"loss", 3}, {"val_loss", 30}},
                  {{"loss", 4}, {"val_loss", 40}}});
  }
  // Killed in the middle of a record, which itself is whole up to there.
  const std::string torn = record_of(std::string(100, 'x')).substr(0, 50);
  std::ofstream(files_in(runs / "train").at(0), std::ios::app) << torn;
  const auto go_on = [&](std::int64_t epoch, const std::vector<Logs>& epochs) {
    const SharedCallback callback = TensorBoard({.log_dir = runs, .update_freq = {1}});
    callback->load(callback->save());
    ScriptedTraining training({"loss"}, {callback});
    training.run(epochs, epoch);
  };
  // ScriptedTraining counts its updates from 0 again: all of batch_ are trained again.
  go_on(2, {{{"loss", 5}, {"val_loss", 50}}, {{"loss", 6}, {"val_loss", 60}}});
  {
    const Read train(runs / "train"), validation(runs / "validation");
    CHECK(train.text("epoch_loss") == "2: 5, 3: 6");
    CHECK(train.text("batch_loss") == "1: 5, 2: 6");
    CHECK(validation.text("epoch_loss") == "0: 10, 1: 20, 2: 50, 3: 60");
    CHECK(validation.starts == std::vector<std::int64_t>{0, 1});
    CHECK(files_in(runs / "validation").size() == 2);
  }
  // A third time, from before all that the second wrote.
  go_on(1, {{{"loss", 7}, {"val_loss", 70}}});
  const Read validation(runs / "validation");
  CHECK(validation.text("epoch_loss") == "0: 10, 1: 70");
  CHECK(files_in(runs / "validation").size() == 2);
  fs::remove_all(runs);
}

TEST_CASE("updates up to the checkpoint are kept, and epochs before it") {
  if (is_missing()) return;
  fs::remove_all(runs);
  const auto scalar = [](std::int64_t step, const char* tag, double value) {
    const std::vector<std::pair<std::string, double>> one{{tag, value}};
    return scalars_event(2e9, step, one);
  };
  const auto write_all = [&](EventFiles& files, std::int64_t from, std::int64_t to) {
    for (std::int64_t update = from; update <= to; ++update) {
      files.write(scalar(update, "batch_loss", static_cast<double>(update)));
      if (update % 4 == 0) {
        files.write(scalar(update, "evaluation_loss_vs_iterations", 0));
        files.write(scalar(update / 4 - 1, "epoch_loss", static_cast<double>(update)));
        const std::vector<WeightHistogram> histograms(1, {.path = "batch_normalization/gamma"});
        files.write(histograms_event(2e9, update / 4 - 1, histograms));
      }
    }
    files.close();
  };
  const auto steps = [&](const Read& read, const char* tag) {
    std::vector<std::int64_t> found;
    for (const Value& value : read.values.at(tag)) found.push_back(value.step);
    return found;
  };
  EventFiles files("TensorBoard", runs);
  files.begin(std::nullopt);
  write_all(files, 1, 11);
  // Cut anywhere: what a killed run leaves of the last record is none.
  const fs::path file = files_in(runs).at(0);
  const std::string whole = content_of(file);
  for (const std::int64_t updates : {4, 6, 8, 10}) {
    for (const std::size_t less : {0, 1, 3, 30}) {
      INFO(updates << " updates, " << less << " bytes less");
      for (const fs::path& old : files_in(runs)) fs::remove(old);
      std::ofstream(file, std::ios::binary) << whole.substr(0, whole.size() - less);
      EventFiles again("TensorBoard", runs);
      again.begin(EventFiles::GoesOn{updates / 4, updates});
      write_all(again, updates + 1, 13);
      const Read read(runs);
      std::vector<std::int64_t> all;
      for (std::int64_t update = 1; update <= 13; ++update) all.push_back(update);
      CHECK(steps(read, "batch_loss") == all);
      CHECK(steps(read, "epoch_loss") == std::vector<std::int64_t>{0, 1, 2});
      CHECK(steps(read, "evaluation_loss_vs_iterations") == std::vector<std::int64_t>{4, 8, 12});
      CHECK(steps(read, "batch_normalization/gamma/histogram") ==
            std::vector<std::int64_t>{0, 1, 2});
      CHECK(read.starts == std::vector<std::int64_t>{0, updates + 1});
    }
  }
  fs::remove_all(runs);
}

TEST_CASE("a run that begins replaces our files, and others write nothing") {
  if (is_missing()) return;
  fs::remove_all(runs);
  ScriptedTraining training({"loss"}, {TensorBoard({.log_dir = runs})});
  training.run(epochs_of("loss", {1, 2}));
  training.run(epochs_of("loss", {3}));
  CHECK(Read(runs / "train").text("epoch_loss") == "0: 3");
  CHECK(files_in(runs / "train").size() == 1);
  training.root = false;
  training.run(epochs_of("loss", {4}));
  CHECK(Read(runs / "train").text("epoch_loss") == "0: 3");
  fs::remove_all(runs);
}

TEST_CASE("one run at a time writes to a directory") {
  if (is_missing()) return;
  fs::remove_all(runs);
  struct During final : Callback {
    std::string class_name() const override { return "During"; }
    void on_epoch_end(Training&) override {
      for (const fs::path& name : {runs / "", runs / ".", fs::path("tensorboard_link")}) {
        ScriptedTraining second({"loss"}, {TensorBoard({.log_dir = name})});
        CHECK_THROWS_WITH(second.run(epochs_of("loss", {5})), Catch::Contains("process "));
      }
    }
  };
  fs::remove("tensorboard_link");
  fs::create_directory_symlink(runs, "tensorboard_link");
  ScriptedTraining training({"loss"}, {TensorBoard({.log_dir = runs}), std::make_shared<During>()});
  training.run(epochs_of("loss", {1, 2}));
  CHECK(Read(runs / "train").text("epoch_loss") == "0: 1, 1: 2");
  fs::remove_all(runs);
}

TEST_CASE("that the event files were taken away is told once") {
  if (is_missing()) return;
  struct Elsewhere final : Callback {
    std::string class_name() const override { return "Elsewhere"; }
    void on_epoch_end(Training& training) override {
      if (training.position().epoch == 0) fs::remove_all(runs);
    }
  };
  fs::remove_all(runs);
  ScriptedTraining training({"loss"},
                            {TensorBoard({.log_dir = runs}), std::make_shared<Elsewhere>()});
  training.run({{{"loss", 1}}, {{"loss", 2}}, {{"loss", 3}}});
  REQUIRE(training.said.size() == 1);
  CHECK_THAT(training.said[0],
             Catch::StartsWith("WARNING: TensorBoard: another program has removed, renamed or "
                               "replaced tensorboard_test/train/events.out"));
}

TEST_CASE("a folder may have the longest name that the system takes, and no longer one") {
  if (is_missing()) return;
  const fs::path longest(std::string(255, 'x')), longer(std::string(256, 'x'));
  ScriptedTraining training({"loss"}, {TensorBoard({.log_dir = longest})});
  training.run(epochs_of("loss", {1}));
  CHECK(Read(longest / "train").text("epoch_loss") == "0: 1");
  fs::remove_all(longest);
  CHECK_THROWS_WITH(TensorBoard({.log_dir = longer})->check({}),
                    Catch::EndsWith("cannot be written: File name too long"));
}

TEST_CASE("files of another program, and places where none can be, are told before the run") {
  if (is_missing()) return;
  fs::remove_all(runs);
  fs::create_directories(runs / "validation");
  const SharedCallback callback = TensorBoard({.log_dir = runs});
  CHECK_NOTHROW(callback->check({}));
  // What a killed run leaves that had written nothing.
  const fs::path file = runs / "validation" / "events.out.tfevents.1700000000.host.1.0.v2";
  std::ofstream(file) << "";
  CHECK_NOTHROW(callback->check({}));
  const std::string foreign(
      "\x09\0\0\0\0\0\xb0\x9a\x41\x1a\x0d"
      "brain.Event:2",
      24);
  std::ofstream(file) << record_of(foreign);
  CHECK_THROWS_WITH(callback->check({}),
                    Catch::StartsWith("TensorBoard: tensorboard_test/validation/events.out") &&
                        Catch::Contains("is of another program") &&
                        Catch::Contains("choose another directory"));
  ScriptedTraining training({"loss"}, {callback});
  training.run(epochs_of("loss", {1}));
  CHECK(content_of(file) == record_of(foreign));
  fs::remove_all(runs);
  std::ofstream(runs) << "a file";
  CHECK_THROWS_WITH(
      callback->check({}),
      "TensorBoard: tensorboard_test cannot be written: tensorboard_test is no folder");
  fs::remove_all(runs);
  fs::create_directory_symlink("nowhere", runs);
  CHECK_THROWS_WITH(callback->check({}), Catch::Contains("there is no folder tensorboard_test"));
  fs::remove_all(runs);
  CHECK_THROWS_WITH(TensorBoard({}), "TensorBoard: there is no directory");
}

TEST_CASE("histograms have the edges and counts of their buckets") {
  if (is_missing()) return;
  fs::remove_all(runs);
  const SharedCallback callback = TensorBoard({.log_dir = runs, .histogram_freq = 2});
  ScriptedTraining training({"loss"}, {callback});
  WeightHistogram histogram{.path = "d/kernel", .least = -1, .greatest = 2};
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    histogram.counts[i] = static_cast<double>(i * i);
  }
  training.histograms = {histogram, {.path = "d/bias"}};
  training.run(epochs_of("loss", {1, 2, 3}));
  const Read train(runs / "train");
  CHECK(train.plugins.at("d/kernel/histogram") == "histograms");
  const std::vector<Value>& kernels = train.values.at("d/kernel/histogram");
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[1].step == 2);
  REQUIRE(kernels[0].numbers.size() == 90);
  for (std::size_t i = 0; i < 30; ++i) {
    CHECK(kernels[0].numbers[3 * i] == Approx(-1 + 0.1 * static_cast<double>(i)).margin(1e-12));
    CHECK(kernels[0].numbers[3 * i + 1] ==
          Approx(-0.9 + 0.1 * static_cast<double>(i)).margin(1e-12));
    CHECK(kernels[0].numbers[3 * i + 2] == static_cast<double>(i * i));
  }
  CHECK(train.values.at("d/bias/histogram").size() == 2);
  fs::remove_all(runs);

  const auto between = collectives_between_steps(Mode::train, 4, 0, {callback}, 5);
  REQUIRE(between.size() == 4);
  CHECK(between[2].when == "every 2 epochs");
  CHECK(between[2].elements == 10);
  CHECK(between[3].elements == 150);
  CHECK(collectives_between_steps(Mode::train, 4, 0, {TensorBoard({.log_dir = runs})}, 5).size() ==
        2);
}

TEST_CASE("a program without protobuf says what to install") {
  if (writes_events()) return;
  CHECK_THROWS_WITH(TensorBoard({.log_dir = runs}), Catch::Contains("libprotobuf-dev"));
}

}  // namespace meshwork::tensorboard_test
