// Calls between ranks.
#include "collectives/calls.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "collectives/call_messages.h"
#include "collectives/hosted.h"
#include "tests/support/catch.h"

namespace meshwork::calls_test {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Sets a variable of the environment for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (value != nullptr) ::setenv(name, value, 1);
  }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

CallBlock block_of(std::vector<std::uint32_t> values) {
  const auto owner = std::make_shared<const std::vector<std::uint32_t>>(std::move(values));
  return {std::as_bytes(std::span(*owner)), owner};
}

std::vector<std::uint32_t> values_of(const CallBlock& block) {
  std::vector<std::uint32_t> values(block.bytes.size() / sizeof(std::uint32_t));
  if (!values.empty()) std::memcpy(values.data(), block.bytes.data(), block.bytes.size());
  return values;
}

/// `count` numbers that tell `seed`, and where each stands.
std::vector<std::uint32_t> pattern(std::size_t count, std::uint32_t seed) {
  std::vector<std::uint32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<std::uint32_t>(i) * 2654435761U + seed;
  }
  return values;
}

CallPayload reversed(int /*caller*/, CallPayload text) {
  std::ranges::reverse(text.front);
  return text;
}

CallPayload same(int /*caller*/, CallPayload payload) {
  return payload;
}

/// Who brings calls on, and whether each rank is a node.
struct Way {
  bool threads;
  bool apart;
};
Way any_way() {
  return GENERATE(Way{true, false}, Way{false, false}, Way{true, true}, Way{false, true});
}

}  // namespace

TEST_CASE("a rank has the answers of all ranks, itself included") {
  const Communicator world = Communicator::world();
  const Way way = any_way();
  const Variable nodes("MESHWORK_RANKS_A_NODE", way.apart ? "1" : nullptr);
  Calls calls(world, {.threads = way.threads});
  CHECK(calls.has_threads() == way.threads);
  calls.define("who", [&](int caller, CallPayload text) {
    return CallPayload{.front = fmt::format("{} of {} for {}", text.front, world.rank(), caller)};
  });
  calls.open();
  for (int turn = 0; turn < 20; ++turn) {
    std::vector<Answer> answers;
    for (int rank = 0; rank < world.size(); ++rank) {
      answers.push_back(calls.call(rank, "who", {.front = fmt::format("call {}", turn)}));
    }
    for (int rank = 0; rank < world.size(); ++rank) {
      CHECK(answers[static_cast<std::size_t>(rank)].get().front ==
            fmt::format("call {} of {} for {}", turn, rank, world.rank()));
    }
  }
  calls.close();
}

TEST_CASE("calls that come before a rank is open wait until it is") {
  const Communicator world = Communicator::world();
  Calls calls(world);
  const int next = (world.rank() + 1) % world.size();
  Answer answer = calls.call(next, "reverse", {.front = "abc"});
  CHECK_FALSE(answer.wait_for(0.02));
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
  calls.define("reverse", reversed);
  calls.open();
  CHECK(answer.get().front == "cba");
}

TEST_CASE("payloads of any size arrive, in both directions") {
  const Communicator world = Communicator::world();
  const bool threads = GENERATE(true, false);
  Calls calls(world, {.threads = threads});
  calls.define("same", same);
  calls.open();
  const int next = (world.rank() + 1) % world.size();
  constexpr std::size_t piece = CallMessages::piece_bytes / sizeof(std::uint32_t);
  std::vector<Answer> answers;
  std::vector<CallPayload> sent;
  for (const std::size_t front : {0, 1, 1999, 3800, 3960, 4000, 100'000}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1025}, piece - 1,
                                    piece, piece + 1, 2 * piece + 7}) {
      CallPayload payload{.front = std::string(front, 'x')};
      if (front > 0) payload.front.back() = 'y';
      payload.blocks.push_back(block_of(pattern(count, 17)));
      if (count > 1) payload.blocks.push_back(block_of(pattern(3, 18)));
      sent.push_back(payload);
      answers.push_back(calls.call(next, "same", payload));
    }
    answers.push_back(calls.call(next, "same", {.front = std::string(front, 'z')}));
    sent.push_back({.front = std::string(front, 'z')});
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const CallPayload got = answers[i].get();
    CHECK(got.front == sent[i].front);
    REQUIRE(got.blocks.size() == sent[i].blocks.size());
    for (std::size_t block = 0; block < got.blocks.size(); ++block) {
      CHECK(values_of(got.blocks[block]) == values_of(sent[i].blocks[block]));
      CHECK(reinterpret_cast<std::uintptr_t>(got.blocks[block].bytes.data()) % 64 == 0);
    }
  }
}

TEST_CASE("small calls pass a large one") {
  const Communicator world = Communicator::world();
  if (world.size() < 2) return;
  Calls calls(world, {.threads = true});
  calls.define("count", [](int, CallPayload payload) {
    return CallPayload{.front = std::to_string(values_of(payload.blocks.at(0)).size())};
  });
  calls.define("reverse", reversed);
  calls.open();
  if (world.rank() == 0) {
    const std::size_t count = (64 << 20) / sizeof(std::uint32_t);
    Answer large = calls.call(1, "count", {.blocks = {block_of(pattern(count, 1))}});
    CHECK(calls.call(1, "reverse", {.front = "abc"}).get().front == "cba");
    CHECK_FALSE(large.is_ready());
    CHECK(large.get().front == std::to_string(count));
  }
}

TEST_CASE("a tag is not used again while the message that has it is under way") {
  const Communicator world = Communicator::world();
  CallMessages messages(world, CallMessages::most_streams_to_a_rank);
  const int to = (world.rank() + 1) % world.size();
  constexpr std::uint64_t shorts = 300;
  const auto message_of = [&](std::uint64_t number, std::size_t count) {
    // Small blocks travel at once, whoever has posted a receive.
    std::vector<CallBlock> blocks;
    for (std::uint32_t i = 0; i < 4; ++i) {
      blocks.push_back(block_of(pattern(count, static_cast<std::uint32_t>(4 * number) + i)));
    }
    return CallMessage{.rank = to, .number = number, .payload = {.blocks = std::move(blocks)}};
  };
  const auto count_of = [](std::uint64_t number) {
    return number == 0 ? std::size_t{8} << 20 : std::size_t{100} + number % 7;
  };
  for (std::uint64_t number = 0; number < shorts; ++number) {
    messages.send(message_of(number, count_of(number)));
  }
  std::vector<std::uint64_t> wrong;
  std::uint64_t come = 0;
  while (come < shorts || messages.is_under_way()) {
    messages.look([&](const CallMessage& message) {
      ++come;
      for (std::uint32_t i = 0; i < 4; ++i) {
        if (values_of(message.payload.blocks[i]) !=
            pattern(count_of(message.number), static_cast<std::uint32_t>(4 * message.number) + i)) {
          wrong.push_back(message.number);
        }
      }
    });
  }
  CHECK(wrong.empty());
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
  messages.finish();
}

TEST_CASE("random calls between all ranks, nothing is lost and nothing is run twice") {
  const Communicator world = Communicator::world();
  const Way way = any_way();
  const Variable nodes("MESHWORK_RANKS_A_NODE", way.apart ? "1" : nullptr);
  Calls calls(world, {.threads = way.threads});
  std::vector<std::int64_t> runs(static_cast<std::size_t>(world.size()));
  calls.define("add", [&](int caller, CallPayload payload) {
    ++runs[static_cast<std::size_t>(caller)];  // functions run one at a time
    return CallPayload{.front = fmt::format("{}", std::stoll(payload.front) + world.rank())};
  });
  calls.open();
  const int count = std::getenv("MESHWORK_TEST_QUICK") != nullptr ? 1000 : 100'000 / world.size();
  std::mt19937 random(static_cast<unsigned>(100 + world.rank()));
  std::vector<std::int64_t> made(static_cast<std::size_t>(world.size()));
  std::vector<std::pair<Answer, std::int64_t>> under_way;
  for (int i = 0; i < count; ++i) {
    const int rank = static_cast<int>(random() % static_cast<unsigned>(world.size()));
    const std::int64_t value = random() % 1000;
    ++made[static_cast<std::size_t>(rank)];
    under_way.emplace_back(calls.call(rank, "add", {.front = std::to_string(value)}), value + rank);
    while (under_way.size() > random() % 40) {
      const std::size_t chosen = random() % under_way.size();
      std::swap(under_way[chosen], under_way.back());
      if (under_way.back().first.get().front != std::to_string(under_way.back().second)) {
        FAIL("a call has the answer of another");
      }
      under_way.pop_back();
    }
  }
  for (auto& [answer, value] : under_way) CHECK(answer.get().front == std::to_string(value));
  calls.close();
  std::vector<std::int64_t> expected(made.size());
  check_mpi(
      MPI_Alltoall(made.data(), 1, MPI_INT64_T, expected.data(), 1, MPI_INT64_T, world.native()),
      "MPI_Alltoall");
  CHECK(runs == expected);
}

TEST_CASE("what a far function throws, the caller gets, and the service goes on") {
  const Communicator world = Communicator::world();
  const bool threads = GENERATE(true, false);
  Calls calls(world, {.threads = threads});
  calls.define("throw", [&](int, CallPayload text) -> CallPayload {
    if (text.front == "7") throw 7;
    throw std::runtime_error(text.front + " is not enough");
  });
  calls.define("many",
               [&](int, CallPayload) { return CallPayload{.blocks = std::vector<CallBlock>(65)}; });
  calls.define("reverse", reversed);
  calls.open();
  const int last = world.size() - 1;
  const std::string prefix = fmt::format("rank {}, function ", last);
  const auto text_of = [&](const std::string& name, const std::string& text) -> std::string {
    try {
      static_cast<void>(calls.call(last, name, {.front = text}).get());
    } catch (const CallFailed& error) {
      return error.what();
    }
    return "it went on";
  };
  CHECK(text_of("throw", "it") == prefix + "\"throw\": it is not enough");
  CHECK(text_of("throw", "7") ==
        prefix + "\"throw\": it threw an object that is not a std::exception");
  CHECK(text_of("many", "") ==
        prefix + "\"many\": it returns 65 blocks, and 64 at most are possible");
  const std::string lengthy(10'000, 'a');
  CHECK(text_of("throw", lengthy) == prefix + "\"throw\": " + lengthy + " is not enough");
  CHECK(calls.call(last, "reverse", {.front = "abc"}).get().front == "cba");
}

TEST_CASE("a function that is not there is an error that lists those that are") {
  const Communicator world = Communicator::world();
  Calls calls(world);
  calls.define("score", reversed);
  calls.define("add", reversed);
  calls.open();
  try {
    static_cast<void>(calls.call(world.size() - 1, "scroe", {}).get());
    FAIL("it went on");
  } catch (const UnknownFunction& error) {
    CHECK(error.what() ==
          fmt::format("rank {} has no function \"scroe\"; it has \"add\", \"score\"",
                      world.size() - 1));
    CHECK(error.defined() == std::vector<std::string>{"add", "score"});
  }
  CHECK_THROWS_WITH(calls.define("add", reversed),
                    "the function \"add\" is defined on this rank already");
  CHECK_THROWS_WITH(
      calls.call(-1, "add", {}),
      fmt::format("a call of \"add\" is for rank -1, and the ranks are 0 to {}", world.size() - 1));
  CHECK_THROWS_WITH(calls.call(world.size(), "add", {}), Catch::Contains("the ranks are 0 to"));
  CHECK_THROWS_WITH(calls.define(std::string(257, 'a'), reversed), Catch::Contains("257 bytes"));
  CHECK_THROWS_WITH(calls.call(0, "add", {.blocks = std::vector<CallBlock>(65)}),
                    "a call of \"add\" has 65 blocks, and 64 at most are possible");
}

TEST_CASE("a call that is not answered in time ends, and its late answer is dropped") {
  const Communicator world = Communicator::world();
  const Way way = any_way();
  const Variable nodes("MESHWORK_RANKS_A_NODE", way.apart ? "1" : nullptr);
  if (world.size() < 2 && !way.threads) return;  // it would wait for itself
  Calls calls(world, {.threads = way.threads});
  std::atomic<bool> goes_on = false;
  calls.define("hang", [&](int, CallPayload text) {
    while (!goes_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return text;
  });
  calls.define("reverse", reversed);
  calls.open();
  const int last = world.size() - 1;
  if (world.rank() == 0) {
    const auto start = Clock::now();
    Answer answer = calls.call(last, "hang", {}, {.seconds = 0.2});
    CHECK_THROWS_AS(answer.get(), CallTimedOut);
    CHECK(seconds_since(start) > 0.19);
    CHECK(seconds_since(start) < 10);
    // Behind the one that hangs.
    Answer next = calls.call(last, "reverse", {.front = "abc"}, {.seconds = 0.05});
    CHECK_THROWS_WITH(next.get(),
                      fmt::format("rank {} has not answered \"reverse\" within 0.05 s", last));
    check_mpi(MPI_Send(nullptr, 0, MPI_BYTE, last, 0, world.native()), "MPI_Send");
    if (last == 0) goes_on = true;
    CHECK(calls.call(last, "reverse", {.front = "abc"}).get().front == "cba");
  }
  if (world.rank() == last && last > 0) {
    if (!way.threads) {
      std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(1000));
        goes_on = true;
      }).detach();
      while (!goes_on) calls.progress();
    }
    check_mpi(MPI_Recv(nullptr, 0, MPI_BYTE, 0, 0, world.native(), MPI_STATUS_IGNORE), "MPI_Recv");
    goes_on = true;
  } else if (last == 0) {
    check_mpi(MPI_Recv(nullptr, 0, MPI_BYTE, 0, 0, world.native(), MPI_STATUS_IGNORE), "MPI_Recv");
  }
  calls.close();
}

TEST_CASE("functions that call each other in a circle do not block") {
  const Communicator world = Communicator::world();
  const bool threads = GENERATE(true, false);
  Calls calls(world, {.threads = threads});
  std::atomic<int> running = 0;
  std::atomic<bool> overlapped = false;
  calls.define("down", [&](int, CallPayload payload) {
    if (++running > 1) overlapped = true;
    const int left = std::stoi(payload.front);
    std::string path = std::to_string(world.rank());
    if (left > 0) {
      const int next = (world.rank() + 1) % world.size();
      --running;  // while it waits, others run
      path += calls.call(next, "down", {.front = std::to_string(left - 1)}).get().front;
      if (++running > 1) overlapped = true;
    }
    --running;
    return CallPayload{.front = path};
  });
  calls.open();
  // All ranks at once, more than the window lets through.
  std::vector<Answer> answers;
  const int next = (world.rank() + 1) % world.size();
  for (int i = 0; i < 20; ++i) answers.push_back(calls.call(next, "down", {.front = "5"}));
  std::string path;
  for (int i = 0; i <= 5; ++i) path += std::to_string((next + i) % world.size());
  for (Answer& answer : answers) CHECK(answer.get().front == path);
  calls.close();
  CHECK_FALSE(overlapped);
}

TEST_CASE("a long function keeps nothing else of its rank from going on") {
  const Communicator world = Communicator::world();
  if (world.size() < 2) return;
  Calls calls(world, {.threads = true});
  std::atomic<bool> goes_on = false;
  calls.define("wait", [&](int, CallPayload text) {
    while (!goes_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return text;
  });
  calls.define("same", same);
  calls.open();
  // Rank 1 runs a long function, and what it has asked for arrives all the same.
  if (world.rank() == 0) {
    Answer slow = calls.call(1, "wait", {});
    check_mpi(MPI_Send(nullptr, 0, MPI_BYTE, 1, 0, world.native()), "MPI_Send");
    static_cast<void>(slow.get());
  } else if (world.rank() == 1) {
    check_mpi(MPI_Recv(nullptr, 0, MPI_BYTE, 0, 0, world.native(), MPI_STATUS_IGNORE), "MPI_Recv");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // asleep, but for the function
    // It is not waited for; but where other programs have the processors, it is given more time.
    bool arrived = false;
    for (std::chrono::milliseconds time{100}; !arrived && time.count() < 5000; time *= 2) {
      Answer large = calls.call(0, "same", {.blocks = {block_of(pattern(5'000'000, 3))}});
      std::this_thread::sleep_for(time);
      arrived = large.is_ready();
      CHECK(values_of(large.get().blocks.at(0)) == pattern(5'000'000, 3));
    }
    CHECK(arrived);
    goes_on = true;
  }
  calls.close();
}

TEST_CASE("the end waits for many short functions, and for one that waits for them") {
  for (const bool threads : {true, false}) {
    Calls calls(Communicator::world(), {.threads = threads, .closing_seconds = 0.4});
    const int next = (calls.rank() + 1) % calls.size();
    calls.define("short", [](int, CallPayload) -> CallPayload {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return {};
    });
    calls.define("waits", [&](int, CallPayload) -> CallPayload {
      // For one long answer, and then for many short ones.
      std::vector<Answer> answers;
      for (int i = 0; i < 30; ++i) answers.push_back(calls.call(next, "short", {}));
      while (!answers.empty()) {
        static_cast<void>(answers.back().get());
        answers.pop_back();
      }
      for (int i = 0; i < 10; ++i) static_cast<void>(calls.call(next, "short", {}).get());
      return {};
    });
    calls.open();
    // Rank 0 runs nothing else.
    std::vector<Answer> answers;
    if (next == 0) answers.push_back(calls.call(0, "waits", {}));
    CHECK_NOTHROW(calls.close());
    CHECK(std::ranges::all_of(answers, &Answer::is_ready));
  }
}

TEST_CASE("an answer that nobody wants does no harm") {
  const Communicator world = Communicator::world();
  Calls calls(world);
  std::atomic<int> runs = 0;
  calls.define("count", [&](int, CallPayload) {
    ++runs;
    return CallPayload{.blocks = {block_of(pattern(100'000, 1))}};
  });
  calls.open();
  for (int i = 0; i < 50; ++i) {
    static_cast<void>(calls.call((world.rank() + 1) % world.size(), "count", {}));
  }
  calls.close();
  CHECK(runs == 50);
  CHECK_THROWS_WITH(calls.call(0, "count", {}), "\"count\" is called after the end of calls");
}

TEST_CASE("threads of the program call at once") {
  const Communicator world = Communicator::world();
  Calls calls(world, {.threads = true});
  calls.define("reverse", reversed);
  calls.open();
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 100; ++i) {
        const std::string text = fmt::format("{}.{}", thread, i);
        const std::string expected(text.rbegin(), text.rend());
        const int rank = (world.rank() + i) % world.size();
        if (calls.call(rank, "reverse", {.front = text}).get().front == expected) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 400);
  calls.close();
}

TEST_CASE("in a hosted job, who waits for an answer leaves when another rank fails") {
  const Communicator world = Communicator::world();
  const bool threads = GENERATE(true, false);
  Hosted hosted(world, false);
  const int last = world.size() - 1;
  const auto body = [&] {
    Calls calls(world, {.threads = threads});
    // The last rank never opens.
    Answer answer = calls.call(last, "reverse", {.front = "abc"});
    Answer large = calls.call(last, "same", {.blocks = {block_of(pattern(5'000'000, 3))}});
    if (world.rank() == last) fail("no such file");
    static_cast<void>(answer.get());
  };
  std::string thrown;
  try {
    try {
      body();
    } catch (const RanksParted& error) {
      hosted.conclude(error.what(), false);
    } catch (const Error& error) {
      hosted.conclude(error.what(), true);
    }
  } catch (const Error& error) {
    thrown = error.what();
  }
  CHECK(thrown == (last == 0 ? "no such file" : fmt::format("rank {}: no such file", last)));
  CHECK_FALSE(hosted.is_broken());
}

TEST_CASE("who waits at the end is told which rank has left, and calls it by its title") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  const bool threads = GENERATE(true, false);
  const bool is_last = world.rank() == world.size() - 1;
  std::vector<std::string> titles(static_cast<std::size_t>(world.size()), "train");
  titles.back() = "board";
  const auto body = [&] {
    Calls calls(world, {.threads = threads, .titles = titles});
    if (is_last) fail("no such file");
    calls.close();
  };
  CHECK_THROWS_WITH(
      body(), is_last
                  ? "no such file"
                  : fmt::format("rank {} (board) has died or left, and rank {} (train) waits for "
                                "it at the end of calls",
                                world.size() - 1, world.rank()));
}

TEST_CASE("memory of blocks is used again while calls are under way, and given back") {
  const auto memory = std::make_shared<CallMemory>();
  std::shared_ptr<std::byte> first = memory->allocate(1 << 20);
  const std::byte* const place = first.get();
  first.reset();
  CHECK(memory->kept() >= 1 << 20);
  std::shared_ptr<std::byte> small = memory->allocate(400'000);
  CHECK(small.get() != place);  // that would waste more than half
  std::shared_ptr<std::byte> second = memory->allocate(1'000'000);
  CHECK(second.get() == place);
  second.reset();
  memory->trim();
  CHECK(memory->kept() == 0);
  // It may outlive what it came from.
  second = memory->allocate(1 << 20);
  const std::weak_ptr<CallMemory> gone = memory;
  const_cast<std::shared_ptr<CallMemory>&>(memory).reset();
  CHECK(gone.expired());
  second.get()[(1 << 20) - 1] = std::byte{1};
}

}  // namespace meshwork::calls_test
