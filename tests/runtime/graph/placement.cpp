// Where operations run, where tensors are held, and what crosses: of plans for meshes that need not be
// there.
#include "runtime/graph/placement.h"

#include <chrono>

#include "layers/activity_regularization.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/identity.h"
#include "layers/reshape.h"
#include "tests/support/catch.h"
#include "tests/support/placed.h"

namespace meshwork::placement_test {

using namespace meshwork::test;

namespace {

const Trained chain{.sample = {6}, .build = [](SymbolicTensor x) {
                      for (const std::string name : {"a", "b", "c"}) {
                        x = Dense({.name = name, .units = 6, .activation = Activation::relu})(x);
                      }
                      return Dense({.name = "last", .units = 4})(x);
                    }};

using Entries = PlaceEntries;

// "stage=0": where a variable, an output or an input is held.
std::string held(const Plan& plan, const std::string& path) {
  const TensorId id = plan.graph->find(path);
  REQUIRE(id >= 0);
  return to_string(plan.tensors[id].layout.places, plan.mesh);
}

PlanReport report(const Plan& plan, std::int64_t rank, const StepWalk& walk = {}) {
  return report_plan(plan, Mode::train, 8, rank, SGD().update_rule(), {}, Precision::float32, {},
                     walk);
}

// What a rank sends to others and receives, and the bytes that it sends: "forward b/output 96".
std::vector<std::string> messages(const Plan& plan, std::int64_t rank) {
  std::vector<std::string> all;
  for (const CollectiveRecord& record : report(plan, rank).collectives) {
    if (record.name != "send") continue;
    all.push_back(
        fmt::format("{} {} {}", record.purpose.phase, record.purpose.what, record.bytes_sent));
  }
  return all;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("what is not placed follows what it reads, and variables are where they are used") {
  const MeshShape mesh = mesh_of({{"stage", 2}, {"data", 2}});
  const Plan plan = placed_plan(chain, mesh, {{"a", {{"stage", 0}}}, {"c", {{"stage", 1}}}});
  CHECK(held(plan, "a/kernel") == "stage=0");
  CHECK(held(plan, "b/kernel") == "stage=0");
  CHECK(held(plan, "c/output") == "stage=1");
  CHECK(held(plan, "last/bias") == "stage=1");
  CHECK(held(plan, "input") == "stage=0");
  for (std::size_t id = 0; id < plan.tensors.size(); ++id) {
    if (plan.graph->tensors[id].role != TensorRole::target) continue;
    CHECK(to_string(plan.tensors[id].layout.places, mesh) == "stage=1");
  }
  CHECK(plan.placing == std::vector<Axis>{0});
}

TEST_CASE("what several places read runs at each of them, and what reads several at the last") {
  const MeshShape mesh = mesh_of({{"tower", 3}, {"data", 1}});
  const Plan plan =
      placed_plan(two_towers(), mesh, {{"left", {{"tower", 0}}}, {"right", {{"tower", 2}}}});
  CHECK(held(plan, "trunk/output") == "tower=0,2");
  CHECK(held(plan, "trunk/gamma") == "tower=0,2");
  CHECK(held(plan, "sum/output") == "tower=2");
  CHECK(held(plan, "last/kernel") == "tower=2");
}

TEST_CASE("a value crosses once in its layout, and one gradient comes back") {
  const MeshShape mesh = mesh_of({{"stage", 2}, {"data", 2}});
  const Plan plan = placed_plan(chain, mesh, {{"a", {{"stage", 0}}}, {"c", {{"stage", 1}}}});
  // Four of eight rows, six numbers each.
  const Texts first{"forward b/output 96", "backward b/output gradient 0"};
  const Texts second{"forward b/output 0", "backward b/output gradient 96"};
  CHECK(messages(plan, 0) == first);
  CHECK(messages(plan, 1) == first);
  CHECK(messages(plan, 2) == second);
  CHECK(messages(plan, 3) == second);
}

TEST_CASE("a prediction has the messages that there are, and reduces gradients once a step") {
  const Plan stages =
      placed_plan(chain, MeshShape({{"stage", 2}, {"data", 1}}, 2),
                  {{"a|b", {{"stage", 0}}}, {"c|last", {{"stage", 1}}}}, {}, 8, "stage");
  const double message = stages.costs.latency_seconds + 8 * 6 * 4 / stages.costs.bytes_per_second;
  REQUIRE(stages.seconds.size() == 2);
  for (const StepSeconds& part : stages.seconds) {
    CHECK(part.communication == Approx(2 * message));  // b's output, and its gradient
    CHECK(part.reduction == 0);
  }
  CHECK(stages.seconds[0].arithmetic <
        stages.seconds[1].arithmetic);  // a needs no input's gradient

  const Plan whole = placed_plan(chain, MeshShape({{"stage", 1}, {"data", 2}}, 2), {});
  const StepSeconds& each = whole.seconds.front();
  CHECK(each.reduction > 0);
  for (const std::int64_t micro_batches : {1, 4}) {
    const PlanReport found = report(whole, 0, {.micro_batches = micro_batches});
    CHECK(found.seconds.communication ==
          Approx(static_cast<double>(micro_batches) * each.communication + each.reduction));
  }
  // Gradients of weights that are split over the same ranks are scattered in each micro-batch.
  const Plan sharded = placed_plan(chain, MeshShape({{"stage", 1}, {"data", 2}}, 2), {},
                                   {{".*/kernel", {"data", {}}}, {".*/bias", {"data"}}});
  CHECK(sharded.seconds.front().reduction == 0);
  CHECK(sharded.seconds.front().communication > each.communication);
}

TEST_CASE("variables of several places get the gradients of all, once a batch") {
  const MeshShape mesh = mesh_of({{"tower", 2}, {"data", 1}});
  const Plan plan =
      placed_plan(two_towers(), mesh, {{"left", {{"tower", 0}}}, {"right", {{"tower", 1}}}});
  const auto count = [&](const std::string& what, const StepWalk& walk) {
    return std::ranges::count_if(report(plan, 0, walk).collectives,
                                 [&](const auto& record) { return record.purpose.what == what; });
  };
  // The trunk runs twice, so that its gradient comes from both towers to both.
  CHECK(count("trunk/output gradient", {}) == 2);
  CHECK(count("trunk/output gradient", {.micro_batches = 4}) == 8);
  // And leaves each of them with that of the whole, so that nothing of variables crosses.
  CHECK(count("trunk/gamma gradient", {}) == 0);
}

TEST_CASE("a rank that runs nothing of a part holds and computes nothing of it") {
  const MeshShape mesh = mesh_of({{"stage", 2}, {"data", 1}});
  const Plan plan = placed_plan(chain, mesh, {{"a", {{"stage", 0}}}, {"c", {{"stage", 1}}}});
  CHECK(report(plan, 0).parameter_bytes == 4 * 2 * (6 * 6 + 6));
  CHECK(report(plan, 1).parameter_bytes == 4 * (6 * 6 + 6 + 6 * 4 + 4));
  CHECK(report(plan, 0).batch_bytes == 4 * 8 * 6);
  CHECK(report(plan, 1).batch_bytes == 4 * 8);
}

TEST_CASE("1f1b holds the activations of as many micro-batches as there are stages") {
  const MeshShape mesh = mesh_of({{"stage", 4}, {"data", 1}});
  const Trained deep{
      .sample = {64}, .build = [](SymbolicTensor x) {
        for (int i = 0; i < 16; ++i) {
          x = Dense({.name = fmt::format("d{}", i), .units = 64, .activation = Activation::relu})(
              x);
        }
        return Dense({.name = "last", .units = 4})(x);
      }};
  Entries entries;
  for (int i = 0; i < 16; ++i) entries[fmt::format("d{}", i)] = {{"stage", i}};
  const Plan plan = placed_plan(deep, mesh, entries, {}, 16, "stage");
  const auto arena = [&](const PipelineSchedule& schedule, std::int64_t rank) {
    return report_plan(plan, Mode::train, 256, rank, SGD().update_rule(), {}, Precision::float32,
                       {}, {.micro_batches = 16, .schedule = schedule})
        .arena_bytes;
  };
  const std::int64_t one = 4 * 16 * 64;  // an output of a layer, of one micro-batch
  for (std::int64_t stage = 0; stage < 3; ++stage) {
    INFO("stage " << stage);
    // Four layers' outputs, and what they receive: of the batch there in the first stage.
    const std::int64_t held = stage == 0 ? 4 : 5;
    // Gradients and messages on their way are 6, and 2 where all goes forward first. Sums of the
    // step are less than 1.
    CHECK(arena(one_forward_one_backward(), stage) / one == held * (4 - stage) + 6);
    CHECK(arena(gpipe(), stage) / one == held * 16 + 2);
    CHECK(arena(in_turn(), stage) < arena(one_forward_one_backward(), stage));
  }
}

TEST_CASE("layers are balanced over an axis: in order, and none takes longer than it must") {
  // Of 1, 1, 1, 3 and a little: three and three.
  const Trained uneven{.sample = {32}, .build = [](SymbolicTensor x) {
                         for (const std::string name : {"a", "b", "c"}) {
                           x = Dense({.name = name, .units = 32})(x);
                         }
                         x = Dense({.name = "wide", .units = 96})(x);
                         return Dense({.name = "last", .units = 4})(x);
                       }};
  for (const std::int64_t stages : {1, 2, 5}) {
    const MeshShape mesh = mesh_of({{"stage", stages}, {"data", 1}});
    PlaceMap places(mesh);
    places.stage_over("stage", 1, true);
    TrainedBlueprint of = blueprint_of(uneven, mesh, {}, "data");
    of.blueprint.place(places);
    of.blueprint.draw(of.data, 8);
    const Plan& plan = of.blueprint.planned->plan;
    CHECK_NOTHROW(check_stages(plan));
    if (stages == 1) CHECK(plan.placing.empty());
    if (stages == 2) {
      CHECK(held(plan, "c/kernel") == "stage=0");
      CHECK(held(plan, "wide/kernel") == "stage=1");
      CHECK(held(plan, "last/kernel") == "stage=1");
    }
    if (stages == 5) CHECK(held(plan, "last/kernel") == "stage=4");
  }
  PlaceMap both(mesh_of({{"stage", 2}}));
  both.insert("a", {{"stage", 0}});
  CHECK_THROWS_WITH(both.stage_over("stage", 1, true), Catch::Contains("do one of the two"));
}

TEST_CASE("where memory has a limit, stages are balanced by what they hold as well") {
  const Trained even{.sample = {2}, .build = [](SymbolicTensor x) {
                       for (const std::string name : {"a", "b", "c", "d"}) {
                         x = Dense({.name = name, .units = 64})(x);
                       }
                       return Dense({.name = "last", .units = 4})(x);
                     }};
  const MeshShape mesh = mesh_of({{"stage", 2}, {"data", 1}});
  PlaceMap places(mesh);
  places.stage_over("stage", 1, true);
  TrainedBlueprint of = blueprint_of(even, mesh, {}, "data");
  of.blueprint.place(places);
  of.blueprint.draw(of.data, 64);
  // The first layer is small: three of five take about as long as two. The first stage holds more.
  CHECK(held(of.blueprint.planned->plan, "c/kernel") == "stage=0");
  of.blueprint.planned.reset();
  of.blueprint.draw_within(2, of.data, 64, [](const Plan& plan) {
    return std::int64_t{held(plan, "c/kernel") == "stage=0" ? 3 : 2};
  });
  CHECK(held(of.blueprint.planned->plan, "b/kernel") == "stage=0");
  CHECK(held(of.blueprint.planned->plan, "c/kernel") == "stage=1");
}

TEST_CASE("a pipeline whose values go back, or on an axis without stages, is refused") {
  const MeshShape mesh = mesh_of({{"stage", 2}, {"data", 2}});
  const Entries back{{"a", {{"stage", 1}}}, {"c", {{"stage", 0}}}};
  const auto check = [&](const std::string& stages) {
    check_stages(placed_plan(chain, mesh, back, {}, 8, stages));
  };
  CHECK_THROWS_WITH(check("stage"), Catch::Contains("values of a pipeline go forward"));
  CHECK_THROWS_WITH(check("data"), Catch::Contains("the axis \"data\" has no stages"));
  CHECK_THROWS_WITH(check("stag"), Catch::Contains("did you mean \"stage\"?"));
  CHECK_NOTHROW(check(""));
  CHECK_THROWS_WITH(PlaceMap(mesh).stage_over("stage", 0),
                    Catch::Contains("chunks: expected an integer from 1 to 65536, found 0"));
}

TEST_CASE("a pipeline over an axis that places nothing is refused on an axis of one rank too") {
  const Entries entries{{"a", {{"stage", 0}}}, {"c", {{"stage", 1}}}};
  for (const std::int64_t size : {1, 2}) {
    const MeshShape mesh = mesh_of({{"other", size}, {"stage", 1}, {"data", size}});
    for (const std::string axis : {"other", "data"}) {
      CHECK_THROWS_WITH(placed_plan(chain, mesh, entries, {}, 8, axis),
                        Catch::Contains(fmt::format("the axis \"{}\" has no stages", axis)) &&
                            Catch::Contains("it names \"stage\""));
    }
    CHECK_THROWS_WITH(placed_plan(chain, mesh, {}, {}, 8, "stage"),
                      Catch::Contains("has no stages"));
    CHECK_NOTHROW(placed_plan(chain, mesh, entries, {}, 8, "stage"));
  }
}

TEST_CASE("places and ranks without a layer are named") {
  const auto warnings = [&](std::int64_t ranks, const Entries& entries, std::int64_t chunks = 1) {
    const MeshShape mesh = mesh_of({{"stage", ranks}, {"data", 1}});
    PlaceMap places(mesh);
    places.stage_over("stage", chunks);
    for (const auto& [key, at] : entries) places.insert(key, at);
    TrainedBlueprint of = blueprint_of(chain, mesh, {}, "data");
    of.blueprint.place(places);
    return of.blueprint.warnings;
  };
  const Entries dense{{"a", {{"stage", 0}}}, {"c", {{"stage", 1}}}};
  const Entries gap{{"a", {{"stage", 0}}}, {"c", {{"stage", 5}}}};
  CHECK(warnings(1, dense).empty());
  CHECK(warnings(2, dense).empty());
  const std::string named =
      "`place` names places 0 to 5 of the axis \"stage\", and puts no layer at 1 to 4";
  CHECK(warnings(1, gap) == Texts{named});
  CHECK(warnings(2, gap) == Texts{named});
  const std::string idle = ": the ranks there have little or nothing to do";
  CHECK(warnings(3, gap) ==
        Texts{named, "no layer is placed at 1 of the 3 stages of the axis \"stage\", 1" + idle});
  CHECK(warnings(8, gap) ==
        Texts{"no layer is placed at 6 of the 8 stages of the axis \"stage\", 1 to 4, 6 to 7" +
              idle});
  // Of two stages at each of two ranks, each rank has one.
  CHECK(warnings(2, dense, 2) ==
        Texts{"no layer is placed at 2 of the 4 stages of the axis \"stage\", 2 to 3"});
  CHECK(warnings(2, {{"a", {{"stage", 0}}}, {"c", {{"stage", 2}}}}, 2) ==
        Texts{"no layer is placed at 2 of the 4 stages of the axis \"stage\", 1, 3: the ranks at "
              "stage=1 have little or nothing to do"});
}

TEST_CASE("balanced stages have a layer that takes time each, or are refused") {
  const Trained padded{.sample = {6}, .build = [](SymbolicTensor x) {
                         x = Reshape({.name = "shaped", .target_shape = {6}})(x);
                         x = Dense({.name = "a", .units = 6})(x);
                         return Dense({.name = "last", .units = 4})(x);
                       }};
  const auto place = [&](std::int64_t ranks) {
    const MeshShape mesh = mesh_of({{"stage", ranks}, {"data", 1}});
    PlaceMap places(mesh);
    places.stage_over("stage", 1, true, "c.yaml:4:11: pipeline");
    blueprint_of(padded, mesh, {}, "data").blueprint.place(places);
  };
  CHECK_NOTHROW(place(2));
  CHECK_THROWS_WITH(place(3), Catch::Contains("c.yaml:4:11: pipeline: 1 stage at each of the 3") &&
                                  Catch::Contains("the model has 2 layers that take time"));
}

TEST_CASE("a layer that an option makes do nothing is where it is placed") {
  const Trained dropped{.sample = {6}, .build = [](const SymbolicTensor& x) {
                          const auto a = Dense({.name = "a", .units = 6})(x);
                          const auto same = Dropout({.name = "drop", .rate = 0})(a);
                          return Dense({.name = "last", .units = 4})(same);
                        }};
  const Plan plan = placed_plan(dropped, mesh_of({{"stage", 2}, {"data", 1}}),
                                {{"a", {{"stage", 0}}}, {"drop", {{"stage", 1}}}});
  CHECK(held(plan, "drop/output") == "stage=1");
}

TEST_CASE("what only names a value is where the value is") {
  const Trained nested{.sample = {6}, .build = [](const SymbolicTensor& x) {
                         const auto a = Dense({.name = "a", .units = 6})(x);
                         const auto same = Identity({.name = "same"})(a);
                         return Dense({.name = "last", .units = 4})(same);
                       }};
  const Plan plan = placed_plan(nested, mesh_of({{"stage", 2}, {"data", 1}}),
                                {{"a", {{"stage", 1}}}, {"same", {{"stage", 0}}}});
  CHECK(held(plan, "same/output") == "stage=1");
}

TEST_CASE("a layer at every stage can be no part of a chain of stages") {
  const MeshShape mesh = mesh_of({{"stage", 4}, {"data", 1}});
  const Plan wide =
      placed_plan(chain, mesh, {{"a", {{"stage", 2}}}, {"b", {{"stage", 0, 3}}}}, {}, 8, "stage");
  CHECK_THROWS_WITH(check_stages(wide),
                    Catch::Contains("b/product") && Catch::Contains("at every stage"));
  // What is at two stages gets its gradient from both.
  const Plan trunk = placed_plan(
      two_towers(), mesh, {{"left", {{"stage", 0}}}, {"right", {{"stage", 3}}}}, {}, 8, "stage");
  CHECK_THROWS_WITH(check_stages(trunk), Catch::Contains("gradients of a pipeline go back"));
}

TEST_CASE("the sums of a step are over the same axes on all ranks, whoever runs what") {
  const MeshShape mesh = mesh_of({{"stage", 2}, {"data", 1}, {"model", 2}});
  Trained penalized = chain;
  penalized.build = [](SymbolicTensor x) {
    x = Dense({.name = "a", .units = 6})(x);
    x = ActivityRegularization({.name = "penalty", .l2 = 0.01f})(x);
    return Dense({.name = "last", .units = 4})(x);
  };
  const Plan plan =
      placed_plan(penalized, mesh, {{"a|penalty", {{"stage", 0}}}, {"last", {{"stage", 1}}}},
                  {{"penalty/output", {{}, "model"}}, {"a/output", {{}, "model"}}});
  for (const std::int64_t rank : {0, 1, 2, 3}) {
    CHECK(report(plan, rank).collectives.back().axes == std::vector<Axis>{0, 2});
  }
}

TEST_CASE("an axis that places layers splits neither batches nor tensors") {
  const MeshShape mesh = mesh_of({{"data", 2}, {"stage", 2}});
  CHECK_THROWS_WITH(placed_plan(chain, mesh, {{"a", {{"data", 0}}}}),
                    Catch::Contains("the axis \"data\" places layers and splits batches"));
  CHECK_THROWS_WITH(
      placed_plan(chain, mesh, {{"a", {{"stage", 0}}}}, {{"b/kernel", {{}, "stage"}}}),
      Catch::Contains("b/kernel") && Catch::Contains("can split no dimension"));
  CHECK_THROWS_WITH(placed_plan(chain, mesh, {{"lats", {{"stage", 0}}}}),
                    Catch::Contains("place key \"lats\" matches nothing") &&
                        Catch::Contains("did you mean \"last\"?"));
}

}  // namespace meshwork::placement_test
