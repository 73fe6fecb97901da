#include "runtime/graph/choice_network.h"

#include <random>

#include "tests/support/catch.h"

namespace meshwork::choice_network_test {

namespace {

struct Pair {
  int a, b;
  std::vector<ChoiceCost> costs;
};

struct Problem {
  std::vector<std::vector<ChoiceCost>> own;
  std::vector<Pair> pairs;

  [[nodiscard]] ChoiceCost cost_of(const std::vector<int>& options) const {
    ChoiceCost sum;
    for (std::size_t i = 0; i < own.size(); ++i) {
      sum += own[i][options[i]];
    }
    for (const Pair& pair : pairs) {
      sum += pair.costs[options[pair.a] * own[pair.b].size() + options[pair.b]];
    }
    return sum;
  }

  [[nodiscard]] ChoiceNetwork network() const {
    ChoiceNetwork network;
    for (const auto& costs : own) {
      network.add_choice(costs);
    }
    for (const Pair& pair : pairs) {
      network.add_pair(pair.a, pair.b, pair.costs);
    }
    return network;
  }

  // Every combination in turn.
  [[nodiscard]] ChoiceCost least() const {
    std::vector<int> options(own.size(), 0);
    ChoiceCost best = cost_of(options);
    for (;;) {
      std::size_t i = 0;
      while (i < options.size() && ++options[i] == static_cast<int>(own[i].size())) {
        options[i++] = 0;
      }
      if (i == options.size()) {
        return best;
      }
      best = std::min(best, cost_of(options));
    }
  }
};

Problem random_problem(std::mt19937& random, int choices, double density) {
  const auto cost = [&] {
    return ChoiceCost{std::uniform_int_distribution<std::int64_t>(0, 9)(random),
                      std::uniform_int_distribution<std::int64_t>(0, 3)(random)};
  };
  Problem problem;
  for (int i = 0; i < choices; ++i) {
    std::vector<ChoiceCost> own(std::uniform_int_distribution<int>(1, 4)(random));
    std::generate(own.begin(), own.end(), cost);
    problem.own.push_back(std::move(own));
  }
  for (int a = 0; a < choices; ++a) {
    for (int b = a + 1; b < choices; ++b) {
      if (b == a + 1 || std::uniform_real_distribution<>(0, 1)(random) < density) {
        std::vector<ChoiceCost> costs(problem.own[a].size() * problem.own[b].size());
        std::generate(costs.begin(), costs.end(), cost);
        problem.pairs.push_back({a, b, std::move(costs)});
      }
    }
  }
  return problem;
}

}  // namespace

TEST_CASE("the chosen combination is as cheap as the cheapest of all") {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const double density = round % 3 * 0.3;
    const Problem problem = random_problem(random, 1 + round % 8, density);
    CHECK(problem.cost_of(problem.network().cheapest().options) == problem.least());
  }
}

TEST_CASE("with tables bounded the combination is complete and close to the cheapest") {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    const Problem problem = random_problem(random, 7, 0.9);
    const Combination found = problem.network().cheapest(8);
    REQUIRE(found.options.size() == 7);
    CHECK(problem.cost_of(found.options).cost <= problem.least().cost + 60);
  }
}

TEST_CASE("choices that are fixed past the bound are told") {
  ChoiceNetwork network;
  network.add_choice({{1, 0}, {0, 0}});
  network.add_choice({{0, 0}, {0, 0}, {0, 0}});
  network.add_pair(0, 1, std::vector<ChoiceCost>(6));
  CHECK(network.cheapest(6).fixed.empty());
  // The table of either has 6 places: the first is fixed, which leaves 3 of the second.
  CHECK(network.cheapest(5).fixed == std::vector<int>{0});
  CHECK(network.cheapest(5).options == std::vector<int>{1, 0});
  CHECK(network.cheapest(2).fixed == std::vector<int>{0, 1});
}

TEST_CASE("equal costs go to the lower tie, then to the lower option") {
  ChoiceNetwork network;
  network.add_choice({{5, 1}, {5, 0}, {5, 0}});
  CHECK(network.cheapest().options == std::vector<int>{1});
}

TEST_CASE("choices without alternatives are made at once, however many join one") {
  ChoiceNetwork network;
  const int hub = network.add_choice({{1, 0}});
  constexpr int leaves = 5000;
  for (int leaf = 0; leaf < leaves; ++leaf) {
    network.add_pair(hub, network.add_choice({{2, 0}}), {{3, 0}});
  }
  const Combination choice = network.cheapest();
  CHECK(choice.options == std::vector<int>(leaves + 1, 0));
  CHECK(choice.fixed.empty());
}

TEST_CASE("a chain of ten thousand choices is chosen at once") {
  ChoiceNetwork network;
  for (int i = 0; i < 10000; ++i) {
    network.add_choice({{i % 3, 0}, {1, 0}, {(i + 1) % 3, 0}});
    if (i > 0) {
      network.add_pair(i - 1, i,
                       {{0, 0}, {2, 0}, {2, 0}, {2, 0}, {0, 0}, {2, 0}, {2, 0}, {2, 0}, {0, 0}});
    }
  }
  CHECK(network.cheapest().options.size() == 10000);
}

}  // namespace meshwork::choice_network_test
