// Pictures of placed models: what they show, held against reports, and how it is drawn.
#include "runtime/graph/parts_picture.h"

#include <regex>

#include "layers/dense.h"
#include "runtime/mesh/svg_drawing.h"
#include "tests/support/catch.h"
#include "tests/support/placed.h"
#include "tests/support/text_parts.h"

namespace meshwork::parts_picture_test {

using namespace meshwork::test;

namespace {

using Names = std::vector<std::string>;
using Bytes = std::map<std::string, std::int64_t>;
using Entries = PlaceEntries;

// "layer_0" to one less than `count`, each with six numbers a row, and a last one.
Trained chain_of(int count) {
  return {.sample = {6}, .build = [count](SymbolicTensor x) {
            for (int i = 0; i < count; ++i) {
              x = Dense({.name = fmt::format("layer_{}", i), .units = 6})(x);
            }
            return Dense({.name = "last", .units = 4})(x);
          }};
}

// One for each part, of ranks that differ from `rank` by their part alone.
std::vector<PlanReport> reports(const Plan& plan, const StepWalk& walk = {}, std::int64_t rank = 0,
                                Mode mode = Mode::train) {
  std::vector<PlanReport> all;
  for (std::int64_t part = 0; part < plan.mesh.size_over(plan.placing); ++part) {
    all.push_back(report_plan(plan, mode, 8, plan.mesh.neighbour(rank, plan.placing, part),
                              SGD().update_rule(), {}, Precision::float32, {}, walk));
  }
  return all;
}

// A stage for each layer of a chain, with its own pipeline.
Plan pipeline_of(int stages, std::int64_t ranks, std::int64_t chunks = 1) {
  Entries entries;
  for (int i = 0; i < stages; ++i) entries[fmt::format("layer_{}", i)] = {{"stage", i}};
  return placed_plan(chain_of(stages), mesh_of({{"stage", ranks}, {"data", 1}}), entries, {}, 8,
                     "stage", chunks);
}

// "0 -> 1: b/output 96", a line for each value.
Names listed(const std::vector<ModelParts::Messages>& messages) {
  Names all;
  for (const ModelParts::Messages& between : messages) {
    for (const auto& [what, bytes] : between.bytes) {
      all.push_back(fmt::format("{} {} {}: {} {}", between.from, between.back ? "~>" : "->",
                                between.to, what, bytes));
    }
  }
  return all;
}

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
  std::string words;
  [[nodiscard]] bool overlaps(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

std::vector<Box> texts_of(const std::string& svg) {
  static const std::regex text(
      R"re(<text x="(-?\d+)" y="(-?\d+)" text-anchor="(\w+)"[^>]*>([^<]*)</text>)re");
  std::vector<Box> all;
  for (std::sregex_iterator at(svg.begin(), svg.end(), text), end; at != end; ++at) {
    const double x = std::stod((*at)[1]), y = std::stod((*at)[2]);
    const double width = pixels_of((*at)[4].str());
    const double left = (*at)[3] == "start" ? x : (*at)[3] == "middle" ? x - width / 2 : x - width;
    all.push_back({left, y - 11, left + width, y + 3, (*at)[4]});
  }
  CHECK(std::ssize(all) == count(svg, "<text "));
  return all;
}

std::vector<Box> boxes_of(const std::string& svg) {
  static const std::regex box(
      R"re(<rect x="([-.\d]+)" y="([-.\d]+)" width="([-.\d]+)" height="([-.\d]+)"[^>]*stroke)re");
  std::vector<Box> all;
  for (std::sregex_iterator at(svg.begin(), svg.end(), box), end; at != end; ++at) {
    const double x = std::stod((*at)[1]), y = std::stod((*at)[2]);
    all.push_back({x, y, x + std::stod((*at)[3]), y + std::stod((*at)[4]), "a box"});
  }
  return all;
}

// Texts overlap no others, and no borders of boxes; and all is inside the document.
void check_space(const std::string& svg) {
  const std::vector<Box> texts = texts_of(svg);
  static const std::regex size(R"re(<svg [^>]*width="(\d+)" height="(\d+)")re");
  std::smatch found;
  REQUIRE(std::regex_search(svg, found, size));
  const double width = std::stod(found[1]), height = std::stod(found[2]);
  std::vector<Box> all = boxes_of(svg);
  all.insert(all.end(), texts.begin(), texts.end());
  for (const Box& one : all) {
    INFO(one.words << " from " << one.left << ", " << one.top << " to " << one.right << ", "
                   << one.bottom);
    CHECK((one.left >= 0 && one.top >= 0 && one.right <= width && one.bottom <= height));
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      INFO(texts[i].words << ", and " << texts[j].words);
      CHECK_FALSE(texts[i].overlaps(texts[j]));
    }
    for (const Box& box : boxes_of(svg)) {
      INFO(texts[i].words << ", and a box at " << box.left << ", " << box.top);
      const bool inside = texts[i].left >= box.left && texts[i].right <= box.right &&
                          texts[i].top >= box.top && texts[i].bottom <= box.bottom;
      CHECK((inside || !texts[i].overlaps(box)));
    }
  }
}

}  // namespace

TEST_CASE("a part has its layers in order, and what runs at every part stands apart") {
  const Plan plan = placed_plan(two_towers(), mesh_of({{"tower", 2}, {"data", 1}}),
                                {{"left", {{"tower", 0}}}, {"right", {{"tower", 1}}}});
  const ModelParts model = parts_of(plan, reports(plan));
  REQUIRE(model.parts.size() == 2);
  CHECK(model.parts[0].name == "tower=0");
  CHECK(model.parts[0].layers == Names{"left"});
  CHECK(model.parts[1].name == "tower=1");
  CHECK(model.parts[1].layers == Names{"right", "sum", "last"});
  CHECK(model.everywhere == Names{"trunk"});
  CHECK_FALSE(model.pipeline);
  CHECK(model.title == "tower=2 x data=1: train, global batch of 8 rows");
}

TEST_CASE("a block at one place stands for its layers, one that is cut does not") {
  const Trained blocks{.sample = {6}, .build = [](const SymbolicTensor& x) {
                         const auto dense = [](const std::string& name) {
                           return Dense({.name = name, .units = 6});
                         };
                         const auto whole = Sequential({dense("a"), dense("b")}, "whole");
                         const auto cut = Sequential({dense("a"), dense("b")}, "cut");
                         return Dense({.name = "last", .units = 4})(cut(whole(x)));
                       }};
  const Plan plan = placed_plan(
      blocks, mesh_of({{"stage", 2}}),
      {{"whole", {{"stage", 0}}}, {"cut/a", {{"stage", 0}}}, {"cut/b", {{"stage", 1}}}});
  const ModelParts model = parts_of(plan, reports(plan));
  CHECK(model.parts[0].layers == Names{"whole", "cut/a"});
  CHECK(model.parts[1].layers == Names{"cut/b", "last"});
  CHECK(model.everywhere.empty());
}

TEST_CASE("messages are the sends of reports, in all micro-batches") {
  // Four of eight rows, six numbers each.
  const MeshShape mesh = mesh_of({{"stage", 2}, {"data", 2}});
  const Plan plan =
      placed_plan(chain_of(2), mesh, {{"layer_0", {{"stage", 0}}}, {"layer_1", {{"stage", 1}}}}, {},
                  8, "stage");
  for (const std::int64_t micro_batches : {1, 4}) {
    for (const std::int64_t rank : {0, 3}) {
      const std::vector<PlanReport> of = reports(plan, {.micro_batches = micro_batches}, rank);
      const ModelParts model = parts_of(plan, of);
      CHECK(listed(model.messages) ==
            Names{"0 -> 1: layer_0/output 96", "1 ~> 0: layer_0/output gradient 96"});
      std::int64_t sent = 0;
      for (const CollectiveRecord& record : of[0].collectives) {
        if (record.name == "send") sent += record.bytes_sent;
      }
      CHECK(model.messages[0].total() == sent);
      CHECK(model.note == fmt::format("arrows: what the rank of a part at data={} sends in a step; "
                                      "dashed: gradients",
                                      rank == 0 ? 0 : 1));
    }
  }
  const ModelParts predicting = parts_of(plan, reports(plan, {}, 0, Mode::predict));
  CHECK(std::ranges::none_of(predicting.messages, &ModelParts::Messages::back));
  CHECK_FALSE(has(predicting.note, "gradients"));
  CHECK_FALSE(predicting.pipeline);
}

TEST_CASE("a message to several parts counts for each") {
  const Plan plan =
      placed_plan(two_towers(), mesh_of({{"tower", 3}, {"data", 1}}),
                  {{"trunk", {{"tower", 0}}}, {"left", {{"tower", 1}}}, {"right", {{"tower", 2}}}});
  // Eight rows: of six numbers, and of five of a tower.
  CHECK(listed(parts_of(plan, reports(plan)).messages) ==
        Names{"0 -> 1: trunk/output 192", "0 -> 2: trunk/output 192", "1 -> 2: left/output 160",
              "1 ~> 0: trunk/output gradient 192", "2 ~> 0: trunk/output gradient 192",
              "2 ~> 1: left/output gradient 160"});
}

TEST_CASE("with two axes that place, a part is a coordinate of each") {
  const Plan plan = placed_plan(chain_of(3), mesh_of({{"stage", 2}, {"tower", 2}}),
                                {{"layer_0", {{"stage", 0}, {"tower", 0}}},
                                 {"layer_1", {{"stage", 0}, {"tower", 1}}},
                                 {"layer_2", {{"stage", 1}, {"tower", 1}}}});
  const ModelParts model = parts_of(plan, reports(plan));
  REQUIRE(model.parts.size() == 4);
  CHECK(model.parts[1].name == "stage=0, tower=1");
  CHECK(model.parts[2].layers.empty());
  CHECK(model.parts[3].layers == Names{"layer_2", "last"});
  CHECK(listed(model.messages) == Names{"0 -> 1: layer_0/output 192", "1 -> 3: layer_1/output 192",
                                        "1 ~> 0: layer_0/output gradient 192",
                                        "3 ~> 1: layer_1/output gradient 192"});
}

TEST_CASE("what crosses on one of two axes does so at each coordinate of the other") {
  const Plan plan = placed_plan(two_towers(), mesh_of({{"stage", 2}, {"tower", 2}}),
                                {{"trunk", {{"stage", 0}}},
                                 {"left", {{"stage", 1}, {"tower", 0}}},
                                 {"right", {{"stage", 1}, {"tower", 1}}}});
  const ModelParts model = parts_of(plan, reports(plan));
  CHECK(model.parts[0].layers == Names{"trunk"});
  CHECK(model.parts[1].layers == Names{"trunk"});
  CHECK(model.parts[3].layers == Names{"right", "sum", "last"});
  Names forward = listed(model.messages);
  forward.resize(3);
  CHECK(forward ==
        Names{"0 -> 2: trunk/output 192", "1 -> 3: trunk/output 192", "2 -> 3: left/output 160"});
}

TEST_CASE("a part of several stages names them, and counts the values of each") {
  const Plan plan = pipeline_of(4, 2, 2);
  const ModelParts model = parts_of(plan, reports(plan, {.micro_batches = 2}));
  CHECK(model.parts[1].name == "stage=1: stages 1, 3");
  CHECK(model.parts[1].layers == Names{"layer_1", "layer_3", "last"});
  REQUIRE(model.messages.size() == 4);
  CHECK(model.messages[0].bytes == Bytes{{"layer_0/output", 192}, {"layer_2/output", 192}});
  CHECK(model.messages[1].bytes == Bytes{{"layer_1/output", 192}});
  const std::string svg = parts_picture(model);
  CHECK(has(svg, ">2 values<"));
  CHECK(has(svg, ">384 B<"));
  CHECK(has(svg, ">2 gradients<"));
  check_space(svg);
}

TEST_CASE("a picture has a box for each part, and an arrow for each pair that sends") {
  const Plan plan =
      placed_plan(two_towers(), mesh_of({{"tower", 3}, {"data", 1}}),
                  {{"trunk", {{"tower", 0}}}, {"left", {{"tower", 1}}}, {"right", {{"tower", 2}}}});
  const std::string svg = parts_picture(parts_of(plan, reports(plan)));
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(count(svg, "fill=\"#f6f8fa\"") == 3);
  CHECK(count(svg, "<path ") == 6);
  CHECK(count(svg, "stroke-dasharray") == 3);
  CHECK(count(svg, ">trunk/output<") == 2);
  CHECK(count(svg, ">160 B<") == 2);
  CHECK_FALSE(has(svg, "every part"));
  CHECK_FALSE(has(svg, "<title>"));
  check_space(svg);
}

TEST_CASE("of many parts the middle is elided, and the gap sends what they do") {
  const Plan plan = pipeline_of(10, 10);
  const ModelParts model = parts_of(plan, reports(plan, {.micro_batches = 4}));
  CHECK(model.parts.size() == 10);
  CHECK(model.messages.size() == 18);
  const std::string svg = parts_picture(model);
  CHECK(count(svg, "fill=\"#f6f8fa\"") == 8);
  CHECK(has(svg, ">…<"));
  // Along 0 to 6, the gap and 9, forward and back.
  CHECK(count(svg, "<path ") == 2 * 8);
  const auto middle = [&](const std::string& words) {
    const std::vector<Box> texts = texts_of(svg);
    const auto found = std::ranges::find(texts, words, &Box::words);
    REQUIRE(found != texts.end());
    return (found->left + found->right) / 2;
  };
  CHECK(middle("layer_6/output") == Approx((middle("stage=6") + middle("…")) / 2).margin(1));
  CHECK(middle("layer_8/output") == Approx((middle("…") + middle("stage=9")) / 2).margin(1));
  CHECK_FALSE(has(svg, ">layer_7/output<"));
  // A box and a row of the schedule.
  CHECK(count(svg, ">stage=6<") == 2);
  CHECK(count(svg, ">stage=7<") == 0);
  CHECK(count(svg, ">stage=9<") == 2);
  CHECK(count(svg, "<title>") == 8 * 2 * 4);
  check_space(svg);
}

TEST_CASE("a schedule has a box for each action, which begins when what it waits for has ended") {
  const Plan plan = pipeline_of(3, 3);
  const ModelParts model = parts_of(plan, reports(plan, {.micro_batches = 4}));
  REQUIRE(model.pipeline);
  const std::string svg = parts_picture(model);
  CHECK(count(svg, "<title>") == 3 * 2 * 4);
  for (const char* action : {"0F0", "1B3", "2F2"}) {
    CHECK(count(svg, fmt::format("<title>{}</title>", action)) == 1);
  }
  CHECK(has(svg, ">" + to_text(*model.pipeline) + "<"));
  CHECK(has(svg, ">holds 3<"));
  CHECK(has(svg, ">holds 1<"));
  CHECK(has(svg, ">F: forward<"));
  CHECK_FALSE(has(svg, ">W: "));
  const auto borders = [&](const std::string& action) {
    const std::regex pattern("<rect x=\"([.\\d]+)\" y=\"\\d+\" width=\"([.\\d]+)\"[^>]*><title>" +
                             action);
    std::smatch found;
    REQUIRE(std::regex_search(svg, found, pattern));
    return std::pair(std::stod(found[1]), std::stod(found[1]) + std::stod(found[2]));
  };
  CHECK(borders("1F0").first == Approx(borders("0F0").second).margin(0.11));
  CHECK(borders("2F0").first == Approx(borders("1F0").second).margin(0.11));
  CHECK(borders("1B0").first == Approx(borders("2B0").second).margin(0.11));
  CHECK(borders("0F0").second > borders("0F0").first);
  check_space(svg);
}

TEST_CASE("a schedule with gradients of weights of their own shows these") {
  const Plan plan = pipeline_of(2, 2);
  const std::string svg =
      parts_picture(parts_of(plan, reports(plan, {.micro_batches = 3, .schedule = zero_bubble()})));
  int actions = 0;
  for (std::int64_t coordinate : {0, 1}) {
    actions += static_cast<int>(zero_bubble().list({2, 1, 3}, coordinate).size());
  }
  CHECK(count(svg, "<title>") == actions);
  CHECK(has(svg, "<title>1W0</title>"));
  CHECK(has(svg, ">W: gradients of weights<"));
  check_space(svg);
}

TEST_CASE("a box that is too narrow for its number has none") {
  const Pipeline of{2, 1, 150};
  const ModelParts model{.parts = {{"stage=0", {}}, {"stage=1", {}}},
                         .pipeline = PlanReport::Pipeline{.axis = "stage",
                                                          .schedule = "gpipe",
                                                          .actions = actions_of(gpipe(), of),
                                                          .stage_seconds = {1, 3}}};
  const std::string svg = parts_picture(model);
  CHECK(count(svg, "<title>") == 2 * 2 * 150);
  CHECK_FALSE(has(svg, ">149<"));
  check_space(svg);
}

TEST_CASE("a long list or name is elided, and a name cannot end the text") {
  ModelParts model{
      .title = "a title", .note = "a note", .parts = {{"x=0", {"a<b&c"}}, {"x=1", {}}}};
  for (int i = 0; i < 12; ++i) {
    model.parts[1].layers.push_back(fmt::format("layer_{}", i));
    model.everywhere.push_back(fmt::format("everywhere_{}", i));
  }
  model.messages.push_back(
      {0, 1, false, {{"decoder/block_0/attention_of_a_long_name/output", 2048}}});
  const std::string svg = parts_picture(model);
  CHECK(has(svg, ">a&lt;b&amp;c<"));
  CHECK(has(svg, ">layer_6<"));
  CHECK_FALSE(has(svg, ">layer_7<"));
  CHECK(has(svg, ">layer_11<"));
  CHECK(has(svg, ">⋮<"));
  CHECK(has(svg, ">every part: everywhere_0, "));
  CHECK(has(svg, "…, everywhere_11<"));
  CHECK(has(svg, ">decoder/block_0/at…_long_name/output<"));
  CHECK(has(svg, ">2.0 KiB<"));
  check_space(svg);
}

TEST_CASE("a model of which nothing is placed has no parts") {
  const Plan plan = placed_plan(chain_of(1), mesh_of({{"stage", 1}, {"data", 2}}), {});
  CHECK_THROWS_WITH(parts_of(plan, {}),
                    Catch::Contains("no layer is placed on the mesh stage=1 x data=2"));
}

}  // namespace meshwork::parts_picture_test
