// A Runtime on a communicator of a program's: what fails on one rank is an exception on all, nobody
// hangs, and the program goes on.
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/hosted.h"
#include "layers/dense.h"
#include "runtime/shape/block_parts.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "runtime/train/runtime.h"
#include "tests/support/one_rank.h"

namespace meshwork::hosted_test {

using namespace meshwork::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::int64_t rows = 24;

MPI_Comm world() {
  return Communicator::world().native();
}
int rank() {
  return Communicator::world().rank();
}
int size() {
  return Communicator::world().size();
}
bool is_last() {
  return rank() + 1 == size();
}

std::shared_ptr<const Source> samples() {
  return std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", random_floats(rows * 2, 3), {rows, 2}),
                         Array("t", random_floats(rows, 4), {rows}, FieldRole::target)});
}

Model make_model(DeviceMesh& mesh, ModelOptions options = {}) {
  const auto x = Input({2});
  auto y = Dense({.name = "a", .units = 3, .activation = Activation::relu})(x);
  Model model(x, Dense({.name = "b", .units = 1})(y), DataParallel(mesh), std::move(options));
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.1})});
  return model;
}

// A callback that does `action` behind step 2.
class Behind final : public Callback {
 public:
  explicit Behind(std::function<void()> action) : action_(std::move(action)) {}
  std::string class_name() const override { return "Behind"; }
  void on_train_batch_end(Training& training) override {
    if (training.position().batch == 2) action_();
  }

 private:
  std::function<void()> action_;
};

// Data whose last rows cannot be read on the last rank.
class Damaged final : public Source {
 public:
  Damaged()
      : Source(hosted_test::rows,
               {{.name = "x", .shape = {2}}, {.name = "t", .shape = {}, .role = FieldRole::target}},
               "damaged data") {}
  std::string fingerprint() const override { return "damaged"; }

 private:
  void read_rows(int, std::span<const std::int64_t> asked, const Block& block,
                 std::byte* destination) const override {
    if (is_last() && asked.back() > hosted_test::rows - 3) fail("row {} is damaged", asked.back());
    std::fill_n(reinterpret_cast<float*>(destination),
                static_cast<std::int64_t>(asked.size()) * size_of(block), 0.5f);
  }
};

// What `run` throws, or "".
std::string thrown(Runtime& runtime, const std::function<void()>& body) {
  try {
    runtime.run(body);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string by_last_rank(const std::string& message) {
  return size() == 1 ? message : fmt::format("rank {}: {}", size() - 1, message);
}

// By messages of the program's own, of which the runtime knows nothing.
void tell_last() {
  if (rank() == 0) check_mpi(MPI_Send(nullptr, 0, MPI_BYTE, size() - 1, 0, world()), "MPI_Send");
}
void wait_for_first(std::chrono::seconds limit) {
  const auto start = std::chrono::steady_clock::now();
  for (int told = 0; told == 0 && std::chrono::steady_clock::now() - start < limit;) {
    check_mpi(MPI_Iprobe(0, 0, world(), &told, MPI_STATUS_IGNORE), "MPI_Iprobe");
    if (told != 0) {
      check_mpi(MPI_Recv(nullptr, 0, MPI_BYTE, 0, 0, world(), MPI_STATUS_IGNORE), "MPI_Recv");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Calls `action` with transports' names: MPI's, that of one node, and that of nodes of a rank each.
void for_transports(const std::function<void(const std::string&)>& action) {
  action("mpi");
  action("auto");
  ::setenv("MESHWORK_RANKS_A_NODE", "1", 1);
  action("auto");
  ::unsetenv("MESHWORK_RANKS_A_NODE");
}

}  // namespace

TEST_CASE("a program's communicator trains as one of its own does") {
  const auto train = [&](DeviceMesh& mesh) {
    Model model = make_model(mesh, {.seed = 3});
    model.fit(samples(), {.epochs = 2, .batch_size = 8, .verbose = Verbosity::silent});
    return variables_of(model);
  };
  DeviceMesh own({{"data", -1}});
  const auto expected = train(own);
  Runtime runtime(world());
  CHECK(runtime.size() == size());
  CHECK(runtime.rank() == rank());
  CHECK(thrown(runtime, [&] {
          DeviceMesh mesh({{"data", -1}});
          CHECK(train(mesh) == expected);
        }) == "");
}

TEST_CASE("a rank that a split leaves out has no Runtime") {
  CHECK_THROWS_WITH(Runtime(MPI_COMM_NULL), ContainsSubstring("MPI_COMM_NULL was given"));
}

TEST_CASE("an exception in a callback of one rank is one on all ranks, and the program goes on") {
  for_transports([](const std::string& transport) {
    INFO(transport);
    {
      Runtime runtime(world());
      CHECK(thrown(runtime, [&] {
              DeviceMesh mesh({{"data", -1}});
              Model model = make_model(mesh, {.collectives = transport});
              model.fit(
                  samples(),
                  {.epochs = 3, .batch_size = 4, .callbacks = {std::make_shared<Behind>([] {
                                                   if (is_last())
                                                     throw std::runtime_error("the lamp is out");
                                                 })}});
            }) == by_last_rank("the lamp is out"));
    }
    // Another Runtime on the same communicator.
    Runtime runtime(world());
    CHECK(thrown(runtime, [&] {
            DeviceMesh mesh({{"data", -1}});
            make_model(mesh, {.collectives = transport}).fit(samples(), {.batch_size = 4});
          }) == "");
  });
}

TEST_CASE(
    "data that one rank cannot read, and a step that one rank leaves out, end all ranks' work") {
  for_transports([](const std::string& transport) {
    INFO(transport);
    {
      Runtime runtime(world());
      CHECK_THAT(thrown(runtime,
                        [&] {
                          DeviceMesh mesh({{"data", -1}});
                          Model model = make_model(mesh, {.collectives = transport});
                          model.fit(std::make_shared<Damaged>(),
                                    {.batch_size = 8, .shuffle = false});
                        }),
                 ContainsSubstring("is damaged"));
    }
    Runtime runtime(world());
    CHECK(thrown(runtime, [&] {
            DeviceMesh mesh({{"data", -1}});
            Model model = make_model(mesh, {.collectives = transport});
            const std::vector<float> x(16, 1.0f), t(8, 0.5f);
            for (int step = 0; step < 5; ++step) {
              if (step == 3 && is_last()) fail("the solver has diverged");
              (void)model.train_step({.rows = 8, .inputs = {x}, .targets = {t}});
            }
          }) == by_last_rank("the solver has diverged"));
  });
}

TEST_CASE("what is wrong on all ranks is said once, and what is there goes on") {
  Runtime runtime(world());
  DeviceMesh mesh({{"data", -1}});
  std::optional<Model> model;
  runtime.run([&] { model.emplace(make_model(mesh)); });
  const std::vector<float> x(16, 1.0f), t(8, 0.5f);
  CHECK_THAT(
      thrown(runtime, [&] { (void)model->train_step({.rows = 8, .inputs = {}, .targets = {t}}); }),
      ContainsSubstring("the model has 1 inputs, the batch 0"));
  CHECK(thrown(runtime,
               [&] { (void)model->train_step({.rows = 8, .inputs = {x}, .targets = {t}}); }) == "");
}

TEST_CASE("parts of a program fail and train side by side") {
  if (size() < 2) return;
  const bool fails = rank() == 1, beside = rank() % 2 == 0;
  const Communicator part = Communicator::world().split(rank() % 2, rank());
  const std::string failure = [&] {
    Runtime runtime(part.native());
    return thrown(runtime, [&] {
      DeviceMesh mesh({{"data", -1}});
      Model model = make_model(mesh);
      model.fit(samples(),
                {.epochs = 3, .batch_size = 4, .callbacks = {std::make_shared<Behind>([&] {
                                                 if (fails)
                                                   throw std::runtime_error("part 1 is out");
                                               })}});
    });
  }();
  if (beside) {
    CHECK(failure == "");
  } else {
    CHECK_THAT(failure, ContainsSubstring("part 1 is out"));
  }
}

TEST_CASE("a rank that does not come is named to all by the watchdog") {
  if (size() < 2) return;
  Runtime runtime(world());
  const auto start = std::chrono::steady_clock::now();
  CHECK_THAT(thrown(runtime,
                    [&] {
                      DeviceMesh mesh({{"data", -1}});
                      Model model = make_model(mesh, {.collectives = "mpi", .watchdog_seconds = 1});
                      const std::vector<float> x(16, 1.0f), t(8, 0.5f);
                      const auto train = [&] {
                        (void)model.train_step({.rows = 8, .inputs = {x}, .targets = {t}});
                      };
                      train();
                      train();
                      // The last comes when the first has given up.
                      if (is_last()) wait_for_first(std::chrono::seconds(25));
                      try {
                        train();
                      } catch (const std::exception&) {
                        tell_last();
                        throw;
                      }
                    }),
             ContainsSubstring("watchdog: ") && ContainsSubstring("not come to it"));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
}

TEST_CASE("a rank that is done waits for slower ones, which go on") {
  Runtime runtime(world());
  CHECK(thrown(runtime, [&] {
          const Communicator half = Communicator::world().split(rank() == 0 ? 0 : 1, rank());
          if (rank() == 0) return;
          // Longer than a rank that failed waits before it tells the others.
          std::this_thread::sleep_for(std::chrono::seconds(1));
          for (int i = 0; i < 3; ++i) (void)on_all(half, true);
        }) == "");
}

TEST_CASE("a failed model's layers can be used in another model") {
  const SharedLayer line = Dense({.name = "line", .units = 1});
  const auto train = [&](bool fails) {
    DeviceMesh mesh({{"data", -1}});
    const auto x = Input({2});
    Model model(x, line(x), DataParallel(mesh), {.collectives = "mpi"});
    model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.1})});
    const std::vector<float> features(16, 1.0f), t(8, 0.5f);
    for (int step = 0; step < 2; ++step) {
      if (fails && step == 1 && is_last()) fail("it is dark");
      (void)model.train_step({.rows = 8, .inputs = {features}, .targets = {t}});
    }
  };
  {
    Runtime runtime(world());
    CHECK(thrown(runtime, [&] { train(true); }) == by_last_rank("it is dark"));
    if (size() > 1) CHECK_THAT(thrown(runtime, [] {}), ContainsSubstring("make another one"));
  }
  Runtime runtime(world());
  CHECK(thrown(runtime, [&] { train(false); }) == "");
}

TEST_CASE("a rank is in one such job at a time") {
  Runtime runtime(world());
  CHECK_THROWS_WITH(Runtime(world()), ContainsSubstring("another Runtime"));
}

}  // namespace meshwork::hosted_test
