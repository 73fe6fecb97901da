// Choices with costs on single choices and on pairs: the cheapest combination, exactly.
//
// A network has *choices*, each with a number of options, and costs that depend on one option or on
// the options of two choices. `cheapest` finds the combination with the least sum by eliminating
// one choice after the other (nonserial dynamic programming; Bertele and Brioschi, 1972): the costs
// that touch a choice are added into one table over its neighbours, in which the choice's best
// option is taken for each combination of theirs. On a chain this is Viterbi's algorithm; joins
// cost the product of their neighbours' options. The choice whose table is smallest goes first. If
// even the smallest table would exceed `table_limit`, the choice is fixed to the option that is
// cheapest by itself and with the best of each neighbour, so that time stays bounded for any graph;
// the networks of layers that people draw do not come near.
//
// Costs are integers, added exactly and compared in order: first the cost proper, then the
// tie-breaker; equal costs go to the lower option. The result is the same on every machine.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace meshwork {

struct ChoiceCost {
  std::int64_t cost = 0;
  std::int64_t tie = 0;
  auto operator<=>(const ChoiceCost&) const = default;
  ChoiceCost& operator+=(const ChoiceCost& other) {
    cost += other.cost;
    tie += other.tie;
    return *this;
  }
};

struct Combination {
  std::vector<int> options;  // by choice
  /// Choices that were fixed because their table would have passed the limit, ascending.
  std::vector<int> fixed;
};

class ChoiceNetwork {
 public:
  /// A choice with one option for each cost; gives its number, counted from 0.
  int add_choice(std::vector<ChoiceCost> costs);
  /// Costs of the options of `a` and `b` together, row-major with `a` the row. a != b.
  void add_pair(int a, int b, std::vector<ChoiceCost> costs);
  /// The cheapest combination; if choices were fixed, one that is about as cheap.
  [[nodiscard]] Combination cheapest(std::int64_t table_limit = std::int64_t{1} << 20) const;

 private:
  struct Table {
    std::vector<int> choices;
    std::vector<ChoiceCost> costs;  // row-major over the choices' options
  };
  std::vector<int> options_;
  std::vector<Table> tables_;
};

}  // namespace meshwork
