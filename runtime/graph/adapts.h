// AdaptsToData: a layer that looks at the data before it is trained.
//
// Its first input is an input of the model. Two of its variables, which are not trained, are the
// mean and the population variance of that input over all dimensions but the last, of all training
// data (runtime/train/state/adapt.h). Checkpoints keep them with the others.
#pragma once

namespace meshwork {

class AdaptsToData {
 public:
  virtual ~AdaptsToData() = default;
  /// Whether the statistics are to be found; else they were given.
  [[nodiscard]] virtual bool adapts() const = 0;
};

}  // namespace meshwork
