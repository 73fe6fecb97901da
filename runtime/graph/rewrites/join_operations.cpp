// An operation does what the next one does behind it.
//
// After planning, an operation is joined with the only one that uses its output, where nothing has
// to move between them and the second is all an epilogue that the first can have (epilogue.h): a
// product, a bias and an activation become one.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/graph/rewrites/rewrites.h"

namespace meshwork {
namespace {

// "d1/product" and "d1/bias" are "d1/product+bias"; parts of two layers keep their whole names.
std::string joined_path(const std::string& first, const std::string& next) {
  const std::string layer = first.substr(0, first.rfind('/'));
  const std::size_t kind = next.rfind('/');
  return first + "+" + (next.substr(0, kind) == layer ? next.substr(kind + 1) : next);
}

// Random numbers have a key of their own for each operation that draws.
bool draws(const PlannedOperation& planned) {
  return planned.operation->fusible().epilogue.dropout > 0;
}

class Joining {
 public:
  explicit Joining(Plan& plan) : plan_(plan), maker_(plan.tensors.size(), -1) {}

  void run() {
    for (PlannedOperation& next : plan_.operations) {
      std::unique_ptr<Operation> both = with_its_maker(next);
      maker_[next.output] = both ? maker_[next.inputs[0]] : static_cast<int>(kept_.size());
      if (both) {
        join(kept_[maker_[next.output]], next, std::move(both));
      } else {
        kept_.push_back(std::move(next));
      }
    }
    plan_.operations = std::move(kept_);
  }

 private:
  // What does `next` too, in place of the operation that makes its input 0. That has no other use
  // and does not move, and all other inputs are there before it is made. What slides windows may
  // need more of it than is there.
  std::unique_ptr<Operation> with_its_maker(const PlannedOperation& next) const {
    const TensorId between = next.inputs[0];
    const std::vector<TensorId>& seen = plan_.graph->outputs;
    if (maker_[between] < 0 || plan_.graph->tensors[between].consumers.size() != 1 ||
        std::find(seen.begin(), seen.end(), between) != seen.end()) {
      return nullptr;
    }
    const PlannedOperation& first = kept_[maker_[between]];
    const bool together =
        next.rule.windows.empty() && !(draws(first) && draws(next)) &&
        first.stages == next.stages && first.natural == plan_.tensors[between].layout &&
        next.needed[0] == first.natural && next.raw[0] == first.natural &&
        std::all_of(next.inputs.begin() + 1, next.inputs.end(),
                    [&](TensorId other) { return maker_[other] < maker_[between]; });
    return together ? joined(*first.operation, *next.operation) : nullptr;
  }

  static void join(PlannedOperation& first, const PlannedOperation& next,
                   std::unique_ptr<Operation> both) {
    if (draws(next)) {
      first.draws_as = next.draws_as;
    }
    first.operation = std::move(both);
    first.output = next.output;
    first.natural = next.natural;
    first.path = joined_path(first.path, next.path);
    const auto append = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin() + 1, from.end());
    };
    append(first.inputs, next.inputs);
    append(first.needed, next.needed);
    append(first.raw, next.raw);
    append(first.gradient, next.gradient);
  }

  Plan& plan_;
  std::vector<int> maker_;  // by tensor: index into kept_, or -1
  std::vector<PlannedOperation> kept_;
};

}  // namespace

std::unique_ptr<Operation> joined(const Operation& first, const Operation& next) {
  const Fusible of_first = first.fusible();
  const Fusible of_next = next.fusible();
  if (!of_first.with || !of_next.is_epilogue) {
    return nullptr;
  }
  const std::optional<Epilogue> both = of_first.epilogue.then(of_next.epilogue);
  return both ? of_first.with(*both) : nullptr;
}

void join_operations(Plan& plan) {
  Joining(plan).run();
}

}  // namespace meshwork
