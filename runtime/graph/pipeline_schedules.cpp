#include "runtime/graph/pipeline_schedules.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <utility>

#include "collectives/error.h"
#include "runtime/config/options.h"

namespace meshwork {
namespace {

using Kind = Action::Kind;

// A coordinate's stages and micro-batches in the order in which they go forward: as many micro-batches
// as there are coordinates through one stage, then through the next. Backward takes the last stage
// first.
std::vector<Action> in_rounds(const Pipeline& pipeline, std::int64_t coordinate, Kind kind) {
  const auto& [ranks, chunks, batches] = pipeline;
  std::vector<Action> all;
  for (std::int64_t first = 0; first < batches; first += ranks) {
    for (std::int64_t i = 0; i < chunks; ++i) {
      const std::int64_t chunk = kind == Kind::forward ? i : chunks - 1 - i;
      for (std::int64_t batch = first; batch < std::min(first + ranks, batches); ++batch) {
        all.push_back({kind, coordinate + chunk * ranks, batch});
      }
    }
  }
  return all;
}

std::vector<Action> list_1f1b(const Pipeline& pipeline, std::int64_t coordinate) {
  // Rounds are full in a list of more micro-batches, of which the last are left out.
  const auto& [ranks, chunks, batches] = pipeline;
  const Pipeline full{ranks, chunks, (batches + ranks - 1) / ranks * ranks};
  const std::vector<Action> forward = in_rounds(full, coordinate, Kind::forward);
  const std::vector<Action> backward = in_rounds(full, coordinate, Kind::backward);
  const std::int64_t behind = ranks - 1 - coordinate;
  const std::size_t ahead = std::min(
      forward.size(),
      static_cast<std::size_t>(chunks == 1 ? behind : 2 * behind + (chunks - 1) * ranks) + 1);
  std::vector<Action> all;
  const auto add = [&, batches = batches](const Action& action) {
    if (action.micro_batch < batches) all.push_back(action);
  };
  std::size_t gone = 0;
  for (std::size_t back = 0; back < backward.size(); ++back) {
    while (gone < std::min(forward.size(), ahead + back)) add(forward[gone++]);
    add(backward[back]);
  }
  return all;
}

std::vector<Action> list_gpipe(const Pipeline& pipeline, std::int64_t coordinate) {
  std::vector<Action> all = in_rounds(pipeline, coordinate, Kind::forward);
  for (const Action& action : in_rounds(pipeline, coordinate, Kind::backward)) {
    all.push_back(action);
  }
  return all;
}

std::vector<Action> list_in_turn(const Pipeline& pipeline, std::int64_t coordinate) {
  const auto& [ranks, chunks, batches] = pipeline;
  std::vector<Action> all;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    for (std::int64_t i = 0; i < chunks; ++i) {
      all.push_back({Kind::forward, coordinate + i * ranks, batch});
    }
    for (std::int64_t i = chunks; i-- > 0;) {
      all.push_back({Kind::backward, coordinate + i * ranks, batch});
    }
  }
  return all;
}

std::vector<Action> list_zero_bubble(const Pipeline& pipeline, std::int64_t coordinate) {
  std::vector<Action> all;
  const auto add_weights = [&](std::int64_t batch) {
    if (batch >= 0) all.push_back({Kind::weight_gradients, coordinate, batch});
  };
  const std::int64_t ahead = pipeline.ranks - coordinate;
  std::int64_t forward = 0;
  for (std::int64_t batch = 0; batch < pipeline.micro_batches; ++batch) {
    for (; forward < std::min(batch + ahead, pipeline.micro_batches); ++forward) {
      all.push_back({Kind::forward, coordinate, forward});
    }
    all.push_back({Kind::input_gradients, coordinate, batch});
    add_weights(batch - coordinate);
  }
  for (std::int64_t left = coordinate; left > 0; --left) {
    add_weights(pipeline.micro_batches - left);
  }
  return all;
}

struct ListedOptions {
  std::filesystem::path file;
};
template <class Visitor>
void describe(ListedOptions& options, Visitor& option) {
  option.about("a file lists the actions of each coordinate: 0F0, 0F1, 0B0, 0B1");
  option.required("file", options.file, "a line for each coordinate, actions between commas");
}

struct NoOptions {};
template <class Visitor>
void describe(NoOptions&, Visitor&) {}

}  // namespace

PipelineSchedule one_forward_one_backward() {
  return {"1f1b", list_1f1b};
}
PipelineSchedule gpipe() {
  return {"gpipe", list_gpipe};
}
PipelineSchedule zero_bubble() {
  return {"zero_bubble", list_zero_bubble, /*takes_chunks=*/false};
}
PipelineSchedule in_turn() {
  return {"in_turn", list_in_turn};
}

PipelineSchedule listed_actions(const std::filesystem::path& file) {
  std::ifstream stream;
  if (std::filesystem::is_regular_file(file)) stream.open(file);
  if (!stream.is_open()) fail("{} cannot be read", file.string());
  const std::string text((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  std::istringstream lines(text);
  Actions lists;
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::erase_if(line, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
    if (line.empty()) continue;
    std::vector<Action>& list = lists.emplace_back();
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t comma = std::min(line.find(',', begin), line.size());
      const std::string word = line.substr(begin, comma - begin);
      begin = comma + 1;
      if (word.empty()) continue;
      try {
        list.push_back(action_of(word));
      } catch (const Error& error) {
        fail("{}:{}: {}", file.string(), number, error.what());
      }
    }
  }
  if (lists.empty()) fail("{} lists no actions", file.string());
  const auto list = [file, lists](const Pipeline& pipeline, std::int64_t coordinate) {
    if (std::ssize(lists) != pipeline.ranks) {
      fail("{} lists the actions of {} coordinate{}, the axis has {}", file.string(), lists.size(),
           lists.size() == 1 ? "" : "s", pipeline.ranks);
    }
    // A short batch has fewer micro-batches.
    std::vector<Action> actions = lists[static_cast<std::size_t>(coordinate)];
    std::erase_if(actions, [&](const Action& action) {
      return action.micro_batch >= pipeline.micro_batches;
    });
    return actions;
  };
  return {fmt::format("{} ({:08x})", file.string(), std::hash<std::string>()(text) & 0xffffffff),
          list};
}

void add_pipeline_schedules(Catalog& catalog) {
  const auto add = [&](const std::string& name, PipelineSchedule schedule, const char* about) {
    const std::string short_name = schedule.name;
    catalog.add<PipelineSchedule, NoOptions>(
        name, {short_name}, [schedule = std::move(schedule)](const NoOptions&) { return schedule; },
        {}, about);
  };
  add("OneForwardOneBackward", one_forward_one_backward(),
      "forward and backward in turns, as few micro-batches held as can be; with chunks, "
      "interleaved");
  add("GPipe", gpipe(), "forward with all micro-batches, then backward");
  add("ZeroBubble", zero_bubble(),
      "gradients of weights of products and convolutions where a rank would be idle; chunks: 1");
  add("InTurn", in_turn(), "one micro-batch after the other, forward and backward");
  catalog.add<PipelineSchedule, ListedOptions>(
      "ListedActions", {},
      [](const ListedOptions& options) { return listed_actions(options.file); });
}

}  // namespace meshwork
