// A callback that asks for the end of a run.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/train/model.h"

namespace meshwork::test {

/// Asks to stop after so many updates.
class StopAfter final : public Callback {
 public:
  StopAfter(StopRequest& request, std::int64_t updates) : request_(request), updates_(updates) {}
  std::string class_name() const override { return "StopAfter"; }
  void on_train_batch_end(Training& training) override {
    if (training.position().iteration >= updates_) request_.ask(15);
  }

 private:
  StopRequest& request_;
  std::int64_t updates_;
};

}  // namespace meshwork::test
