// CSVLogger: what stands in the file, byte for byte.
#include "runtime/train/callbacks/csv_logger.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "collectives/wrong_input.h"
#include "tests/runtime/train/scripted_training.h"
#include "tests/support/catch.h"

namespace meshwork::csv_logger_test {

using namespace meshwork::test;

namespace {

// A file of this test alone, removed before and after.
class ScratchFile {
 public:
  ScratchFile() { std::filesystem::remove(path_); }
  ~ScratchFile() { std::filesystem::remove(path_); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string content() const {
    std::ifstream input(path_, std::ios::binary);
    std::ostringstream text;
    text << input.rdbuf();
    return text.str();
  }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

 private:
  std::filesystem::path path_ = "csv_logger_test.csv";
};

const std::vector<Logs> three_epochs{{{"loss", 0.1}, {"accuracy", 1.0 / 3}},
                                     {{"loss", 2}, {"accuracy", 1e-300}},
                                     {{"loss", -1.5}, {"accuracy", 0.25}}};

const std::string three_lines =
    "epoch,accuracy,loss\n"
    "0,0.3333333333333333,0.1\n"
    "1,1e-300,2\n"
    "2,0.25,-1.5\n";

void log(const CSVLoggerOptions& options, const std::vector<Logs>& epochs, std::int64_t first = 0,
         const std::vector<std::string>& names = {"loss", "accuracy"}) {
  ScriptedTraining training(names, {CSVLogger(options)});
  training.run(epochs, first);
}

}  // namespace

TEST_CASE("the file has a header and a line an epoch, with all digits") {
  const ScratchFile file;
  log({.filename = file.path()}, three_epochs);
  CHECK(file.content() == three_lines);
}

TEST_CASE("a file that is there is replaced, unless lines are to be appended") {
  const ScratchFile file;
  file.write("something else\n");
  log({.filename = file.path()}, three_epochs);
  CHECK(file.content() == three_lines);
  log({.filename = file.path(), .append = true}, {three_epochs[0]}, 7);
  CHECK(file.content() == three_lines + "7,0.3333333333333333,0.1\n");
}

TEST_CASE("appending to no file, or an empty one, writes the header") {
  const ScratchFile file;
  if (GENERATE(false, true)) file.write("");
  log({.filename = file.path(), .append = true}, three_epochs);
  CHECK(file.content() == three_lines);
}

TEST_CASE("appending cuts off a line that was not finished") {
  const ScratchFile file;
  file.write(three_lines + "3,0.1");
  log({.filename = file.path(), .append = true}, {three_epochs[0]}, 3);
  CHECK(file.content() == three_lines + "3,0.3333333333333333,0.1\n");
}

TEST_CASE("appending keeps a row that only lacks its end") {
  const ScratchFile file;
  file.write(three_lines.substr(0, three_lines.size() - 1));
  log({.filename = file.path(), .append = true}, {three_epochs[0]}, 3);
  CHECK(file.content() == three_lines + "3,0.3333333333333333,0.1\n");
}

TEST_CASE("appending other columns is a mistake of the user's, and the error names both") {
  const ScratchFile file;
  file.write("epoch,loss\n0,1\n");
  CHECK_THROWS_AS(log({.filename = file.path(), .append = true}, three_epochs), WrongInput);
  CHECK_THROWS_WITH(log({.filename = file.path(), .append = true}, three_epochs),
                    "CSVLogger: csv_logger_test.csv has the columns \"epoch,loss\", not "
                    "\"epoch,accuracy,loss\"; choose another file, or append: false");
  CHECK(file.content() == "epoch,loss\n0,1\n");
}

TEST_CASE("columns of validation are there from the beginning") {
  const ScratchFile file;
  log({.filename = file.path()}, {{{"loss", 1}}, {{"loss", 2}, {"val_loss", 3}}}, 0,
      {"loss", "val_loss"});
  CHECK(file.content() == "epoch,loss,val_loss\n0,1,NA\n1,2,3\n");
}

TEST_CASE("values that are no numbers, and another separator") {
  const ScratchFile file;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  log({.filename = file.path(), .separator = ';'}, {{{"loss", nan}, {"accuracy", -infinity}}});
  CHECK(file.content() == "epoch;accuracy;loss\n0;-inf;nan\n");
}

TEST_CASE("every line is in the file when its epoch has ended") {
  const ScratchFile file;
  class Look final : public Callback {
   public:
    explicit Look(const ScratchFile& file) : file_(&file) {}
    std::string class_name() const override { return "Look"; }
    void on_epoch_end(Training&) override { seen.push_back(file_->content()); }
    std::vector<std::string> seen;

   private:
    const ScratchFile* file_;
  };
  const auto look = std::make_shared<Look>(file);
  ScriptedTraining training({"loss"}, {CSVLogger({.filename = file.path()}), look});
  training.run(epochs_of("loss", {1, 2}));
  CHECK(look->seen == std::vector<std::string>{"epoch,loss\n0,1\n", "epoch,loss\n0,1\n1,2\n"});
}

TEST_CASE("a run that is continued replaces the lines of epochs that are trained again") {
  const ScratchFile file;
  const SharedCallback before = CSVLogger({.filename = file.path()});
  ScriptedTraining first({"loss", "accuracy"}, {before});
  first.run(three_epochs);
  const SharedCallback after = CSVLogger({.filename = file.path()});
  after->load(before->save());
  ScriptedTraining second({"loss", "accuracy"}, {after});
  second.run({three_epochs[0]}, 2);
  CHECK(file.content() ==
        "epoch,accuracy,loss\n"
        "0,0.3333333333333333,0.1\n"
        "1,1e-300,2\n"
        "2,0.3333333333333333,0.1\n");
}

TEST_CASE("only the root writes") {
  const ScratchFile file;
  ScriptedTraining training({"loss"}, {CSVLogger({.filename = file.path()})});
  training.root = false;
  training.run(epochs_of("loss", {1}));
  CHECK_FALSE(std::filesystem::exists(file.path()));
}

TEST_CASE("a file that cannot be written is an error that names it") {
  CHECK_THROWS_WITH(log({.filename = "no/such/folder/log.csv"}, three_epochs),
                    "CSVLogger: no/such/folder/log.csv cannot be opened: No such file or "
                    "directory");
  CHECK_THROWS_WITH(log({.filename = "/dev/full"}, three_epochs),
                    "CSVLogger: /dev/full cannot be written: No space left on device");
  CHECK_THROWS_WITH(CSVLogger({}), "CSVLogger: there is no file name");
}

}  // namespace meshwork::csv_logger_test
