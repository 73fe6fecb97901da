// Calls with types.
#include "runtime/rpc/rpc.h"

#include <chrono>
#include <numeric>
#include <thread>

#include "tests/support/catch.h"

namespace meshwork::rpc_test {

TEST_CASE("arguments and results of all types arrive") {
  const Communicator world = Communicator::world();
  const bool threads = GENERATE(true, false);
  Rpc rpc(world, {.threads = threads});
  rpc.define("score", [](std::vector<float> batch) -> double {
    return std::accumulate(batch.begin(), batch.end(), 0.0);
  });
  rpc.define("sum", [](std::span<const double> values, double start, int factor) {
    return factor * std::accumulate(values.begin(), values.end(), start);
  });
  rpc.define("greet", [](RpcCaller caller, const std::string& name, bool loudly) {
    return fmt::format("{} of {}{}", name, caller.rank, loudly ? "!" : "");
  });
  rpc.define("scale", [](std::vector<std::int64_t> values, std::int64_t by) {
    for (std::int64_t& value : values) value *= by;
    return values;
  });
  rpc.define("same", [](RpcArray<float> values) { return values; });
  rpc.define("words", [](std::string_view text) {
    return std::vector<std::string>{std::string(text), ""};
  });
  int kept = 0;
  rpc.define("keep", [&](int value) { kept = value; });
  rpc.define("kept", [&] { return kept; });
  rpc.open();
  const int next = (world.rank() + 1) % world.size();
  const std::vector<float> batch{1, 2, 3.5F};
  CHECK(rpc.call<double>(next, "score", batch).get() == 6.5);
  CHECK(rpc.call<double>(next, "score", std::vector<float>(100'000, 1)).get() == 100'000);
  const std::vector<double> values{1, 2};
  CHECK(rpc.call<double>(next, "sum", std::span(values), 0.5, 2).get() == 7);
  CHECK(rpc.call<double>(next, "sum", values, 1, 2).get() == 8);  // an integer for a number
  CHECK(rpc.call<std::string>(next, "greet", "Bo", true).get() ==
        fmt::format("Bo of {}!", world.rank()));
  CHECK(rpc.call<std::vector<std::int64_t>>(next, "scale", std::vector<std::int64_t>{1, -2}, 3)
            .get() == std::vector<std::int64_t>{3, -6});
  const RpcArray<float> large(std::vector<float>(50'000, 0.5F));
  const auto back = rpc.call<RpcArray<float>>(next, "same", large).get();
  CHECK(std::vector<float>(back.begin(), back.end()) == std::vector<float>(50'000, 0.5F));
  CHECK(rpc.call<std::vector<std::string>>(next, "words", "one").get() ==
        std::vector<std::string>{"one", ""});
  rpc.call(next, "keep", 42).get();
  CHECK(rpc.call<int>(next, "kept").get() == 42);
  CHECK(rpc.call<double>(next, "kept").get() == 42);
  rpc.call(next, "score", batch).get();  // whose result nobody wants
  rpc.close();
}

TEST_CASE("a call that does not fit its function is an error that says what does") {
  const Communicator world = Communicator::world();
  Rpc rpc(world);
  int runs = 0;
  rpc.define("score", [&](std::vector<float>, std::int8_t) {
    ++runs;
    return 1.0;
  });
  rpc.open();
  const int last = world.size() - 1;
  const std::string begin = fmt::format(
      "rank {}, function \"score\": it takes (array of float32, integer) and gives number; it was "
      "called with ",
      last);
  const std::vector<float> batch{1};
  CHECK_THROWS_WITH(rpc.call<double>(last, "score", "text", 1).get(),
                    begin + "(text, integer) for number");
  CHECK_THROWS_WITH(rpc.call<double>(last, "score", batch).get(),
                    begin + "(array of float32) for number");
  CHECK_THROWS_WITH(rpc.call<std::string>(last, "score", batch, 1).get(),
                    begin + "(array of float32, integer) for text");
  CHECK_THROWS_WITH(rpc.call<std::int64_t>(last, "score", batch, 1).get(),
                    begin + "(array of float32, integer) for integer");
  CHECK_THROWS_WITH(rpc.call(last, "score", std::vector<double>{1}, 1).get(),
                    begin + "(array of float64, integer) for nothing");
  CHECK_THROWS_WITH(rpc.call(last, "score", batch, 200).get(),
                    fmt::format("rank {}, function \"score\": 200 was given for an integer from "
                                "-128 to 127",
                                last));
  rpc.close();
  CHECK(runs == 0);
}

TEST_CASE("a name that is nearly right is answered with the right one") {
  const Communicator world = Communicator::world();
  Rpc rpc(world);
  rpc.define("score", [] { return 1; });
  rpc.define("train", [] {});
  rpc.open();
  try {
    rpc.call<int>(0, "scroe").get();
    FAIL("it went on");
  } catch (const UnknownFunction& error) {
    CHECK(std::string(error.what()) ==
          "rank 0 has no function \"scroe\"; it has \"score\", \"train\"; did you mean \"score\"?");
  }
  rpc.close();
}

TEST_CASE("limits of time, and errors of the far function, come through") {
  const Communicator world = Communicator::world();
  Rpc rpc(world, {.seconds = 0.05, .threads = true});
  rpc.define("sleep", [](double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return seconds;
  });
  rpc.define("throw", [](const std::string& text) -> std::vector<float> { fail("{}", text); });
  rpc.open();
  const int next = (world.rank() + 1) % world.size();
  CHECK_THROWS_AS(rpc.call<double>(next, "sleep", 0.5).get(), CallTimedOut);
  CHECK(rpc.call_within<double>(0, next, "sleep", 0.1).get() == 0.1);
  CHECK_THROWS_WITH(rpc.call_within<std::vector<float>>(30, next, "throw", "no rows").get(),
                    fmt::format("rank {}, function \"throw\": no rows", next));
  auto answer = rpc.call_within<double>(30, next, "sleep", 0.02);
  while (!answer.wait_for(0.001)) {
  }
  CHECK(answer.is_ready());
  CHECK(answer.get() == 0.02);
  CHECK_THROWS_WITH(answer.get(), "this answer has been taken, or is of no call");
  rpc.close();
}

}  // namespace meshwork::rpc_test
