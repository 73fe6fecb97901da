// Reports of plans: tables and JSON, with numbers worked out by hand. That their collectives and
// memory are those of a run is tested in lower.cpp.
#include "runtime/graph/plan_report.h"
#include "runtime/device/kernels/precision.h"

#include "layers/dense.h"
#include "layers/flatten.h"
#include "layers/multi_head_attention.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizers/adam.h"
#include "tests/support/one_rank.h"

namespace meshwork::plan_report_test {

using namespace meshwork::test;

namespace {

// 6 -> 8 -> 3 on data=2 x model=2, columns of d1 over model; for rank `rank`, 10 rows.
PlanReport report(std::int64_t rank, Mode mode = Mode::train,
                  const std::vector<MeshAxis>& axes = {{"data", 2}, {"model", 2}},
                  const std::string& origin = "", Precision precision = Precision::float32) {
  std::int64_t ranks = 1;
  for (const MeshAxis& axis : axes) {
    ranks *= axis.size;
  }
  const MeshShape mesh(axes, ranks);
  const auto input = Input({6});
  const Graph model = make_graph(
      {input}, {Dense({.name = "d2", .units = 3})(Dense({.name = "d1", .units = 8})(input))});
  LayoutMap layouts(mesh);
  layouts.insert("d1/kernel", {unsharded, "model"}, origin);
  Blueprint blueprint(std::make_shared<Graph>(model), layouts, mesh.axis("data"),
                      UnmatchedLayouts::error, {}, CompileOptions{.loss = MeanSquaredError()});
  blueprint.draw(LossData{.targets = {{3}}}, 10);
  const Plan& plan = blueprint.planned->plan;
  return report_plan(plan, mode, 10, rank, Adam().update_rule(),
                     {{plan.graph->inputs[0], ElementType::uint8}}, precision,
                     {.reads_narrow_operands = true});
}

const ReportedTensor& tensor(const std::vector<ReportedTensor>& tensors, const std::string& path) {
  for (const ReportedTensor& one : tensors) {
    if (one.path == path) {
      return one;
    }
  }
  FAIL("no " << path);
  return tensors.front();
}

}  // namespace

TEST_CASE("a report has every variable and output, with this rank's block") {
  const PlanReport found = report(3);
  CHECK(found.variables.size() == 4);
  CHECK(found.outputs.size() == 2);
  const ReportedTensor& kernel = tensor(found.variables, "d1/kernel");
  CHECK(kernel.shape == Shape{6, 8});
  CHECK(kernel.block == Block{{0, 6}, {4, 8}});
  CHECK(kernel.bytes == 6 * 4 * 4);
  CHECK(kernel.reason == "key d1/kernel");
  CHECK(tensor(found.variables, "d2/bias").bytes == 12);
  const ReportedTensor& output = tensor(found.outputs, "d2/output");
  CHECK(output.shape == Shape{10, 3});
  CHECK(output.block[0] == Range{5, 10});
}

TEST_CASE("the output of a layer that a rewrite does without is on no rank") {
  const MeshShape mesh({{"data", 2}}, 2);
  const auto input = Input({2, 3});
  const auto output = Dense({.name = "d", .units = 3})(Flatten({.name = "f"})(input));
  Blueprint blueprint(std::make_shared<Graph>(make_graph({input}, {output})), LayoutMap(mesh),
                      mesh.axis("data"), UnmatchedLayouts::error, {},
                      CompileOptions{.loss = MeanSquaredError()});
  blueprint.draw(LossData{.targets = {{3}}}, 10);
  const Plan& plan = blueprint.planned->plan;
  const PlanReport found =
      report_plan(plan, Mode::train, 10, 0, Adam().update_rule(),
                  {{plan.graph->inputs[0], ElementType::uint8}}, Precision::float32, {});
  const ReportedTensor& flat = tensor(found.outputs, "f/output");
  CHECK(flat.reason == "flattened within d/product");
  CHECK(flat.block == Block{{0, 0}, {0, 0}});
  CHECK(flat.bytes == 0);
  CHECK(tensor(found.outputs, "d/output").bytes == 5 * 3 * 4);
}

TEST_CASE("memory is that of parameters, gradients, slots, the batch and the arena") {
  const PlanReport found = report(0);
  // Half of d1/kernel, 24, and 8 + 24 + 3 floats; Adam has two slots. Five rows of 6 bytes, and of
  // 3 floats.
  CHECK(found.parameter_bytes == 4 * (24 + 8 + 24 + 3));
  CHECK(found.gradient_bytes == found.parameter_bytes);
  CHECK(found.slot_bytes == 2 * found.parameter_bytes);
  CHECK(found.batch_bytes == 5 * 6 + 5 * 3 * 4);
  CHECK(found.arena_bytes > 0);
  CHECK(found.arena_bytes <= found.arena_bytes_if_unshared);
  CHECK(found.peak_bytes() == 4 * found.parameter_bytes + found.batch_bytes + found.arena_bytes);
  CHECK(report(0, Mode::predict).batch_bytes == 5 * 6);
  CHECK(found.narrow_copy_bytes == 0);
}

TEST_CASE("in bfloat16 narrow copies of the parameters are shown and count") {
  const PlanReport found =
      report(0, Mode::train, {{"data", 2}, {"model", 2}}, "", Precision::bfloat16);
  CHECK(found.narrow_copy_bytes == 2 * (24 + 8 + 24 + 3));
  CHECK(found.peak_bytes() == 4 * found.parameter_bytes + found.narrow_copy_bytes +
                                  found.batch_bytes + found.arena_bytes);
  CHECK_THAT(to_text(found), Catch::Contains("parameters 236 B, narrow copies 118 B, gradients"));
  CHECK_THAT(to_json(found), Catch::Contains(R"("narrow_copies": 118)"));
}

TEST_CASE("what generation keeps is shown of models that go position by position") {
  const MeshShape mesh({{"data", 2}}, 2);
  const auto report_of = [&](bool causal, Mode mode) {
    const auto input = Input({6, 5});
    const Graph model = make_graph(
        {input},
        {MultiHeadAttention({.name = "a", .num_heads = 2, .key_dim = 4, .use_causal_mask = causal})(
            input)});
    Blueprint blueprint(std::make_shared<Graph>(model), LayoutMap(mesh), mesh.axis("data"),
                        UnmatchedLayouts::error, {}, CompileOptions{.loss = MeanSquaredError()});
    blueprint.draw(LossData{.targets = {{6, 5}}}, 10);
    return report_plan(blueprint.planned->plan, mode, 10, 0, Adam().update_rule(), {});
  };
  const PlanReport found = report_of(true, Mode::predict);
  // Keys and values of 5 of the rows: 6 positions, 2 heads, 4 elements.
  CHECK(found.kept_bytes == 2 * 5 * 6 * 2 * 4 * 4);
  CHECK_THAT(to_text(found), Catch::Contains("\n  generation keeps keys and values: 1.9 KiB for 10 "
                                             "sequences, on top\n"));
  CHECK_THAT(to_json(found), Catch::Contains(R"("kept_in_generation": 1920)"));
  for (const PlanReport& other : {report_of(true, Mode::train), report_of(false, Mode::predict)}) {
    CHECK(other.kept_bytes == 0);
    CHECK_THAT(to_text(other), !Catch::Contains("generation"));
  }
}

TEST_CASE("the text has the tables") {
  const std::string text =
      to_text(report(3, Mode::train, {{"data", 2}, {"model", 2}}, "a.yaml:3:5"));
  for (const std::string part :
       {"mesh data=2 x model=2 (4 ranks), shown for rank 3 (data=1, model=1)",
        "global batch of 10 rows, train", "d1/kernel  (6, 8)  [~, model]", "[0:6, 4:8]",
        "key d1/kernel (a.yaml:3:5)", "collectives of one step:", "all_reduce", "at the peak"}) {
    INFO(text);
    CHECK_THAT(text, Catch::Contains(part));
  }
}

TEST_CASE("the JSON is an object with everything that the tables show") {
  // YAML is a superset of JSON. A quote and a line's end in an origin must not break it.
  const PlanReport found = report(2, Mode::train, {{"data", 2}, {"model", 2}}, "a \"b\"\n.yaml");
  const std::string json = to_json(found);
  CHECK_THAT(json, Catch::Contains(R"(key d1/kernel (a \"b\"\u000a.yaml))"));
  CHECK_THAT(json, Catch::Contains(R"("mesh": {"data": 2, "model": 2})"));
  CHECK_THAT(json, Catch::Contains(R"("layout": [[], ["model"]])"));
  CHECK_THAT(json, Catch::Contains(R"("block": [[0, 6], [0, 4]])"));
  CHECK_THAT(json, Catch::Contains(fmt::format("\"peak\": {}", found.peak_bytes())));
  std::size_t collectives = 0;
  for (std::size_t at = 0; (at = json.find("\"bytes_sent\"", at)) != std::string::npos; ++at) {
    ++collectives;
  }
  CHECK(collectives == found.collectives.size());
  // Brackets and quotes pair, with nothing behind the last.
  std::string open;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        quoted = false;
      }
      CHECK(static_cast<unsigned char>(c) >= 0x20);
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      open += c == '{' ? '}' : ']';
    } else if (c == '}' || c == ']') {
      REQUIRE_FALSE(open.empty());
      CHECK(open.back() == c);
      open.pop_back();
    }
  }
  CHECK(open.empty());
}

TEST_CASE("a message between places is a send of one rank and a receive of the other") {
  const MeshShape mesh({{"stage", 2}}, 2);
  const auto input = Input({6});
  const auto model = std::make_shared<Graph>(make_graph(
      {input}, {Dense({.name = "d2", .units = 3})(Dense({.name = "d1", .units = 8})(input))}));
  Blueprint blueprint(model, LayoutMap(mesh), std::nullopt, UnmatchedLayouts::error, {},
                      CompileOptions{.loss = MeanSquaredError()});
  PlaceMap places(mesh);
  places.insert("d1", {{"stage", 0}});
  places.insert("d2", {{"stage", 1}});
  blueprint.place(places);
  blueprint.draw(LossData{.targets = {{3}}}, 10);
  const auto report_of = [&](std::int64_t rank) {
    return report_plan(blueprint.planned->plan, Mode::train, 10, rank, Adam().update_rule(), {});
  };
  const PlanReport first = report_of(0), second = report_of(1);
  REQUIRE(first.collectives.size() == second.collectives.size());
  // Ten rows of eight numbers go forward, and their gradient comes back.
  CHECK(first.collectives[0].bytes_sent == 320);
  std::int64_t messages = 0;
  for (std::size_t i = 0; i < first.collectives.size(); ++i) {
    const CollectiveRecord &one = first.collectives[i], &other = second.collectives[i];
    if (!one.is_exchange()) continue;
    ++messages;
    CHECK(one.bytes_sent + one.bytes_received == 320);
    CHECK(one.bytes_sent == other.bytes_received);
    CHECK(one.bytes_received == other.bytes_sent);
  }
  CHECK(messages == 2);
  const std::string sent = "send        stage        80         320         0  ";
  const std::string received = "receive     stage        80           0       320  ";
  CHECK_THAT(to_text(first), Catch::Contains("forward   " + sent + "d1/output\n") &&
                                 Catch::Contains("backward  " + received + "d1/output gradient\n"));
  CHECK_THAT(to_text(second), Catch::Contains("forward   " + received + "d1/output\n") &&
                                  Catch::Contains("backward  " + sent + "d1/output gradient\n"));
  CHECK_THAT(to_json(second),
             Catch::Contains(R"("collective": "receive", "axes": ["stage"], "type": "float32", )"
                             R"("elements": 80, "bytes_sent": 0, "bytes_received": 320, )"));
  // Other plans have no such column.
  CHECK_THAT(to_text(report(0)), !Catch::Contains("received"));
}

TEST_CASE("a report can be made for 65536 ranks that are not there") {
  const PlanReport found = report(65535, Mode::train, {{"data", 4096}, {"model", 16}});
  CHECK(found.mesh.rank_count() == 65536);
  // 10 rows over 4096, 8 columns over 16: most blocks are empty.
  CHECK(tensor(found.outputs, "d2/output").empty_ranks == 4086);
  CHECK(tensor(found.variables, "d1/kernel").empty_ranks == 8);
  CHECK_FALSE(to_text(found).empty());
}

TEST_CASE("bytes are readable") {
  CHECK(readable_bytes(0) == "0 B");
  CHECK(readable_bytes(1023) == "1023 B");
  CHECK(readable_bytes(1024) == "1.0 KiB");
  CHECK(readable_bytes(1536 * 1024) == "1.5 MiB");
}

TEST_CASE("a report says of which operations not every way to spread them was weighed") {
  PlanReport found = report(0);
  CHECK_THAT(to_text(found), !Catch::Contains("weighed"));
  CHECK_THAT(to_json(found), Catch::Contains("\"cut_choices\": [\n  ]"));
  found.cut = {{"d1/product", 606, 256}};
  CHECK_THAT(
      to_text(found),
      Catch::Contains("only the ways to spread that are cheapest by themselves were weighed") &&
          Catch::Contains("d1/product             606      256"));
  CHECK_THAT(to_json(found), Catch::Contains("{\"operation\": \"d1/product\", \"candidates\": "
                                             "606, \"weighed\": 256}"));
}

}  // namespace meshwork::plan_report_test
