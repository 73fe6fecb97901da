#include "runtime/graph/parts_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "runtime/graph/placement.h"
#include "runtime/mesh/block_grid.h"
#include "runtime/mesh/svg_drawing.h"

namespace meshwork {
namespace {

using Messages = ModelParts::Messages;

// ---- what is drawn ------------------------------------------------------------------------------

struct PlacedLayer {
  std::string path;
  Places places;
  bool operator==(const PlacedLayer&) const = default;
};

// "a", "a/b" and "a/b/c" of "a/b/c".
std::vector<std::string> prefixes_of(const std::string& path) {
  std::vector<std::string> all;
  for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    all.push_back(path.substr(0, at));
  }
  all.push_back(path);
  return all;
}

// Layers and blocks by where their operations run, each once, in the model's order.
std::vector<PlacedLayer> placed_layers(const Plan& plan) {
  std::vector<PlacedLayer> layers;  // of each operation
  for (const GraphOperation& operation : plan.graph->operations) {
    if (operation.layer < 0 || passes_on(*operation.operation)) continue;
    layers.push_back(
        {plan.graph->layers[operation.layer].path, plan.tensors[operation.output].layout.places});
  }
  std::map<std::string, Places> first;  // by path of a layer or block
  std::set<std::string> split;          // those that run at different places
  for (const PlacedLayer& layer : layers) {
    for (const std::string& path : prefixes_of(layer.path)) {
      if (first.emplace(path, layer.places).first->second != layer.places) split.insert(path);
    }
  }
  std::vector<PlacedLayer> shown;
  for (PlacedLayer& layer : layers) {
    for (const std::string& path : prefixes_of(layer.path)) {
      if (split.contains(path)) continue;
      layer.path = path;
      break;
    }
    if (std::ranges::find(shown, layer) == shown.end()) shown.push_back(std::move(layer));
  }
  return shown;
}

std::string coordinates_text(const MeshShape& mesh, std::int64_t rank,
                             const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis axis : axes) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", mesh.name(axis),
                        mesh.coordinate(rank, axis));
  }
  return text;
}

// "stage=1, tower=0"; of several stages at each coordinate, "stage=1: stages 1, 5".
std::string name_of_part(const Plan& plan, std::int64_t rank) {
  std::string name = coordinates_text(plan.mesh, rank, plan.placing);
  const Pipeline pipeline = plan.pipeline(1);
  if (pipeline.chunks == 1) return name;
  std::vector<std::int64_t> stages;
  for (std::int64_t stage = plan.mesh.coordinate(rank, plan.staged->axis);
       stage < pipeline.stages(); stage += pipeline.ranks) {
    stages.push_back(stage);
  }
  return fmt::format("{}: stages {}", name, joined_text(stages, ", "));
}

// The axes on which the ranks of the reports are the same, where these have several.
std::vector<Axis> other_axes(const Plan& plan) {
  std::vector<Axis> axes;
  for (Axis axis = 0; axis < plan.mesh.axis_count(); ++axis) {
    if (std::ranges::find(plan.placing, axis) == plan.placing.end() && plan.mesh.size(axis) > 1) {
      axes.push_back(axis);
    }
  }
  return axes;
}

using Between = std::tuple<bool, std::int64_t, std::int64_t>;  // back, from, to

std::vector<Messages> listed(const std::map<Between, std::map<std::string, std::int64_t>>& bytes) {
  std::vector<Messages> all;
  for (const auto& [between, by_what] : bytes) {
    const auto& [back, from, to] = between;
    all.push_back({from, to, back, by_what});
  }
  return all;
}

std::vector<Messages> messages_of(const Plan& plan, const std::vector<PlanReport>& reports) {
  std::map<Between, std::map<std::string, std::int64_t>> bytes;
  for (std::size_t part = 0; part < reports.size(); ++part) {
    const std::int64_t rank = reports[part].rank;
    for (const CollectiveRecord& record : reports[part].collectives) {
      if (record.name != "send") continue;
      for (const int peer : record.sends_to) {
        const std::int64_t to =
            plan.mesh.index_over(plan.mesh.neighbour(rank, record.axes, peer), plan.placing);
        // Each peer is sent the same block.
        bytes[{record.purpose.phase == "backward", static_cast<std::int64_t>(part), to}]
             [record.purpose.what] += record.bytes_sent / std::ssize(record.sends_to);
      }
    }
  }
  return listed(bytes);
}

// ---- the picture --------------------------------------------------------------------------------

constexpr int margin = SvgDrawing::margin, line_height = SvgDrawing::line_height;
constexpr int padding = 8, gap = 24;
constexpr int head = 8;                               // of an arrow
constexpr int message_height = 2 * line_height + 12;  // with a line above the arrow and one below
constexpr int action_height = 26, row_height = 32, least_time_width = 720;
constexpr std::int64_t most_shown = 8;
constexpr std::size_t most_characters = 36;  // of a name
constexpr std::string_view values_colour = "#0969da", gradients_colour = "#bc4c00";

struct KindOfAction {
  Action::Kind kind;
  const char *colour, *name;
};
constexpr std::array<KindOfAction, 4> kinds{{
    {Action::Kind::forward, SvgDrawing::palette[0], "F: forward"},
    {Action::Kind::backward, SvgDrawing::palette[2], "B: backward"},
    {Action::Kind::input_gradients, SvgDrawing::palette[1], "I: gradients of inputs"},
    {Action::Kind::weight_gradients, SvgDrawing::palette[3], "W: gradients of weights"},
}};

// A name of any length, elided in the middle. Cuts between characters of UTF-8.
std::string shortened(const std::string& name) {
  std::vector<std::size_t> begins;  // of characters
  for (std::size_t at = 0; at < name.size(); ++at) {
    if ((static_cast<unsigned char>(name[at]) & 0xC0) != 0x80) begins.push_back(at);
  }
  if (begins.size() <= most_characters) return name;
  const std::size_t kept = most_characters / 2;
  return name.substr(0, begins[kept]) + "…" + name.substr(begins[begins.size() - kept + 1]);
}

// What stands above an arrow.
std::string words_of(const Messages& messages) {
  if (messages.bytes.size() == 1) return shortened(messages.bytes.begin()->first);
  return fmt::format("{} {}", messages.bytes.size(), messages.back ? "gradients" : "values");
}

class PartsPicture {
 public:
  explicit PartsPicture(const ModelParts& model)
      : model_(model), columns_(shown_of(std::ssize(model.parts), most_shown)) {
    find_messages();
    place_columns();
  }

  std::string draw() {
    line(model_.title, SvgDrawing::bold_text);
    line(model_.note, SvgDrawing::quiet_text);
    y_ += padding;
    draw_everywhere();
    draw_parts();
    draw_messages();
    if (model_.pipeline) draw_schedule(*model_.pipeline);
    return drawing_.document(width_ + margin, y_ + margin);
  }

 private:
  // Between columns. The gap sends and receives all that elided parts do.
  void find_messages() {
    const auto is_gap = [](const std::optional<std::int64_t>& part) { return !part; };
    const std::int64_t elided = std::ranges::find_if(columns_, is_gap) - columns_.begin();
    std::vector<std::int64_t> column_of(model_.parts.size(), elided);
    for (std::int64_t column = 0; column < std::ssize(columns_); ++column) {
      const auto& part = columns_[static_cast<std::size_t>(column)];
      if (part) column_of[static_cast<std::size_t>(*part)] = column;
    }
    std::map<Between, std::map<std::string, std::int64_t>> bytes;
    for (const Messages& messages : model_.messages) {
      const std::int64_t from = column_of[static_cast<std::size_t>(messages.from)];
      const std::int64_t to = column_of[static_cast<std::size_t>(messages.to)];
      if (from == to) continue;
      std::map<std::string, std::int64_t>& of_columns = bytes[{messages.back, from, to}];
      for (const auto& [what, sent] : messages.bytes) of_columns[what] += sent;
    }
    messages_ = listed(bytes);
  }

  // Boxes are as wide as the widest name needs, and as far apart as the widest words of an arrow.
  void place_columns() {
    box_width_ = 96;
    for (const auto& column : columns_) {
      if (!column) continue;
      const ModelParts::Part& part = model_.parts[static_cast<std::size_t>(*column)];
      box_width_ = std::max(box_width_, pixels_of(part.name) + 4 * padding);
      for (const std::string& name : names_of(part.layers)) {
        box_width_ = std::max(box_width_, pixels_of(name) + 2 * padding);
      }
    }
    pitch_ = box_width_ + gap;
    for (const Messages& messages : messages_) {
      const auto span = static_cast<int>(std::abs(messages.to - messages.from));
      const int words =
          std::max(pixels_of(words_of(messages)), pixels_of(readable_bytes(messages.total())));
      pitch_ = std::max(pitch_, (words + 2 * head + 2 * padding + span - 1) / span);
    }
    right_ = left_of(std::ssize(columns_) - 1) + box_width_;
    width_ = right_;
  }

  [[nodiscard]] int left_of(std::int64_t column) const {
    return margin + static_cast<int>(column) * pitch_;
  }
  [[nodiscard]] int middle_of(std::int64_t column) const {
    return left_of(column) + box_width_ / 2;
  }

  // The lines of a box: names, and "⋮" for those that are left out.
  static std::vector<std::string> names_of(const std::vector<std::string>& layers) {
    std::vector<std::string> names;
    for (const auto at : shown_of(std::ssize(layers), most_shown)) {
      names.push_back(at ? shortened(layers[static_cast<std::size_t>(*at)]) : "⋮");
    }
    return names;
  }

  void line(const std::string& words, std::string_view attributes = "") {
    if (words.empty()) return;
    drawing_.text(margin, y_ + SvgDrawing::font_size, "start", words, attributes);
    // Bold letters are wider.
    width_ = std::max(width_, margin + pixels_of(words) * (attributes.empty() ? 10 : 11) / 10);
    y_ += line_height;
  }

  void draw_everywhere() {
    if (model_.everywhere.empty()) return;
    // As many names as there is space for.
    std::string words;
    for (std::int64_t most = most_shown; most > 0; --most) {
      words.clear();
      for (const auto at : shown_of(std::ssize(model_.everywhere), most)) {
        words +=
            fmt::format("{}{}", words.empty() ? "every part: " : ", ",
                        at ? shortened(model_.everywhere[static_cast<std::size_t>(*at)]) : "…");
      }
      if (pixels_of(words) + 2 * padding <= right_ - margin) break;
    }
    const int width = std::max(right_ - margin, pixels_of(words) + 2 * padding);
    drawing_.box(margin, y_, width, line_height + padding, "#ffffff", words);
    width_ = std::max(width_, margin + width);
    y_ += line_height + 2 * padding;
  }

  void draw_parts() {
    std::size_t lines = 0;
    for (const auto& column : columns_) {
      if (!column) continue;
      lines =
          std::max(lines, names_of(model_.parts[static_cast<std::size_t>(*column)].layers).size());
    }
    const int height = 2 * padding + line_height * static_cast<int>(1 + lines);
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      const auto at = static_cast<std::int64_t>(column);
      if (!columns_[column]) {
        drawing_.elided(left_of(at), y_, box_width_, height, true);
        continue;
      }
      const ModelParts::Part& part = model_.parts[static_cast<std::size_t>(*columns_[column])];
      drawing_.box(left_of(at), y_, box_width_, height, "#f6f8fa");
      int baseline = y_ + padding + SvgDrawing::font_size;
      drawing_.text(middle_of(at), baseline, "middle", part.name, SvgDrawing::bold_text);
      for (const std::string& name : names_of(part.layers)) {
        drawing_.text(middle_of(at), baseline += line_height, "middle", name);
      }
    }
    y_ += height;
  }

  // By message: its row. Arrows of a row lie beside each other; values and gradients have their own.
  [[nodiscard]] std::vector<int> rows_of_messages() const {
    std::vector<int> rows;
    std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> taken;  // by row: columns
    std::size_t first = 0;
    bool back = false;
    for (const Messages& messages : messages_) {
      if (messages.back && !back) first = taken.size();
      back = messages.back;
      const std::int64_t low = std::min(messages.from, messages.to);
      const std::int64_t high = std::max(messages.from, messages.to);
      std::size_t row = first;
      while (row < taken.size() && std::ranges::any_of(taken[row], [&](const auto& other) {
               return low < other.second && other.first < high;
             })) {
        ++row;
      }
      if (row == taken.size()) taken.emplace_back();
      taken[row].emplace_back(low, high);
      rows.push_back(static_cast<int>(row));
    }
    return rows;
  }

  void draw_messages() {
    if (messages_.empty()) return;
    const std::vector<int> rows = rows_of_messages();
    const int bottom = y_ + (1 + std::ranges::max(rows)) * message_height + padding;
    for (std::int64_t column = 0; column < std::ssize(columns_); ++column) {
      drawing_.element(
          fmt::format("<line x1=\"{0}\" y1=\"{1}\" x2=\"{0}\" y2=\"{2}\" stroke=\"#d0d7de\"/>",
                      middle_of(column), y_, bottom));
    }
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      draw_arrow(messages_[i], y_ + rows[i] * message_height + line_height + padding);
    }
    y_ = bottom;
  }

  void draw_arrow(const Messages& messages, int y) {
    const std::string_view colour = messages.back ? gradients_colour : values_colour;
    const int from = middle_of(messages.from), to = middle_of(messages.to);
    const int neck = to > from ? to - head : to + head;
    drawing_.element(fmt::format(
        "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"2\"{}/>", from,
        y, neck, y, colour, messages.back ? " stroke-dasharray=\"6 4\"" : ""));
    drawing_.element(fmt::format("<path d=\"M{},{} L{},{} L{},{} z\" fill=\"{}\"/>", to, y, neck,
                                 y - head / 2, neck, y + head / 2, colour));
    const auto words = [&](int baseline, const std::string& text) {
      const int x = (from + to) / 2, width = pixels_of(text);
      if (std::abs(messages.to - messages.from) > 1) {  // it stands on the lines of other columns
        drawing_.element(fmt::format(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>", x - width / 2,
            baseline - SvgDrawing::font_size + 1, width, SvgDrawing::font_size + 2));
      }
      drawing_.text(x, baseline, "middle", text);
    };
    words(y - 6, words_of(messages));
    words(y + SvgDrawing::font_size + 3, readable_bytes(messages.total()));
  }

  void draw_schedule(const PlanReport::Pipeline& pipeline) {
    y_ += gap;
    line(fmt::format("{} over {}", shortened(pipeline.schedule), pipeline.axis),
         SvgDrawing::bold_text);
    line(to_text(pipeline));
    y_ += padding;
    const ShownPositions rows = shown_of(std::ssize(pipeline.actions), most_shown);
    const auto name = [&](std::int64_t row) { return fmt::format("{}={}", pipeline.axis, row); };
    const auto held = [&](std::int64_t row) {
      return fmt::format("holds {}", most_held(pipeline.actions[static_cast<std::size_t>(row)]));
    };
    int names = 0, helds = 0;
    for (const auto& row : rows) {
      if (!row) continue;
      names = std::max(names, pixels_of(name(*row)));
      helds = std::max(helds, pixels_of(held(*row)));
    }
    const int left = margin + names + padding;
    const int time_width = std::max(least_time_width, right_ - left - helds - padding);
    const Timeline timeline = timeline_of(pipeline.actions, pipeline.stage_seconds);
    double longest = 0;
    for (const std::vector<double>& ends : timeline.end) {
      if (!ends.empty()) longest = std::max(longest, ends.back());
    }
    const double scale = longest > 0 ? time_width / longest : 0;
    for (const auto& row : rows) {
      if (!row) {
        drawing_.elided(left, y_, time_width, action_height, false);
        y_ += row_height;
        continue;
      }
      const auto at = static_cast<std::size_t>(*row);
      const int baseline = y_ + action_height / 2 + 5;
      drawing_.text(margin, baseline, "start", name(*row));
      for (std::size_t i = 0; i < timeline.end[at].size(); ++i) {
        draw_action(pipeline.actions[at][i], left + scale * timeline.begin[at][i],
                    left + scale * timeline.end[at][i]);
      }
      drawing_.text(left + time_width + padding, baseline, "start", held(*row));
      y_ += row_height;
    }
    width_ = std::max(width_, left + time_width + padding + helds);
    draw_legend(pipeline.actions);
  }

  // Its box is the element that has a title: viewers show that under the pointer.
  void draw_action(const Action& action, double from, double to) {
    const KindOfAction& kind = *std::ranges::find(kinds, action.kind, &KindOfAction::kind);
    drawing_.element(fmt::format(
        "<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\" stroke=\"#24292f\" "
        "stroke-width=\"0.5\"><title>{}</title></rect>",
        from, y_, to - from, action_height, kind.colour, to_string(action)));
    const std::string number = std::to_string(action.micro_batch);
    if (pixels_of(number) + 2 > to - from) return;
    drawing_.text(static_cast<int>(std::lround((from + to) / 2)), y_ + action_height / 2 + 5,
                  "middle", number);
  }

  void draw_legend(const Actions& actions) {
    int x = margin;
    for (const KindOfAction& kind : kinds) {
      const bool occurs = std::ranges::any_of(actions, [&](const std::vector<Action>& list) {
        return std::ranges::find(list, kind.kind, &Action::kind) != list.end();
      });
      if (!occurs) continue;
      drawing_.box(x, y_ + 2, SvgDrawing::font_size, SvgDrawing::font_size, kind.colour);
      x += SvgDrawing::font_size + padding;
      drawing_.text(x, y_ + SvgDrawing::font_size, "start", kind.name, SvgDrawing::quiet_text);
      x += pixels_of(kind.name) + gap;
    }
    constexpr std::string_view numbers = "numbers: micro-batches; holds: of these, at most";
    drawing_.text(x, y_ + SvgDrawing::font_size, "start", numbers, SvgDrawing::quiet_text);
    width_ = std::max(width_, x + pixels_of(numbers));
    y_ += line_height;
  }

  const ModelParts& model_;
  ShownPositions columns_;          // parts
  std::vector<Messages> messages_;  // between columns
  int box_width_ = 0, pitch_ = 0, right_ = 0;
  int y_ = margin, width_ = 0;  // of what is drawn
  SvgDrawing drawing_;
};

}  // namespace

std::int64_t ModelParts::Messages::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& one) { return sum + one.second; });
}

ModelParts parts_of(const Plan& plan, const std::vector<PlanReport>& reports) {
  if (plan.placing.empty()) {
    fail("no layer is placed on the mesh {}, so the model has no parts", to_string(plan.mesh));
  }
  if (std::ssize(reports) != plan.mesh.size_over(plan.placing)) {
    internal_error("a picture of parts wants a report of each");
  }
  ModelParts model;
  const PlanReport& one = reports.front();
  model.title = fmt::format(
      "{}: {}, global batch of {} rows{}", to_string(plan.mesh), name_of(one.mode), one.rows,
      one.micro_batches > 1 ? fmt::format(" in {} micro-batches", one.micro_batches) : "");
  const std::string others = coordinates_text(plan.mesh, one.rank, other_axes(plan));
  for (const PlanReport& report : reports) {
    model.parts.push_back({name_of_part(plan, report.rank), {}});
  }
  for (const PlacedLayer& layer : placed_layers(plan)) {
    if (layer.places.empty()) {
      model.everywhere.push_back(layer.path);
      continue;
    }
    for (std::size_t part = 0; part < reports.size(); ++part) {
      if (includes(layer.places, plan.mesh, reports[part].rank)) {
        model.parts[part].layers.push_back(layer.path);
      }
    }
  }
  model.messages = messages_of(plan, reports);
  model.note = fmt::format(
      "arrows: what {} sends in a step{}",
      others.empty() ? "a part" : "the rank of a part at " + others,
      std::ranges::any_of(model.messages, &Messages::back) ? "; dashed: gradients" : "");
  model.pipeline = one.pipeline;
  return model;
}

std::string parts_picture(const ModelParts& model) {
  return PartsPicture(model).draw();
}

}  // namespace meshwork
