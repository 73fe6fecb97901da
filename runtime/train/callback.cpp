#include "runtime/train/callback.h"

#include <algorithm>

#include "collectives/error.h"

namespace meshwork {
namespace {

template <class Value>
Value value_in(const CallbackState& state, const std::string& name, const std::string& owner) {
  const auto found = state.find(name);
  if (found == state.end() || !std::holds_alternative<Value>(found->second)) {
    fail("{}: the saved state has no {} \"{}\"", owner,
         std::is_same_v<Value, double> ? "number" : "text", name);
  }
  return std::get<Value>(found->second);
}

}  // namespace

double number_in(const CallbackState& state, const std::string& name, const std::string& owner) {
  return value_in<double>(state, name, owner);
}

std::string text_in(const CallbackState& state, const std::string& name, const std::string& owner) {
  return value_in<std::string>(state, name, owner);
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

void CallbackList::on_train_begin(Training& training) {
  for (const SharedCallback& callback : callbacks_) callback->on_train_begin(training);
}
void CallbackList::on_train_end(Training& training) {
  for (const SharedCallback& callback : callbacks_) callback->on_train_end(training);
}
void CallbackList::take_back_train_end(Training& training) {
  for (auto callback = callbacks_.rbegin(); callback != callbacks_.rend(); ++callback) {
    (*callback)->take_back_train_end(training);
  }
}
void CallbackList::on_epoch_begin(Training& training) {
  for (const SharedCallback& callback : callbacks_) callback->on_epoch_begin(training);
}
void CallbackList::on_epoch_end(Training& training) {
  for (const SharedCallback& callback : callbacks_) callback->on_epoch_end(training);
}
void CallbackList::on_train_batch_begin(Training& training) {
  for (const SharedCallback& callback : callbacks_) callback->on_train_batch_begin(training);
}
void CallbackList::on_train_batch_end(Training& training) {
  for (const SharedCallback& callback : callbacks_) callback->on_train_batch_end(training);
}
void CallbackList::on_test_begin(Training& training) {
  for (const SharedCallback& callback : callbacks_) callback->on_test_begin(training);
}
void CallbackList::on_test_end(Training& training) {
  for (const SharedCallback& callback : callbacks_) callback->on_test_end(training);
}
void CallbackList::on_test_batch_begin(Training& training) {
  for (const SharedCallback& callback : callbacks_) callback->on_test_batch_begin(training);
}
void CallbackList::on_test_batch_end(Training& training) {
  for (const SharedCallback& callback : callbacks_) callback->on_test_batch_end(training);
}

}  // namespace meshwork
