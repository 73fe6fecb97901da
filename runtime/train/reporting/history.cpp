#include "runtime/train/reporting/history.h"

#include "collectives/error.h"
#include "runtime/config/nearest.h"

namespace meshwork {

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

void HistoryRecorder::on_epoch_end(Training& training) {
  history_->epoch.push_back(training.position().epoch);
  for (const auto& [name, value] : training.logs()) {
    history_->history[name].push_back(value);
  }
}

void HistoryRecorder::on_evaluated(Training&, const Evaluated& evaluated) {
  for (const auto& [name, value] : evaluated.logs) history_->history[name].push_back(value);
}

}  // namespace meshwork
