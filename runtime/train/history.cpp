#include "runtime/train/history.h"

#include <charconv>
#include <sstream>
#include <utility>

#include "collectives/error.h"
#include "runtime/config/nearest.h"

namespace meshwork {
namespace {

// Numbers in a list as text and back, without loss, whatever the locale.
template <class Number>
std::string join(const std::vector<Number>& numbers) {
  std::string text;
  for (const Number number : numbers) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", number);
  }
  return text;
}

template <class Number>
std::vector<Number> parse(const std::string& text) {
  std::vector<Number> numbers;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    Number number{};
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (problem != std::errc() || end != word.data() + word.size()) {
      fail("History: the saved state has \"{}\" where a number should be", word);
    }
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

const std::vector<double>& History::at(const std::string& name) const {
  const auto found = history.find(name);
  if (found == history.end()) {
    std::vector<std::string> known;
    for (const auto& [key, values] : history) {
      known.push_back(key);
    }
    fail("there is no \"{}\" in the history (there are: {}){}", name, quoted_list(known),
         did_you_mean(name, known));
  }
  return found->second;
}

void HistoryRecorder::on_train_begin(Training&) {
  if (!std::exchange(loaded_, false)) {
    history_->epoch.clear();
    history_->history.clear();
  }
}

void HistoryRecorder::on_epoch_end(Training& training) {
  history_->epoch.push_back(training.position().epoch);
  for (const auto& [name, value] : training.logs()) {
    history_->history[name].push_back(value);
  }
}

CallbackState HistoryRecorder::save() const {
  CallbackState state{{"epoch", join(history_->epoch)}};
  for (const auto& [name, values] : history_->history) {
    state["history/" + name] = join(values);
  }
  return state;
}

void HistoryRecorder::load(const CallbackState& state) {
  history_->epoch = parse<std::int64_t>(text_in(state, "epoch", class_name()));
  history_->history.clear();
  for (const auto& [key, value] : state) {
    if (key.starts_with("history/")) {
      history_->history[key.substr(8)] = parse<double>(text_in(state, key, class_name()));
    }
  }
  loaded_ = true;
}

}  // namespace meshwork
