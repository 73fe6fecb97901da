// A program whose last rank gets a signal, dies, fails or hangs in the way that its argument names,
// in the second epoch of a training run or in what the second argument names. How the job ends is
// what the tests look at (CMakeLists.txt here).
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "layers/dense.h"
#include "runtime/data/source.h"
#include "runtime/train/callbacks/terminate_on_nan.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizers/sgd.h"
#include "runtime/train/runtime.h"

using namespace meshwork;

namespace {

constexpr std::int64_t features = 6;

void sleep_for_ever() {
  std::this_thread::sleep_for(std::chrono::hours(1));
}

void do_it(const std::string& way) {
  if (way == "user1") std::raise(SIGUSR1);
  if (way == "terminate") std::raise(SIGTERM);
  if (way == "interrupt" || way == "interrupt_twice") std::raise(SIGINT);
  if (way == "interrupt_twice") std::raise(SIGINT);
  if (way == "kill") std::raise(SIGKILL);
  if (way == "abort") std::abort();
  if (way == "throw") fail("this rank alone has a problem");
  if (way == "hang") sleep_for_ever();
}

// Numbers that follow from their place. In `bad_read` of its reads, counted on this rank, it hangs.
class Numbers final : public Source {
 public:
  Numbers(std::int64_t rows, int bad_read, bool has_nan)
      : Source(
            rows,
            {{.name = "x",
              .shape = {features},
              .type = ElementType::float32,
              .role = FieldRole::feature},
             {.name = "y", .shape = {1}, .type = ElementType::float32, .role = FieldRole::target}},
            "numbers"),
        bad_read_(bad_read),
        has_nan_(has_nan) {}
  std::string fingerprint() const override { return "numbers"; }

 private:
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override {
    if (++reads_ == bad_read_) sleep_for_ever();
    auto* values = reinterpret_cast<float*>(destination);
    for (const std::int64_t row : rows) {
      for (std::int64_t i = block[0].begin; i < block[0].end; ++i) {
        const bool bad = has_nan_ && field == 1 && row == 17;
        *values++ = bad ? std::numeric_limits<float>::quiet_NaN()
                        : static_cast<float>((row * 7 + i * 3) % 11) / 11.0f;
      }
    }
  }
  int bad_read_;
  bool has_nan_;
  mutable int reads_ = 0;
};

// Does it at the end of the third batch of the second epoch, or of the first validation.
class DoIt final : public Callback {
 public:
  DoIt(std::string way, bool in_validation) : way_(std::move(way)), in_validation_(in_validation) {}
  std::string class_name() const override { return "DoIt"; }
  bool decides_alike() const override { return true; }
  void on_train_batch_end(Training& training) override {
    if (training.position().epoch == 1 && training.position().batch == 2 && !in_validation_) {
      do_it(way_);
    }
  }
  void on_test_batch_end(Training& training) override {
    if (in_validation_ && training.position().batch == 2) do_it(way_);
  }

 private:
  std::string way_;
  bool in_validation_;
};

// Does it when its state is to be saved, or is given back to it.
class DoItInCheckpoint final : public Callback {
 public:
  DoItInCheckpoint(std::string way, bool resumes, bool does_it)
      : way_(std::move(way)), resumes_(resumes), does_it_(does_it) {}
  std::string class_name() const override { return "DoItInCheckpoint"; }
  bool decides_alike() const override { return true; }
  CallbackState save() const override {
    if (does_it_ && !resumes_) do_it(way_);
    return {};
  }
  void load(const CallbackState&) override {
    if (does_it_ && resumes_) do_it(way_);
  }

 private:
  std::string way_;
  bool resumes_;
  bool does_it_;
};

int run(Runtime& runtime, const std::string& way, const std::string& where) {
  const StopRequest* request = &runtime.stop_request();
  const bool is_last = runtime.rank() == runtime.size() - 1;
  DeviceMesh mesh({{"data", -1}});
  const auto input = Input({features});
  const auto hidden = Dense({.name = "d1", .units = 5})(input);
  Model model(input, Dense({.name = "d2", .units = 1})(hidden), DataParallel(mesh),
              {.kernels = where == "timing" ? "timed" : "fixed",
               .watchdog_seconds = way == "hang" ? 1.0 : 20.0});
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.01})});
  const bool validates = where == "validation";
  const bool times = where == "timing";
  const bool trains = where == "training" || validates || times;
  const auto much = std::make_shared<Numbers>(400000, -1, false);
  const auto data = std::make_shared<Numbers>(
      trains ? 64 : 400000, is_last && where == "reading" ? 20 : -1, way == "nan");
  if (where == "saving" || where == "resuming") {
    const auto fit = [&](std::int64_t epochs, Resume resume, bool does_it) {
      (void)model.fit(std::make_shared<Numbers>(64, -1, false),
                      {.epochs = epochs,
                       .batch_size = 8,
                       .callbacks = {std::make_shared<DoItInCheckpoint>(way, where == "resuming",
                                                                        does_it && is_last)},
                       .verbose = Verbosity::silent,
                       .checkpoint = {.directory = "saved", .resume = resume}});
    };
    if (runtime.is_root()) std::filesystem::remove_all("saved");
    check_mpi(MPI_Barrier(runtime.world().native()), "MPI_Barrier");
    fit(1, Resume::never, where == "saving");
    fit(2, Resume::automatic, true);
    return 0;
  }
  if (trains || where == "reading") {
    std::vector<SharedCallback> callbacks;
    if (is_last && times) do_it(way);  // the timing finds that it was asked before it began
    if (is_last) callbacks.push_back(std::make_shared<DoIt>(way, validates));
    if (way == "nan") callbacks.push_back(TerminateOnNaN({.raise_error = true}));
    const History history = model.fit(data, {.epochs = 1000000,
                                             .batch_size = 8,
                                             .validation = validates ? much : nullptr,
                                             .callbacks = callbacks,
                                             .verbose = Verbosity::silent,
                                             .stop_request = request});
    require_agreement(runtime.world(), {std::to_string(model.iteration())}, "where they left");
    if (runtime.is_root()) {
      std::printf("all ranks left after %lld updates\n", static_cast<long long>(model.iteration()));
      std::fflush(stdout);
    }
    return history.stop_reason == 0 ? 0 : stopped_status(history.stop_reason);
  }
  // A signal that came before the work began is answered by it.
  if (is_last) do_it(way);
  if (where == "evaluation") {
    (void)model.evaluate(data, {.batch_size = 8, .stop_request = request});
  } else {
    (void)model.predict(data, {.batch_size = 8, .stop_request = request});
  }
  std::printf("it went on\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Runtime runtime(argc, argv);
  int result = 0;
  const int status = runtime.attempt(
      1, [&] { result = run(runtime, argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "training"); });
  return status != 0 ? status : result;
}
