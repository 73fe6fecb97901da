#include "collectives/exchange.h"

#include <algorithm>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "collectives/failed_write.h"
#include "collectives/wrong_input.h"
#include "tests/support/catch.h"

namespace meshwork::exchange_test {

namespace {

/// The message of the `Error` that `action` throws.
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string text_of(int rank) {
  if (rank % 3 == 1) return "";
  std::string text(static_cast<std::size_t>(1 + 1000 * rank), static_cast<char>('a' + rank));
  text[0] = '\0';
  return text;
}

}  // namespace

TEST_CASE("every rank gets the root's text, whatever is in it") {
  const Communicator world = Communicator::world();
  for (int root = 0; root < world.size(); ++root) {
    CHECK(broadcast_text(world, text_of(world.rank()), root) == text_of(root));
  }
  CHECK(broadcast_text(world, world.rank() == 0 ? "the root is rank 0" : "") ==
        "the root is rank 0");
  // The first 248 bytes come with the length.
  for (const std::size_t length : {247, 248, 249, 496, 5000}) {
    std::string text(length, 'a');
    for (std::size_t i = 0; i < length; ++i) text[i] = static_cast<char>('a' + i % 23);
    CHECK(broadcast_text(world, world.rank() == 0 ? text : "longer than nothing") == text);
  }
}

TEST_CASE("the root gathers the texts of all ranks, and nobody else does") {
  const Communicator world = Communicator::world();
  for (const int root : {0, world.size() - 1}) {
    const std::vector<std::string> texts = gather_texts(world, text_of(world.rank()), root);
    if (world.rank() != root) {
      CHECK(texts.empty());
      continue;
    }
    REQUIRE(static_cast<int>(texts.size()) == world.size());
    for (int rank = 0; rank < world.size(); ++rank) CHECK(texts[rank] == text_of(rank));
  }
}

TEST_CASE("every rank gets each text that there is once, with the lowest rank that has it") {
  const Communicator world = Communicator::world();
  const auto texts_of = [&](const auto& text) { return distinct_texts(world, text(world.rank())); };
  const auto alone = texts_of([](int) { return std::string("the same\0everywhere", 19); });
  REQUIRE(alone.size() == 1);
  CHECK(alone[0].text == std::string("the same\0everywhere", 19));
  CHECK(alone[0].rank == 0);
  const auto odd_and_even = [](int rank) { return text_of(rank % 2); };
  const auto two = texts_of(odd_and_even);
  REQUIRE(static_cast<int>(two.size()) == std::min(world.size(), 2));
  for (int rank = 0; rank < static_cast<int>(two.size()); ++rank) {
    CHECK(two[static_cast<std::size_t>(rank)].text == text_of(rank));
    CHECK(two[static_cast<std::size_t>(rank)].rank == rank);
  }
  const auto all = texts_of([](int rank) { return std::to_string(rank); });
  REQUIRE(static_cast<int>(all.size()) == world.size());
  CHECK(all.back().text == std::to_string(world.size() - 1));
}

TEST_CASE("what is so on all ranks is so only if no rank lacks it") {
  const Communicator world = Communicator::world();
  CHECK(on_all(world, true));
  CHECK_FALSE(on_all(world, false));
  for (int lacking = 0; lacking < world.size(); ++lacking) {
    CHECK_FALSE(on_all(world, world.rank() != lacking));
  }
}

TEST_CASE("an action that succeeds everywhere is done once on each rank") {
  int done = 0;
  together(Communicator::world(), [&] { ++done; });
  CHECK(done == 1);
}

TEST_CASE("a failure on one rank is that rank's error on all") {
  const Communicator world = Communicator::world();
  for (int failing = 0; failing < world.size(); ++failing) {
    const std::string message = message_of([&] {
      together(world, [&] {
        if (world.rank() == failing) fail("no file \"{}\"", "data");
      });
    });
    CHECK(message == (world.size() == 1 ? "no file \"data\""
                                        : fmt::format("rank {}: no file \"data\"", failing)));
  }
}

TEST_CASE("the same failure on all ranks is shown without a rank") {
  const Communicator world = Communicator::world();
  CHECK(message_of([&] { together(world, [] { fail("a wrong configuration"); }); }) ==
        "a wrong configuration");
}

TEST_CASE("of different failures the lowest rank's is shown") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  const std::string message = message_of([&] {
    together(world, [&] {
      if (world.rank() > 0) fail("failure {}", world.rank());
    });
  });
  CHECK(message == "rank 1: failure 1");
}

TEST_CASE("anything that is thrown is a failure") {
  const Communicator world = Communicator::world();
  CHECK(message_of([&] { together(world, [] { throw 3; }); }) == "an exception of unknown type");
}

TEMPLATE_TEST_CASE("what all failures are is told from a mistake", "", FailedWrite, WrongInput) {
  const Communicator world = Communicator::world();
  const auto is_kept = [&](int mistaken) {
    try {
      together(world, [&] {
        if (world.rank() == mistaken) fail("a mistake");
        if (world.rank() == world.size() - 1) throw TestType("of a kind");
      });
    } catch (const TestType&) {
      return true;
    } catch (const Error&) {
    }
    return false;
  };
  CHECK(is_kept(-1));
  CHECK_FALSE(is_kept(0));
}

TEST_CASE("in a part of the job a rank has its number in the job") {
  const Communicator world = Communicator::world();
  if (world.size() < 4) return;
  // The odd ranks, 1, 3, ...; the second of them fails.
  const Communicator parity = world.split(world.rank() % 2, world.rank());
  const std::string message = message_of([&] {
    together(parity, [&] {
      if (world.rank() == 3) fail("no");
    });
  });
  CHECK(message == (world.rank() % 2 == 1 ? "rank 3: no" : "no error"));
}

TEST_CASE("after an error the ranks can go on together") {
  const Communicator world = Communicator::world();
  for (int i = 0; i < 20; ++i) {
    CHECK_THROWS_AS(together(world,
                             [&] {
                               if (world.rank() == i % world.size()) fail("{}", i);
                             }),
                    Error);
    together(world, [] {});
  }
}

TEST_CASE(
    "calls that differ are shown with the ranks that make them, by their numbers in the job") {
  const Communicator world = Communicator::world();
  require_same_call(world, "fit");
  const std::string message =
      message_of([&] { require_same_call(world, world.rank() == 1 ? "variable" : "fit"); });
  if (world.size() == 1) {
    CHECK(message == "no error");
  } else if (world.size() == 2) {
    CHECK_THAT(message,
               Catch::StartsWith("the ranks make different calls: rank 0 calls fit; rank 1 "
                                 "calls variable."));
  } else if (world.size() == 3) {
    CHECK_THAT(message, Catch::Contains("ranks 0, 2 call fit; rank 1 calls variable."));
  } else {
    const Communicator parity = world.split(world.rank() % 2, world.rank());
    const std::string in_part =
        message_of([&] { require_same_call(parity, world.rank() < 2 ? "fit" : "evaluate"); });
    CHECK_THAT(in_part, Catch::Contains(world.rank() % 2 == 0 ? ": rank 0 calls fit; rank"
                                                              : ": rank 1 calls fit; rank"));
  }
}

TEST_CASE("equal lists agree") {
  const Communicator world = Communicator::world();
  CHECK_NOTHROW(require_agreement(world, {}, "nothing"));
  CHECK_NOTHROW(require_agreement(world, {"one", "two"}, "numbers"));
}

TEST_CASE("the first entry that differs is shown as two ranks have it") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  const int odd = world.size() - 1;
  std::vector<std::string> entries{"all_reduce data 40 B", "all_gather model 8 B", "broadcast"};
  if (world.rank() == odd) entries[1] = "all_gather model 12 B";
  CHECK(message_of([&] { require_agreement(world, entries, "the program's collectives"); }) ==
        fmt::format("the ranks do not agree on the program's collectives: entry 2: rank 0 has "
                    "\"all_gather model 8 B\", rank {} has \"all_gather model 12 B\"",
                    odd));
}

TEST_CASE("a list that ends early does not agree") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  std::vector<std::string> entries{"one"};
  if (world.rank() != 1) entries.push_back("two");
  CHECK(message_of([&] { require_agreement(world, entries, "numbers"); }) ==
        "the ranks do not agree on numbers: entry 2: rank 0 has \"two\", rank 1 has no such entry");
  entries.clear();
  if (world.rank() == 0) entries = {};
  if (world.rank() == 1) entries = {"", ""};
  CHECK(message_of([&] { require_agreement(world, entries, "numbers"); }) ==
        "the ranks do not agree on numbers: entry 1: rank 0 has no such entry, rank 1 has \"\"");
}

TEST_CASE("entries that differ only in where one ends do not agree") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  const std::vector<std::string> entries =
      world.rank() == 0 ? std::vector<std::string>{"ab", "c"} : std::vector<std::string>{"a", "bc"};
  CHECK(message_of([&] { require_agreement(world, entries, "texts"); }) ==
        "the ranks do not agree on texts: entry 1: rank 0 has \"ab\", rank 1 has \"a\"");
}

TEST_CASE("settings that differ are shown by name, with the values of two ranks") {
  const Communicator world = Communicator::world();
  const auto message_for = [&](const Settings& of_most, const Settings& of_last) {
    const bool last = world.rank() == world.size() - 1;
    return message_of(
        [&] { require_same_settings(world, last ? of_last : of_most, "the options"); });
  };
  const Settings settings{{"rate", "0.1"}, {"seed", "7"}};
  CHECK(message_for(settings, settings) == "no error");
  CHECK(message_for({}, {}) == "no error");
  if (world.size() == 1) return;
  const int odd = world.size() - 1;
  const std::string begin = "the ranks do not agree on the options: ";
  CHECK(message_for(settings, {{"rate", "0.1"}, {"seed", "8"}}) ==
        fmt::format("{}seed: rank 0 has 7, rank {} has 8", begin, odd));
  CHECK(message_for(settings, {{"rate", "0.1"}, {"mesh", "2"}, {"seed", "7"}}) ==
        fmt::format("{}mesh: rank 0 has no such entry, rank {} has 2", begin, odd));
  CHECK(message_for(settings, {{"rate", "0.1"}}) ==
        fmt::format("{}seed: rank 0 has 7, rank {} has no such entry", begin, odd));
  CHECK(message_for(settings, {{"seed", "7"}, {"rate", "0.1"}}) ==
        fmt::format("{}entry 1 is rate on rank 0, seed on rank {}", begin, odd));
}

}  // namespace meshwork::exchange_test
