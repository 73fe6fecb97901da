#include "runtime/graph/fusion.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/kernels/activation.h"
#include "runtime/graph/operation_windows.h"
#include "runtime/graph/operations/activation.h"

namespace meshwork {
namespace {

// "d1/product" and "d1/bias" are "d1/product+bias"; parts of two layers keep their whole names.
std::string joined_path(const std::string& first, const std::string& next) {
  const std::string layer = first.substr(0, first.rfind('/'));
  const std::size_t kind = next.rfind('/');
  return first + "+" + (next.substr(0, kind) == layer ? next.substr(kind + 1) : next);
}

class Fusion {
 public:
  explicit Fusion(Plan& plan)
      : plan_(plan),
        graph_(*plan.graph),
        visible_(graph_.tensors.size(), false),
        maker_(graph_.tensors.size(), -1) {
    for (const TensorId output : graph_.outputs) {
      visible_[output] = true;
    }
  }

  void run() {
    for (PlannedOperation& next : plan_.operations) {
      if (!join_with_a_maker(next)) {
        maker_[next.output] = static_cast<int>(fused_.size());
        fused_.push_back(std::move(next));
      }
    }
    plan_.operations = std::move(fused_);
    for (const PlannedOperation& user : plan_.operations) {
      for (std::size_t position = 0; position < user.inputs.size(); ++position) {
        hand_over_derivative(user, position);
      }
    }
  }

 private:
  bool join_with_a_maker(PlannedOperation& next) {
    for (std::size_t position = 0; position < next.inputs.size(); ++position) {
      if (!nothing_stands_between(next, position)) {
        continue;
      }
      PlannedOperation& first = fused_[maker_[next.inputs[position]]];
      std::unique_ptr<Operation> both =
          first.operation->fused_with(*next.operation, static_cast<int>(position));
      if (both) {
        join(first, next, position, std::move(both));
        return true;
      }
    }
    return false;
  }

  // Whether input `position` of `next` has no other use and does not move, and all other inputs are
  // there before it is made. What slides windows may need more of it than is there.
  bool nothing_stands_between(const PlannedOperation& next, std::size_t position) const {
    const TensorId between = next.inputs[position];
    if (maker_[between] < 0 || graph_.tensors[between].consumers.size() != 1 || visible_[between]) {
      return false;
    }
    const PlannedOperation& first = fused_[maker_[between]];
    return next.rule.windows.empty() && !(first.operation->draws() && next.operation->draws()) &&
           first.natural == plan_.tensors[between].layout &&
           next.needed[position] == first.natural && next.raw[position] == first.natural &&
           std::all_of(next.inputs.begin(), next.inputs.end(), [&](TensorId other) {
             return other == between || maker_[other] < maker_[between];
           });
  }

  void join(PlannedOperation& first, const PlannedOperation& next, std::size_t position,
            std::unique_ptr<Operation> both) {
    maker_[next.output] = maker_[first.output];
    if (next.operation->draws()) {
      first.draws_as = next.draws_as;
    }
    first.operation = std::move(both);
    first.output = next.output;
    first.natural = next.natural;
    first.path = joined_path(first.path, next.path);
    for (std::size_t i = 0; i < next.inputs.size(); ++i) {
      if (i != position) {
        first.inputs.push_back(next.inputs[i]);
        first.needed.push_back(next.needed[i]);
        first.raw.push_back(next.raw[i]);
        first.gradient.push_back(next.gradient[i]);
      }
    }
  }

  // If it can be so, `user` takes the derivative of the activation that made its input `position`.
  void hand_over_derivative(const PlannedOperation& user, std::size_t position) {
    const TensorId between = user.inputs[position];
    if (maker_[between] < 0 || !user.gradient[position] ||
        graph_.tensors[between].consumers.size() != 1) {
      return;
    }
    const PlannedOperation& maker = plan_.operations[maker_[between]];
    const Activation activation = maker.operation->ends_in();
    const auto input = static_cast<int>(position);
    if (activation != Activation::linear && user.needed[position] == maker.natural &&
        !has_windows(user.rule, input) && user.operation->takes_derivative(input, activation)) {
      PlannedTensor& tensor = plan_.tensors[between];
      tensor.gradient_before = activation;
      tensor.derivative_at =
          differentiable_from_output(activation) ? between : maker.inputs.front();
    }
  }

  Plan& plan_;
  const Graph& graph_;
  std::vector<bool> visible_;  // by tensor: whether it is an output of the model
  std::vector<int> maker_;     // by tensor: index into fused_, or -1
  std::vector<PlannedOperation> fused_;
};

}  // namespace

void fuse(Plan& plan) {
  Fusion(plan).run();
}

}  // namespace meshwork
