#include "runtime/graph/choice_network.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "collectives/error.h"

namespace meshwork {
namespace {

// A row-major walk over the options of several choices.
class Odometer {
 public:
  Odometer(const std::vector<int>& choices, const std::vector<int>& options) {
    for (const int choice : choices) {
      limits_.push_back(options[choice]);
    }
    digits_.assign(choices.size(), 0);
  }
  [[nodiscard]] const std::vector<int>& digits() const { return digits_; }
  bool advance() {
    for (std::size_t i = digits_.size(); i-- > 0;) {
      if (++digits_[i] < limits_[i]) {
        return true;
      }
      digits_[i] = 0;
    }
    return false;
  }

 private:
  std::vector<int> limits_;
  std::vector<int> digits_;
};

struct Elimination {
  int choice;
  std::vector<int> neighbours;
  std::vector<int> best;  // option of `choice`, row-major over the neighbours' options
};

}  // namespace

int ChoiceNetwork::add_choice(std::vector<ChoiceCost> costs) {
  const int choice = static_cast<int>(options_.size());
  if (costs.empty()) {
    internal_error("a choice without options");
  }
  options_.push_back(static_cast<int>(costs.size()));
  tables_.push_back({{choice}, std::move(costs)});
  return choice;
}

void ChoiceNetwork::add_pair(int a, int b, std::vector<ChoiceCost> costs) {
  if (a == b || static_cast<std::int64_t>(costs.size()) !=
                    static_cast<std::int64_t>(options_[a]) * options_[b]) {
    internal_error("a pair's costs do not fit its choices");
  }
  tables_.push_back({{a, b}, std::move(costs)});
}

Combination ChoiceNetwork::cheapest(std::int64_t table_limit) const {
  const int count = static_cast<int>(options_.size());
  if (std::all_of(options_.begin(), options_.end(), [](int options) { return options == 1; })) {
    return {std::vector<int>(count, 0), {}};  // one rank: nothing can be spread
  }
  std::vector<Table> tables = tables_;
  std::vector<std::set<int>> touching(count);  // tables by choice; emptied ones are erased
  std::vector<std::set<int>> neighbours(count);
  const auto connect = [&](int index) {
    for (const int a : tables[index].choices) {
      touching[a].insert(index);
      for (const int b : tables[index].choices) {
        if (a != b) {
          neighbours[a].insert(b);
        }
      }
    }
  };
  for (int index = 0; index < static_cast<int>(tables.size()); ++index) {
    connect(index);
  }
  const auto table_size = [&](int choice) {
    std::int64_t size = options_[choice];
    for (const int neighbour : neighbours[choice]) {
      size = std::min(size * options_[neighbour], std::numeric_limits<std::int64_t>::max() >> 20);
    }
    return size;
  };

  std::set<std::pair<std::int64_t, int>> queue;  // by size of the table that elimination makes
  std::vector<std::int64_t> queued(count);
  for (int choice = 0; choice < count; ++choice) {
    queued[choice] = table_size(choice);
    queue.insert({queued[choice], choice});
  }
  std::vector<Elimination> eliminated;
  eliminated.reserve(count);
  std::vector<int> fixed;

  while (!queue.empty()) {
    const auto [size, choice] = *queue.begin();
    queue.erase(queue.begin());
    // Past the limit the choice takes one option now, and its neighbours see only that one.
    int first = 0;
    int last = options_[choice];
    if (size > table_limit) {
      ChoiceCost least{std::numeric_limits<std::int64_t>::max(), 0};
      for (int option = 0; option < options_[choice]; ++option) {
        ChoiceCost sum;
        for (const int index : touching[choice]) {
          const Table& table = tables[index];
          ChoiceCost best{std::numeric_limits<std::int64_t>::max(), 0};
          Odometer walk(table.choices, options_);
          const auto place =
              std::find(table.choices.begin(), table.choices.end(), choice) - table.choices.begin();
          std::size_t cell = 0;
          do {
            if (walk.digits()[place] == option) {
              best = std::min(best, table.costs[cell]);
            }
            ++cell;
          } while (walk.advance());
          sum += best;
        }
        if (sum < least) {
          least = sum;
          first = option;
        }
      }
      last = first + 1;
    }

    Elimination step{choice, {neighbours[choice].begin(), neighbours[choice].end()}, {}};
    if (size > table_limit) {
      // Fixed: each table that touches it loses it as a dimension; no new neighbours arise.
      fixed.push_back(choice);
      step.neighbours.clear();
      step.best = {first};
      const std::set<int> indices = touching[choice];
      for (const int index : indices) {
        Table& table = tables[index];
        const auto place =
            std::find(table.choices.begin(), table.choices.end(), choice) - table.choices.begin();
        Table smaller;
        smaller.choices = table.choices;
        smaller.choices.erase(smaller.choices.begin() + place);
        Odometer walk(table.choices, options_);
        std::size_t cell = 0;
        do {
          if (walk.digits()[place] == first) {
            smaller.costs.push_back(table.costs[cell]);
          }
          ++cell;
        } while (walk.advance());
        table = std::move(smaller);
      }
    } else {
      Table merged{step.neighbours, {}};
      Odometer walk(step.neighbours, options_);
      // Where each digit of the walk, and the choice itself, stands in each table.
      struct View {
        const Table* table;
        std::vector<std::pair<int, std::size_t>> strides;  // position in neighbours, stride
        std::size_t own_stride = 0;
      };
      std::vector<View> views;
      for (const int index : touching[choice]) {
        View view{&tables[index], {}, 0};
        std::size_t stride = 1;
        for (std::size_t i = tables[index].choices.size(); i-- > 0;) {
          const int member = tables[index].choices[i];
          if (member == choice) {
            view.own_stride = stride;
          } else {
            const auto place = std::find(step.neighbours.begin(), step.neighbours.end(), member) -
                               step.neighbours.begin();
            view.strides.emplace_back(static_cast<int>(place), stride);
          }
          stride *= static_cast<std::size_t>(options_[member]);
        }
        views.push_back(std::move(view));
      }
      do {
        ChoiceCost least{std::numeric_limits<std::int64_t>::max(), 0};
        int best = first;
        for (int option = first; option < last; ++option) {
          ChoiceCost sum;
          for (const View& view : views) {
            std::size_t cell = view.own_stride * static_cast<std::size_t>(option);
            for (const auto& [place, stride] : view.strides) {
              cell += stride * static_cast<std::size_t>(walk.digits()[place]);
            }
            sum += view.table->costs[cell];
          }
          if (sum < least) {
            least = sum;
            best = option;
          }
        }
        merged.costs.push_back(least);
        step.best.push_back(best);
      } while (walk.advance());
      const std::set<int> indices = touching[choice];
      for (const int index : indices) {
        for (const int member : tables[index].choices) {
          touching[member].erase(index);
        }
        tables[index] = {};
      }
      if (!merged.choices.empty()) {
        tables.push_back(std::move(merged));
        connect(static_cast<int>(tables.size()) - 1);
      }
    }
    for (const int neighbour : neighbours[choice]) {
      neighbours[neighbour].erase(choice);
    }
    for (const int neighbour : neighbours[choice]) {
      queue.erase({queued[neighbour], neighbour});
      queued[neighbour] = table_size(neighbour);
      queue.insert({queued[neighbour], neighbour});
    }
    touching[choice].clear();
    eliminated.push_back(std::move(step));
  }

  std::vector<int> chosen(count, 0);
  for (std::size_t i = eliminated.size(); i-- > 0;) {
    const Elimination& step = eliminated[i];
    std::size_t cell = 0;
    for (const int neighbour : step.neighbours) {
      cell = cell * static_cast<std::size_t>(options_[neighbour]) +
             static_cast<std::size_t>(chosen[neighbour]);
    }
    chosen[step.choice] = step.best[cell];
  }
  std::sort(fixed.begin(), fixed.end());
  return {std::move(chosen), std::move(fixed)};
}

}  // namespace meshwork
