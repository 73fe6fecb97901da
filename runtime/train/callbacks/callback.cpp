#include "runtime/train/callbacks/callback.h"

#include <algorithm>

#include "collectives/error.h"

namespace meshwork {

double number_in(const CallbackState& state, const std::string& name, const std::string& owner) {
  const auto found = state.find(name);
  if (found == state.end() || !std::holds_alternative<double>(found->second)) {
    fail("{}: the saved state has no number \"{}\"", owner, name);
  }
  return std::get<double>(found->second);
}

std::vector<std::string> CallbackList::adds_logs() const {
  std::vector<std::string> names;
  for (const SharedCallback& callback : callbacks_) {
    for (std::string& name : callback->adds_logs()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(std::move(name));
      }
    }
  }
  return names;
}

void CallbackList::take_back_train_end(Training& training) const {
  for (auto callback = callbacks_.rbegin(); callback != callbacks_.rend(); ++callback) {
    (*callback)->take_back_train_end(training);
  }
}

}  // namespace meshwork
