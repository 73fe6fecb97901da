// Remote procedure calls: functions with types that ranks run for each other.
//
//     Rpc rpc(runtime.world());                                            // all ranks
//     rpc.define("score", [&](std::vector<float> batch) -> double { ... });
//     rpc.open();                                                          // from now on it answers
//     auto answer = rpc.call<double>(3, "score", batch);                   // goes on at once
//     ...
//     const double score = answer.get();
//     rpc.close();                                                         // all ranks
//
// values.h says which types arguments and results may have. What a call promises, and who brings it
// on, stands in collectives/calls.h; here that is given types. A function's first parameter may be
// an `RpcCaller`, which says who calls. Functions run one at a time, in a thread of their own
// beside what the rank's program does: what they share with that needs a lock. Where there are no
// threads, calls.h says in which function of the program they run, which must hold no such lock
// there.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "collectives/calls.h"
#include "runtime/rpc/values.h"

namespace meshwork {

using RpcOptions = CallsOptions;

class RoleEnd;
class RolesAtWork;

/// The rank that calls a function.
struct RpcCaller {
  int rank = 0;
};

template <class Result>
inline constexpr bool is_view = false;
template <class Element>
inline constexpr bool is_view<std::span<Element>> = true;

/// What will be the result of a call; dropped, the function runs all the same.
template <class Result>
class RpcAnswer {
  static_assert(!is_view<Result>, "a result has an owner: take a std::vector or an RpcArray");

 public:
  RpcAnswer() = default;
  explicit RpcAnswer(Answer answer) : answer_(std::move(answer)) {}

  /// Whether `get` would not wait.
  [[nodiscard]] bool is_ready() const { return answer_.is_ready(); }
  /// Waits for at most `seconds`. Whether it is ready.
  bool wait_for(double seconds) { return answer_.wait_for(seconds); }
  /// Waits. Once only. Throws `CallFailed` with the message of what the function threw, or with
  /// what it takes and gives where the call does not fit it; `UnknownFunction`, with the nearest
  /// name; `CallTimedOut`; or `RanksParted` where its rank is gone.
  Result get();

 private:
  Answer answer_;
};

/// What `answer` brings. Names the nearest function where there is none of the name.
[[nodiscard]] RpcReader rpc_result(Answer& answer);
/// Throws what a call with the codes of `given`, a result and arguments, has wrong for a function
/// of `result` and `parameters`.
void rpc_check(char result, std::string_view parameters, std::string_view given);

/// What was read, as the parameter of a function that takes it.
template <class Parameter, class Value>
Parameter rpc_pass(Value& value) {
  if constexpr (std::is_lvalue_reference_v<Parameter>) {
    return value;
  } else {
    return Parameter(std::move(value));
  }
}

class Rpc {
 public:
  /// Between `ranks`, which all call this. Where the program's own thread has to bring calls on,
  /// rank 0 says so on standard error.
  explicit Rpc(const Communicator& ranks, const RpcOptions& options = {});

  /// What this rank answers to `name` with. Not collective. `function` has parameters and a result
  /// that calls carry (values.h), after an `RpcCaller` perhaps. What it throws, the caller gets.
  template <class Function>
  void define(std::string name, Function function) {
    define_as(std::move(name), std::function(std::move(function)));
  }
  /// This rank answers from now on, also what has come before. Not collective.
  void open() { calls_.open(); }

  /// Calls the function `name` of `rank`, and does not wait.
  template <class Result = void, class... Arguments>
  [[nodiscard]] RpcAnswer<Result> call(int rank, std::string_view name, Arguments&&... arguments) {
    return call_within<Result>(-1, rank, name, std::forward<Arguments>(arguments)...);
  }
  /// The same, with a time limit of its own: `seconds`, where 0 means none.
  template <class Result = void, class... Arguments>
  [[nodiscard]] RpcAnswer<Result> call_within(double seconds, int rank, std::string_view name,
                                              Arguments&&... arguments) {
    RpcWriter writer;
    writer.code(RpcType<Result>::code);
    (RpcType<std::decay_t<Arguments>>::write(writer, std::forward<Arguments>(arguments)), ...);
    return RpcAnswer<Result>(calls_.call(rank, name, writer.finish(), {.seconds = seconds}));
  }

  /// Throws `RanksParted` if `rank` is gone, while this one waits for it `where` (calls.h).
  void require_present(int rank, std::string_view where) { calls_.require_present(rank, where); }

  /// Without threads (`has_threads`): looks for what has come, and runs functions. A model's steps
  /// do so between two instructions.
  void progress() { calls_.progress(); }
  /// Every rank calls it. Returns when all calls of all ranks are answered.
  void close() { calls_.close(); }

  [[nodiscard]] bool has_threads() const { return calls_.has_threads(); }
  [[nodiscard]] int rank() const { return calls_.rank(); }
  [[nodiscard]] int size() const { return calls_.size(); }

 private:
  // They wait by `serve` where the service has no threads.
  friend class RoleEnd;
  friend class RolesAtWork;

  /// `Calls::serve`.
  bool serve(const std::function<bool()>& ready, double seconds, const std::string& doing) {
    return calls_.serve(ready, seconds, doing);
  }
  template <class Result, class... Parameters>
  void define_as(std::string name, std::function<Result(RpcCaller, Parameters...)> function) {
    calls_.define(
        std::move(name), [function = std::move(function)](int caller, CallPayload payload) {
          const std::string parameters{RpcType<std::remove_cvref_t<Parameters>>::code...};
          RpcReader reader(std::move(payload));
          rpc_check(RpcType<Result>::code, parameters, reader.codes());
          reader.skip_code();
          // Braces: read in their order.
          auto arguments =
              std::tuple<decltype(RpcType<std::remove_cvref_t<Parameters>>::read(reader))...>{
                  RpcType<std::remove_cvref_t<Parameters>>::read(reader)...};
          const auto run = [&](auto&... values) -> Result {
            return function(RpcCaller{caller}, rpc_pass<Parameters>(values)...);
          };
          RpcWriter writer;
          if constexpr (std::is_void_v<Result>) {
            std::apply(run, arguments);
            writer.nothing();
          } else {
            RpcType<Result>::write(writer, std::apply(run, arguments));
          }
          return writer.finish();
        });
  }
  template <class Result, class... Parameters>
  void define_as(std::string name, std::function<Result(Parameters...)> function) {
    define_as(std::move(name),
              std::function<Result(RpcCaller, Parameters...)>(
                  [function = std::move(function)](RpcCaller, Parameters... values) -> Result {
                    return function(std::forward<Parameters>(values)...);
                  }));
  }

  Calls calls_;
};

template <class Result>
Result RpcAnswer<Result>::get() {
  RpcReader reader = rpc_result(answer_);
  if constexpr (!std::is_void_v<Result>) return RpcType<Result>::read(reader);
}

}  // namespace meshwork
