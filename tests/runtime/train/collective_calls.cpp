// Calls that not all ranks make alike: with `check_plan`, an error on all of them that says which
// rank called what; the model is there afterwards.
#include <functional>

#include "collectives/error.h"
#include "layers/dense.h"
#include "runtime/mesh/sharded_tensor.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::collective_calls_test {

using namespace meshwork::test;

namespace {

using Floats = std::vector<float>;

constexpr std::int64_t rows = 32;

std::shared_ptr<const Source> samples() {
  return std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", Floats(rows * 2, 1.0f), {rows, 2}),
                         Array("t", Floats(rows, 0.5f), {rows}, FieldRole::target)});
}

Model make_model(DeviceMesh& mesh, bool check_plan = true, const std::string& name = "line") {
  const auto x = Input({2});
  Model model(x, Dense({.name = name, .units = 1})(x), DataParallel(mesh),
              {.check_plan = check_plan});
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.1})});
  return model;
}

int last_rank() {
  return Communicator::world().size() - 1;
}

// What is thrown where the last rank does `alone` and the others `rest`.
std::string refusal(const std::function<void()>& rest, const std::function<void()>& alone) {
  try {
    Communicator::world().rank() == last_rank() ? alone() : rest();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string others_call(const std::string& what) {
  return (last_rank() == 1   ? "rank 0 calls "
          : last_rank() == 2 ? "ranks 0, 1 call "
                             : "ranks 0, 1, 2 call ") +
         what;
}

}  // namespace

TEST_CASE("a call that one rank makes alone is an error on all, which says who called what") {
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh);
  const auto data = samples();
  const std::string last = fmt::format("; rank {} calls ", last_rank());
  const auto variable = [&] { (void)model.variable("line/kernel"); };
  const auto fit = [&] { (void)model.fit(data, {.verbose = Verbosity::silent}); };
  const auto evaluate = [&] { (void)model.evaluate(data); };
  const auto predict = [&] { (void)model.predict(data); };
  const auto set = [&] { model.set_variable("line/bias", Floats{1}); };
  const auto save = [&] { model.save_weights("calls.h5"); };
  const auto load = [&] { (void)model.load_weights("calls.h5"); };
  const auto plan = [&] { (void)model.plan(data, rows); };
  const auto step = [&] {
    const Floats ones(rows * 2, 1.0f);
    (void)model.train_step({rows, {ones}, {std::span(ones).first(rows)}});
  };
  const auto make = [&] { (void)make_model(mesh); };
  const std::vector<std::pair<std::string, std::function<void()>>> calls{
      {"variable", variable}, {"fit", fit},   {"evaluate", evaluate}, {"predict", predict},
      {"set_variable", set},  {"plan", plan}, {"save_weights", save}, {"load_weights", load},
      {"train_step", step},   {"Model", make}};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto& [name, call] = calls[i];
    const auto& [other_name, other] = calls[(i + 1) % calls.size()];
    CHECK_THAT(refusal(other, call),
               Catch::StartsWith("the ranks make different calls: " + others_call(other_name) +
                                 last + name + "."));
  }
  // Nothing was begun: all of them still can.
  fit();
  CHECK(model.variable("line/bias").size() == 1);
}

TEST_CASE("a call whose arguments differ between ranks is an error that names the argument") {
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh);
  CHECK_THAT(refusal([&] { (void)model.variable("line/kernel"); },
                     [&] { (void)model.variable("line/bias"); }),
             Catch::Contains(fmt::format("the ranks do not agree on what variable is given: path: "
                                         "rank 0 has line/kernel, rank {} has line/bias",
                                         last_rank())));
  CHECK_THAT(refusal([&] { model.set_variable("line/bias", Floats{1}); },
                     [&] { model.set_variable("line/bias", Floats{2}); }),
             Catch::Contains("what set_variable is given: hash of the values"));
  CHECK_THAT(
      refusal([&] { model.save_weights("one.h5"); }, [&] { model.save_weights("other.h5"); }),
      Catch::Contains("what save_weights is given: file: rank 0 has one.h5"));
  const Floats ones(rows * 2, 1.0f), twos(rows * 2, 2.0f);
  const auto step = [&](const Floats& x) {
    (void)model.train_step({rows, {x}, {std::span(ones).first(rows)}});
  };
  CHECK_THAT(refusal([&] { step(ones); }, [&] { step(twos); }),
             Catch::Contains("what train_step is given: hash of input 0"));
  Model other = make_model(mesh, true, "curve");
  CHECK_THAT(
      refusal([&] { (void)model.evaluate(samples()); }, [&] { (void)other.evaluate(samples()); }),
      Catch::Contains("what evaluate is given: model: rank 0 has the model of \"line\""));
}

TEST_CASE("what callbacks ask of a run is compared, too") {
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh);
  class Asking final : public Callback {
   public:
    std::string class_name() const override { return "Asking"; }
    void on_epoch_end(Training& training) override {
      refused_ = refusal([&] { (void)training.snapshot_weights(); },
                         [&] {
                           double value = 0;
                           training.agree(std::span(&value, 1));
                         });
    }
    std::string refused_;
  };
  const auto asking = std::make_shared<Asking>();
  (void)model.fit(samples(), {.callbacks = {asking}, .verbose = Verbosity::silent});
  CHECK_THAT(asking->refused_, Catch::Contains(others_call("snapshot_weights")));
}

TEST_CASE("where calls are checked, those of sharded tensors are, and models made then") {
  DeviceMesh mesh({{"data", -1}});
  mesh.check_calls();
  CHECK(mesh.checks_calls());
  const std::unique_ptr<Device> device = make_device({});
  const std::unique_ptr<Transport> transport = make_transport("mpi", mesh.all());
  const MeshContext context{*device, mesh, *transport};
  const ShardedTensor tensor(context, ElementType::float32, {4, 4}, Layout::replicated(2));
  Floats whole(16);
  CHECK_THAT(refusal([&] { tensor.gather(whole.data()); },
                     [&] { (void)tensor.redistributed(Layout::replicated(2)); }),
             Catch::Contains(others_call("ShardedTensor::gather")));
  CHECK_THAT(
      refusal([&] { tensor.gather(whole.data(), 0); }, [&] { tensor.gather(whole.data(), 1); }),
      Catch::Contains("what ShardedTensor::gather is given: root: rank 0 has 0"));
  CHECK_THAT(refusal([&] { (void)make_model(mesh, false, "one"); },
                     [&] { (void)make_model(mesh, false, "other"); }),
             Catch::Contains("what Model is given: model"));
}

}  // namespace meshwork::collective_calls_test
