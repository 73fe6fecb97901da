// What candidates cost: predicted seconds of one training step, as whole picoseconds, so that sums
// are exact and the same on every machine.
//
// A candidate has costs of its own: everything to and from closed tensors, the reduction of its
// output, its own collectives, and its arithmetic on one rank, which is also the tie-breaker. Two
// candidates have costs between them where one makes a tensor that the other uses: bringing it
// there, and its gradient back.
//
// Each redistribution is planned once and each exchange is priced once: how many there were is what
// planning takes, and `PlanningWork` counts them.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/graph/candidates.h"
#include "runtime/graph/choice_network.h"
#include "runtime/mesh/redistribution.h"
#include "runtime/mesh/window_exchange.h"

namespace meshwork {

class CandidateCosts {
 public:
  /// `problem` must outlive it.
  explicit CandidateCosts(const PlanningProblem& problem);

  /// Of a candidate of operation `index` by itself: communication and arithmetic.
  [[nodiscard]] ChoiceCost own(int index, const Candidate& candidate);
  /// The arithmetic alone.
  [[nodiscard]] ChoiceCost arithmetic(int index, const Candidate& candidate) const;

  /// The reduction of gradients that lie as their variables do, but for partial sums, and have a
  /// single use: these are added up over micro-batches first (parameter_form.h).
  [[nodiscard]] ChoiceCost reduction(int index, const Candidate& candidate);

  /// What bytes cost that a candidate of operation `index` leaves for backward, and those of copies
  /// of variables that it gathers.
  [[nodiscard]] ChoiceCost held(int index, const Candidate& candidate) const;
  /// The same of copies of `tensor` that its backward reads.
  [[nodiscard]] ChoiceCost held_copies(int settled, int index, const Candidate& candidate,
                                       TensorId tensor) const;

  /// Between a candidate that leaves `tensor` settled as `from` and one of its consumer `index`.
  [[nodiscard]] ChoiceCost between(int from, int index, const Candidate& candidate,
                                   TensorId tensor);

  /// The same for each of `producers` and each of `consumers`, the candidates of operation `index`;
  /// row-major with the producers' as rows.
  [[nodiscard]] std::vector<ChoiceCost> between(const std::vector<Candidate>& producers, int index,
                                                const std::vector<Candidate>& consumers,
                                                TensorId tensor);

  /// How many redistributions were planned, and how many exchanges were priced.
  [[nodiscard]] std::int64_t redistributions() const { return redistributions_; }
  [[nodiscard]] std::int64_t exchanges() const {
    return static_cast<std::int64_t>(exchanges_.size());
  }

 private:
  // The exchange of boxes of an input, and what it costs there and back.
  struct Exchange {
    Windows windows;
    ChoiceCost forward, back;
  };
  // What moving tensors of as many dimensions costs. A redistribution is planned once for all their
  // shapes, and priced for each.
  struct Moves {
    std::vector<Shape> shapes;  // distinct
    // By the number of the layout from, then by that of the layout to and by shape; `unknown` where
    // nobody has asked.
    std::vector<std::vector<std::int64_t>> costs;
  };
  static constexpr std::int64_t unknown = -1;

  [[nodiscard]] ChoiceCost held_bytes(int layout, TensorId tensor) const;
  void price(Moves& moves, int from, int to);
  ChoiceCost moving(int from, int to, TensorId tensor);
  ChoiceCost bringing(int from, int index, int input, const Candidate& candidate);
  const Exchange& exchange(int index, int input, const Candidate& candidate);

  const PlanningProblem& problem_;
  std::map<std::size_t, Moves> moves_;                           // by number of dimensions
  std::vector<std::pair<Moves*, std::size_t>> moves_of_tensor_;  // and which of their shapes
  std::vector<Layout> canonical_;                                // by number
  RedistributionPlanner redistribution_planner_;
  std::int64_t redistributions_ = 0;
  std::map<std::tuple<int, int, int>, Exchange> exchanges_;  // by operation, input, its layout
};

/// `seconds` as a cost.
[[nodiscard]] ChoiceCost cost_of_seconds(double seconds);
/// The reverse.
[[nodiscard]] double seconds_of_cost(std::int64_t cost);

}  // namespace meshwork
