#include "runtime/train/roles/evaluate.h"

#include <mpi.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/hosted.h"
#include "runtime/train/roles/role.h"
#include "runtime/train/run_config.h"

namespace meshwork {

namespace {

constexpr const char* call_of_evaluators = "evaluate";
constexpr const char* readiness_of_evaluators = "evaluators are ready";
constexpr const char* names_of_evaluators = "names of what was evaluated";
constexpr const char* news_for_evaluators = "the next evaluation";

/// Between the thread that is called and the one that evaluates: one job at a time. Where calls have no
/// threads, it is one.
struct EvaluationDesk {
  std::optional<RpcArray<float>> weights;  // to evaluate
  std::optional<std::vector<double>> values;
  std::vector<std::string> names;  // of these
  bool is_ready = false;
  bool has_news = false;  // of ranks other than the first: there is an evaluation for all
  std::string failure;    // after which nothing more is evaluated
  /// Evaluates what was given. Null: another thread does, which waits for it.
  std::function<void()> evaluate;
};

class EvaluateRole final : public Role {
 public:
  void run(RoleRun& run) const override {
    auto& desk = run.keep<EvaluationDesk>();
    define(run, desk);
    try {
      evaluate_all(run, desk);
    } catch (const RanksParted&) {
      throw;
    } catch (const std::exception& error) {
      // Who trains says it, once.
      run.end.change([&] { desk.failure = message_of(error); });
    }
    run.end.wait();
  }

 private:
  static void define(RoleRun& run, EvaluationDesk& desk) {
    const auto wait_for = [&run, &desk](const std::function<bool()>& ready) {
      const bool is_ready = run.end.wait_for([&] { return ready() || !desk.failure.empty(); });
      if (!desk.failure.empty()) fail("{}", desk.failure);
      if (!is_ready) fail("training has ended");
    };
    run.rpc.define(readiness_of_evaluators,
                   [&desk, wait_for] { wait_for([&] { return desk.is_ready; }); });
    run.rpc.define(news_for_evaluators,
                   [&run, &desk] { run.end.change([&desk] { desk.has_news = true; }); });
    run.rpc.define(names_of_evaluators, [&run, &desk] {
      std::vector<std::string> names;
      run.end.change([&] { names = desk.names; });
      return names;
    });
    run.rpc.define(call_of_evaluators, [&run, &desk, wait_for](RpcArray<float> weights) {
      run.end.change([&] { desk.weights = std::move(weights); });
      if (desk.evaluate && desk.failure.empty()) desk.evaluate();
      wait_for([&] { return desk.values.has_value(); });
      std::vector<double> values;
      run.end.change([&] { values = *std::exchange(desk.values, std::nullopt); });
      return values;
    });
  }

  static void evaluate_all(RoleRun& run, EvaluationDesk& desk) {
    const RunConfig config = run.config.by_itself();
    TrainingData data;
    together(run.ranks, [&] { data = config.open_training(); });
    if (!data.validation) {
      fail(
          "roles: \"evaluate\" needs validation data; name them in data.validation, or set "
          "fit.validation_split");
    }
    std::optional<DeviceMesh> mesh;
    std::optional<Model> made;
    const EvaluateOptions options{.batch_size = config.evaluation_batch_size()};
    together(run.ranks, [&] {
      mesh.emplace(config.mesh());
      made.emplace(config.make_model(*mesh));
      (void)made->plan(data.validation, options.batch_size, Mode::evaluate);
    });
    Model& model = *made;
    const bool is_first = run.ranks.rank() == 0;
    std::vector<float> weights(elements_of(model.graph()));
    // The first rank's word, whether there is something to evaluate. The others wait for it as they
    // wait for the end: meanwhile they serve calls and pass on signals.
    const std::vector<int> evaluators = run.roles.ranks_of(evaluating_role);
    const auto there_is_more = [&](bool own) {
      int more = own ? 1 : 0;
      if (!is_first) {
        static_cast<void>(run.end.wait_for([&] { return desk.has_news; }));
        run.end.change([&] { desk.has_news = false; });
      }
      for (std::size_t i = 1; is_first && own && i < evaluators.size(); ++i) {
        static_cast<void>(run.rpc.call(evaluators[i], news_for_evaluators));
      }
      await_ranks(run.ranks);
      check_mpi(MPI_Bcast(&more, 1, MPI_INT, 0, run.ranks.native()), "MPI_Bcast");
      return more != 0;
    };
    const auto evaluate = [&] {
      // What one of them cannot do ends the evaluation on all.
      together(run.ranks, [&] {
        if (is_first) copy_given(run, desk, weights);
      });
      Logs logs;
      together(run.ranks, [&] {
        take(model, run.ranks, weights);
        logs = model.evaluate(data.validation, options);
      });
      std::vector<double> values;
      for (const auto& [name, value] : logs) values.push_back(value);
      run.end.change([&] {
        desk.names = logs.names();
        desk.values = std::move(values);
      });
    };
    if (is_first && !run.rpc.has_threads()) {
      desk.evaluate = [&] {
        try {
          static_cast<void>(there_is_more(true));
          evaluate();
        } catch (const RanksParted&) {
          throw;
        } catch (const std::exception& error) {
          desk.failure = message_of(error);
        }
      };
    }
    run.end.change([&] { desk.is_ready = true; });
    if (desk.evaluate) {
      run.end.wait();
      desk.evaluate = nullptr;
      if (desk.failure.empty()) static_cast<void>(there_is_more(false));
      return;
    }
    for (;;) {
      const bool is_given = is_first && run.end.wait_for([&] { return desk.weights.has_value(); });
      if (!there_is_more(is_given)) return;
      evaluate();
    }
  }

  /// What the first rank was given.
  static void copy_given(RoleRun& run, EvaluationDesk& desk, std::span<float> weights) {
    RpcArray<float> given;
    run.end.change([&] { given = *std::exchange(desk.weights, std::nullopt); });
    if (given.size() != weights.size()) {
      fail("roles: the weights have {} elements, and the evaluators' model has {}", given.size(),
           weights.size());
    }
    std::copy(given.begin(), given.end(), weights.begin());
  }

  static std::size_t elements_of(const Graph& graph) {
    std::size_t elements = 0;
    for (const Variable& variable : graph.variables) {
      elements += static_cast<std::size_t>(element_count(variable.options.shape));
    }
    return elements;
  }
  /// Gives all ranks the weights of the first, and the model.
  static void take(Model& model, const Communicator& ranks, std::vector<float>& weights) {
    constexpr std::size_t most = 1 << 28;  // elements in a call of MPI
    for (std::size_t at = 0; ranks.size() > 1 && at < weights.size(); at += most) {
      const std::size_t count = std::min(most, weights.size() - at);
      check_mpi(
          MPI_Bcast(weights.data() + at, static_cast<int>(count), MPI_FLOAT, 0, ranks.native()),
          "MPI_Bcast");
    }
    std::size_t at = 0;
    for (const Variable& variable : model.graph().variables) {
      const auto count = static_cast<std::size_t>(element_count(variable.options.shape));
      model.set_variable(variable.path, std::span(weights).subspan(at, count));
      at += count;
    }
  }
};

class EvaluatorsByCalls final : public EpochEvaluator {
 public:
  EvaluatorsByCalls(Rpc& rpc, int rank, double seconds)
      : rpc_(&rpc), rank_(rank), seconds_(seconds) {}

  void start(std::int64_t, std::vector<float> weights) override {
    // What is wrong with the evaluators is known before the first epoch's values are waited for.
    if (!std::exchange(are_ready_, true)) {
      rpc_->call_within(seconds_, rank_, readiness_of_evaluators).get();
    }
    answer_ = rpc_->call_within<std::vector<double>>(seconds_, rank_, call_of_evaluators,
                                                     std::move(weights));
  }

  Logs finish() override {
    const std::vector<double> values = answer_.get();
    if (names_.empty()) {
      names_ =
          rpc_->call_within<std::vector<std::string>>(seconds_, rank_, names_of_evaluators).get();
    }
    if (values.size() != names_.size()) internal_error("evaluators give more values than names");
    Logs logs;
    for (std::size_t i = 0; i < values.size(); ++i) logs.set(names_[i], values[i]);
    return logs;
  }

 private:
  Rpc* rpc_;
  int rank_;
  double seconds_;
  bool are_ready_ = false;
  std::vector<std::string> names_;
  RpcAnswer<std::vector<double>> answer_;
};

}  // namespace

std::shared_ptr<EpochEvaluator> evaluator_at(Rpc& rpc, int rank, double seconds) {
  return std::make_shared<EvaluatorsByCalls>(rpc, rank, seconds);
}

void add_evaluate(Catalog& catalog) {
  catalog.add<SharedRole, NoRoleOptions>(
      evaluating_role, {"evaluate"},
      [](const NoRoleOptions&) { return std::make_shared<const EvaluateRole>(); }, {},
      "evaluates each epoch's weights on the validation data while the others train on");
}

}  // namespace meshwork
