// The form of the flat memory: what follows from a plan alone, without MPI.
#include "runtime/graph/parameters.h"
#include "layers/regularizers/l1_l2.h"
#include "runtime/device/kernels/activation.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "layers/add.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/flatten.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/model.h"
#include "tests/support/aside.h"
#include "tests/support/plans.h"

namespace meshwork::parameters_test {

using namespace meshwork::test;

namespace {

// 6 -> 7 -> 5 -> 3 and a penalty nowhere; "d1" to "d3".
SymbolicTensor stack(const SymbolicTensor& input) {
  auto x = Dense({.name = "d1", .units = 7})(input);
  x = Dense({.name = "d2", .units = 5, .activation = Activation::relu})(x);
  return Dense({.name = "d3", .units = 3})(x);
}

SymbolicTensor twice(const SymbolicTensor& input) {
  const auto shared = Dense({.name = "shared", .units = 6});
  return Dense({.name = "last", .units = 3})(shared(shared(input)));
}

Plan plan_of(const std::function<SymbolicTensor(const SymbolicTensor&)>& build,
             const std::vector<MeshAxis>& axes, const LayoutEntries& entries,
             const std::string& batch_axis = "data") {
  return test::plan_of({.sample = {6}, .build = build, .loss = MeanSquaredError()}, mesh_of(axes),
                       entries, batch_axis, 16);
}

using Strings = std::vector<std::string>;

std::string path(const Plan& plan, int variable) {
  return plan.graph->variables[variable].path;
}

Strings paths_of(const Plan& plan, const GradientBucket& bucket) {
  Strings paths;
  for (const int variable : bucket.variables) {
    paths.push_back(path(plan, variable));
  }
  return paths;
}

// The trainable variables in the order in which they stand.
Strings in_memory(const Plan& plan, const ParameterForm& form) {
  std::vector<ParameterSpan> spans = form.spans;
  std::stable_sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.count < b.count;
  });
  Strings paths;
  for (const ParameterSpan& span : spans) {
    paths.push_back(path(plan, span.variable));
  }
  return paths;
}

// What holds for every form.
void check_form(const Plan& plan, const ParameterForm& form, std::int64_t rank,
                std::int64_t bucket_bytes) {
  // The spans tile the stretch.
  std::vector<ParameterSpan> spans = form.spans;
  std::sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
    return std::pair(a.offset, a.count) < std::pair(b.offset, b.count);
  });
  std::int64_t next = 0;
  for (const ParameterSpan& span : spans) {
    CHECK(span.offset == next);
    const Shape& shape = plan.graph->variables[span.variable].options.shape;
    CHECK(span.block == block_of(span.layout, shape, plan.mesh, rank));
    CHECK(span.count == element_count(shape_of(span.block)));
    next += span.count;
  }
  CHECK(form.trainable_count == next);
  // A bucket is a span of it, made of the spans of its variables.
  std::set<int> in_buckets;
  for (const GradientBucket& bucket : form.buckets) {
    CHECK_FALSE(bucket.axes.empty());
    CHECK(std::is_sorted(bucket.axes.begin(), bucket.axes.end()));
    std::int64_t at = bucket.offset;
    std::int64_t global = 0;
    for (std::size_t i = 0; i < bucket.variables.size(); ++i) {
      const ParameterSpan& span = form.spans[bucket.variables[i]];
      CHECK(span.offset == at);
      CHECK(span.in_place);
      CHECK(span.reduced_over == bucket.axes);
      at += span.count;
      // Closed as soon as it is large enough, not before and not later.
      CHECK(global * 4 < bucket_bytes);
      global += element_count(plan.graph->variables[span.variable].options.shape);
      CHECK(in_buckets.insert(span.variable).second);
    }
    CHECK(bucket.count == at - bucket.offset);
    CHECK(bucket.global_count == global);
  }
  for (const ParameterSpan& span : form.spans) {
    CHECK(in_buckets.contains(span.variable) == (span.in_place && !span.reduced_over.empty()));
  }
}

}  // namespace

TEST_CASE("what is large begins where a cache line does, on all ranks of a bucket alike") {
  const auto build = [](const SymbolicTensor& input) {
    const auto x = Dense({.name = "d1", .units = 1001})(input);
    return Dense({.name = "d2", .units = 11})(x);
  };
  const LayoutEntries columns{{"d1/kernel", {unsharded, "model"}}, {"d1/bias", {"model"}}};
  for (const LayoutEntries& layouts : {LayoutEntries{}, columns}) {
    const Plan plan = plan_of(build, {{"data", 2}, {"model", 2}}, layouts);
    std::vector<ParameterForm> forms;
    for (std::int64_t rank = 0; rank < 4; ++rank) forms.push_back(parameter_form(plan, rank));
    for (const ParameterForm& form : forms) {
      std::int64_t end = 0;
      for (const ParameterSpan& span : form.spans) {
        const std::int64_t in_group = span.offset - form.groups[span.group].offset;
        INFO(path(plan, span.variable));
        CHECK((span.count < 4096 || (span.offset % 16 == 0 && in_group % 16 == 0)));
        end = std::max(end, span.offset + span.count);
      }
      CHECK(end == form.trainable_count);
    }
    // Ranks 0 and 2 hold the same blocks, 1 and 3 too.
    for (const auto& [a, b] : {std::pair{0, 2}, {1, 3}}) {
      REQUIRE(forms[a].buckets.size() == forms[b].buckets.size());
      for (std::size_t i = 0; i < forms[a].buckets.size(); ++i) {
        const GradientBucket& bucket = forms[a].buckets[i];
        CHECK(bucket.count == forms[b].buckets[i].count);
        // From its first variable, or the gap before it, to the end of its last.
        const ParameterSpan& last = forms[a].spans[bucket.variables.back()];
        CHECK(bucket.offset + bucket.count == last.offset + last.count);
      }
    }
  }
}

TEST_CASE("parameters stand in the order in which backward finishes their gradients") {
  const Plan plan = plan_of(stack, {{"data", 2}}, {});
  const ParameterForm form = parameter_form(plan, 0);
  CHECK(in_memory(plan, form) ==
        Strings{"d3/kernel", "d3/bias", "d2/kernel", "d2/bias", "d1/kernel", "d1/bias"});
  REQUIRE(form.buckets.size() == 1);
  CHECK(form.buckets[0].axes == std::vector<Axis>{0});
  CHECK(form.buckets[0].offset == 0);
  CHECK(form.buckets[0].count == 5 * 3 + 3 + 7 * 5 + 5 + 6 * 7 + 7);
  CHECK(form.trainable_count == form.buckets[0].count);
  CHECK(form.fixed_count == 0);
}

TEST_CASE("a bucket is closed when it has the bytes that were asked for") {
  const Plan plan = plan_of(stack, {{"data", 2}}, {});
  // Elements in order: 15, 3, 35, 5, 42, 7. With 18 * 4 bytes: 15 + 3; 35; 5 + 42; 7.
  const ParameterForm form = parameter_form(plan, 0, {.bucket_bytes = 72});
  std::vector<Strings> buckets;
  for (const GradientBucket& bucket : form.buckets) {
    buckets.push_back(paths_of(plan, bucket));
  }
  CHECK(buckets ==
        std::vector<Strings>{
            {"d3/kernel", "d3/bias"}, {"d2/kernel"}, {"d2/bias", "d1/kernel"}, {"d1/bias"}});
  CHECK(parameter_form(plan, 0, {.bucket_bytes = 1}).buckets.size() == 6);
  CHECK(parameter_form(plan, 0, {.bucket_bytes = 73}).buckets.size() == 3);
}

TEST_CASE("buckets are a quarter of what is reduced, but neither tiny nor huge") {
  constexpr std::int64_t kibibyte = 1024;
  CHECK(bucket_bytes_for(0) == 512 * kibibyte);
  CHECK(bucket_bytes_for(2048 * kibibyte) == 512 * kibibyte);
  CHECK(bucket_bytes_for(4000 * kibibyte) == 1000 * kibibyte);
  CHECK(bucket_bytes_for(1'000'000 * kibibyte) == 4096 * kibibyte);
}

TEST_CASE("one rank, and gradients that are whole, need no bucket") {
  CHECK(parameter_form(plan_of(stack, {{"data", 1}}, {}), 0).buckets.empty());
  const Plan plan = plan_of(stack, {{"model", 2}},
                            {{"d1/kernel", {unsharded, "model"}},
                             {"d1/bias", {"model"}},
                             {"d2/kernel", {"model", unsharded}}},
                            "");
  CHECK(parameter_form(plan, 0).buckets.empty());
}

TEST_CASE("variables are grouped by the axes over which their gradients are partial") {
  // d1 is split over model and reduced over data; d2 and d3 are whole. d2's bias stands behind a
  // sum over model, so that no gradient is partial over model.
  const Plan plan = plan_of(
      stack, {{"data", 2}, {"model", 2}},
      {{"d1/kernel", {unsharded, "model"}}, {"d1/bias", {"model"}}, {"d2/kernel", {"model", {}}}});
  const ParameterForm form = parameter_form(plan, 0);
  for (const GradientBucket& bucket : form.buckets) {
    CHECK(bucket.axes == std::vector<Axis>{0});
  }
  check_form(plan, form, 0, std::int64_t{4} << 20);
}

TEST_CASE("a gradient that is scattered or has several uses is not written in place") {
  const Plan sharded = plan_of(stack, {{"data", 2}}, {{"d2/kernel", {"data", unsharded}}});
  const ParameterForm form = parameter_form(sharded, 0);
  for (const ParameterSpan& span : form.spans) {
    CHECK(span.in_place == (path(sharded, span.variable) != "d2/kernel"));
  }
  const Plan shared = plan_of(twice, {{"data", 2}}, {});
  for (const ParameterSpan& span : parameter_form(shared, 0).spans) {
    CHECK(span.in_place == path(shared, span.variable).starts_with("last"));
  }
}

TEST_CASE("variables that lead to no loss stand last and are not updated") {
  const MeshShape mesh({{"data", 1}}, 1);
  const auto input = Input({6});
  const auto idle = Dense({.name = "idle", .units = 2});
  const auto penalized = Dense({.name = "penalized", .units = 4, .kernel_regularizer = L2(0.1f)});
  const Graph model = make_graph(
      {input}, {Aside(Dense({.name = "trained", .units = 3}), {idle, penalized})(input)});
  const Objective objective = with_objective(model, {{MeanSquaredError()}}, {.targets = {{3}}});
  const Plan plan = make_plan(
      {objective.graph.get(), objective.losses, mesh, std::nullopt, {}, 16, {}}, objective.graph);
  const ParameterForm form = parameter_form(plan, 0);
  // kernel and bias of "trained", and the kernel that has a penalty.
  const std::int64_t updated = form.groups.back().offset;
  CHECK(updated == 6 * 3 + 3 + 6 * 4);
  CHECK(form.trainable_count == updated + 6 * 2 + 2 + 4);
  for (const ParameterSpan& span : form.spans) {
    const std::string name = path(plan, span.variable);
    INFO(name);
    CHECK(span.updated == (name.starts_with("all/trained/") || name == "all/penalized/kernel"));
    CHECK((span.offset >= updated) == !span.updated);
  }
}

TEST_CASE("forms are sound, and cut alike on all ranks, for all layouts and bucket sizes") {
  const std::vector<TensorLayout> kernels{{unsharded, unsharded},
                                          {"data", unsharded},
                                          {unsharded, "model"},
                                          {"model", "data"},
                                          {unsharded, {"model", "data"}}};
  const std::vector<MeshAxis> axes{{"data", 3}, {"model", 2}};
  for (const auto& build : {stack, twice}) {
    const std::string first = build == stack ? "d2" : "shared";
    for (const TensorLayout& kernel : kernels) {
      for (const std::string batch_axis : {"data", "model", ""}) {
        const Plan plan = plan_of(build, axes, {{first + "/kernel", kernel}}, batch_axis);
        for (const std::int64_t bucket_bytes : {1, 60, 200, 4000}) {
          INFO(meshwork::to_string(kernel)
               << ", batches over \"" << batch_axis << "\", buckets of " << bucket_bytes);
          const ParameterForm root = parameter_form(plan, 0, {.bucket_bytes = bucket_bytes});
          for (std::int64_t rank = 0; rank < 6; ++rank) {
            const ParameterForm form = parameter_form(plan, rank, {.bucket_bytes = bucket_bytes});
            check_form(plan, form, rank, bucket_bytes);
            REQUIRE(form.buckets.size() == root.buckets.size());
            for (std::size_t b = 0; b < form.buckets.size(); ++b) {
              CHECK(form.buckets[b].variables == root.buckets[b].variables);
              CHECK(form.buckets[b].axes == root.buckets[b].axes);
              CHECK(form.buckets[b].global_count == root.buckets[b].global_count);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("where ranks have one copy, each element of it is updated by one of them") {
  // All of the data axis share memory, or those of a node each: ranks 0 and 1, and rank 2 alone.
  const bool several_nodes = GENERATE(false, true);
  for (const std::int64_t bucket_bytes :
       {std::int64_t{1}, std::int64_t{73}, std::int64_t{1} << 20}) {
    const Plan plan = plan_of(
        stack, {{"data", 3}, {"model", 2}},
        {{"d1/kernel", {unsharded, "model"}}, {"d1/bias", {"model"}}, {"d3/kernel", {"data", {}}}});
    // By rank on the model axis: how many of the data axis update each element of the group, which
    // does not begin at the same place on all, since blocks of d3/kernel differ.
    std::vector<std::vector<int>> updated(2);
    for (std::int64_t rank = 0; rank < 6; ++rank) {
      const auto sharers = [&](const std::vector<Axis>& axes) -> Sharers {
        const int index = static_cast<int>(plan.mesh.index_over(rank, axes));
        if (!several_nodes) return {index, static_cast<int>(plan.mesh.size_over(axes))};
        return index == 2 ? Sharers{0, 1} : Sharers{index, 2};
      };
      const ParameterForm form =
          parameter_form(plan, rank, {.sharers = sharers, .bucket_bytes = bucket_bytes});
      std::vector<int>& counts = updated[static_cast<std::size_t>(rank % 2)];
      for (const ParameterGroup& group : form.groups) {
        CHECK((group.home == Home::one_copy) ==
              (group.axes == std::vector<Axis>{0} && !(several_nodes && rank / 2 == 2)));
      }
      for (const UpdatedStretch& stretch : form.updates) {
        const ParameterGroup& group = form.groups[stretch.group];
        CHECK(stretch.offset >= group.offset);
        CHECK(stretch.offset + stretch.count <= group.offset + group.count);
        CHECK((stretch.bucket >= 0) == (group.home == Home::one_copy));
        if (group.home != Home::one_copy) {
          CHECK(stretch.count == group.count);
          continue;
        }
        counts.resize(static_cast<std::size_t>(group.count));
        for (std::int64_t i = 0; i < stretch.count; ++i) {
          ++counts[static_cast<std::size_t>(stretch.offset - group.offset + i)];
        }
      }
    }
    for (const std::vector<int>& counts : updated) {
      CHECK(!counts.empty());
      CHECK(std::count(counts.begin(), counts.end(), 1) == std::ssize(counts));
    }
  }
}

// All ranks over any axes share memory.
ParameterForm form_of_sharers(const Plan& plan, std::int64_t rank) {
  return parameter_form(plan, rank, {.sharers = [&](const std::vector<Axis>& axes) -> Sharers {
                          return {static_cast<int>(plan.mesh.index_over(rank, axes)),
                                  static_cast<int>(plan.mesh.size_over(axes))};
                        }});
}

const ParameterGroup& group_of(const Plan& plan, const ParameterForm& form,
                               const std::string& variable) {
  const auto found = std::ranges::find_if(
      form.spans, [&](const ParameterSpan& span) { return path(plan, span.variable) == variable; });
  return form.groups[static_cast<std::size_t>(found->group)];
}

TEST_CASE("blocks that ranks with shared memory gather are joined, each in its place") {
  // Columns of d2/kernel, which do not stand side by side, are not.
  const Plan plan = plan_of(stack, {{"data", 3}, {"model", 2}},
                            {{"d1/kernel", {"data", unsharded}},
                             {"d2/kernel", {unsharded, "data"}},
                             {"d3/kernel", {{"model", "data"}, unsharded}}});
  for (std::int64_t rank = 0; rank < 6; ++rank) {
    const ParameterForm form = form_of_sharers(plan, rank);
    CHECK(group_of(plan, form, "d2/kernel").home != Home::joined);
    CHECK(group_of(plan, form, "d1/bias").home != Home::joined);
    const ParameterGroup& even = group_of(plan, form, "d1/kernel");
    REQUIRE(even.home == Home::joined);
    CHECK(even.shared_over == std::vector<Axis>{0});
    CHECK(even.held == 6 * 7);
    CHECK(even.own_begin == rank / 2 * 14);
    CHECK(even.count == 14);
    // Five rows of three columns in six blocks, which are not in the order of the ranks.
    const ParameterGroup& uneven = group_of(plan, form, "d3/kernel");
    REQUIRE(uneven.home == Home::joined);
    CHECK(uneven.shared_over == std::vector<Axis>{0, 1});
    CHECK(uneven.held == 5 * 3);
    const std::int64_t block = rank % 2 * 3 + rank / 2;
    CHECK(uneven.own_begin == block * 5 / 6 * 3);
    CHECK(uneven.count == ((block + 1) * 5 / 6 - block * 5 / 6) * 3);
  }
}

TEST_CASE("a narrow copy is of groups that products read where they stand, and of none unasked") {
  const Plan plan =
      plan_of(stack, {{"data", 3}, {"model", 2}},
              {{"d1/kernel", {"data", unsharded}}, {"d2/kernel", {unsharded, "data"}}});
  const auto narrowed = [&](bool asked, const std::string& variable) {
    ParameterFormOptions options{.narrow_copies = asked};
    options.sharers = [&](const std::vector<Axis>& axes) -> Sharers {
      return {static_cast<int>(plan.mesh.index_over(0, axes)),
              static_cast<int>(plan.mesh.size_over(axes))};
    };
    const ParameterForm form = parameter_form(plan, 0, options);
    return group_of(plan, form, variable).narrowed;
  };
  // d1's blocks are joined, d2's columns are gathered to another place, d3's are whole.
  CHECK(narrowed(true, "d1/kernel"));
  CHECK(!narrowed(true, "d2/kernel"));
  CHECK(narrowed(true, "d3/kernel"));
  for (const char* variable : {"d1/kernel", "d2/kernel", "d3/kernel"}) {
    CHECK(!narrowed(false, variable));
  }
}

TEST_CASE("a narrow copy is of groups of which products read at least half, on all ranks alike") {
  // 64 of 146 elements, and 96 of 179: those of the dense kernel.
  for (const std::int64_t units : {2, 3}) {
    const auto build = [&](const SymbolicTensor& x) {
      return Dense({.name = "d", .units = units})(
          Flatten()(Conv2D({.name = "c", .filters = 8, .kernel_size = 3})(x)));
    };
    const Plan plan =
        test::plan_of({.sample = {4, 4, 1}, .build = build, .loss = MeanSquaredError()},
                      mesh_of({{"data", 3}}), {}, "data", 16);
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      const ParameterForm form = parameter_form(plan, rank, {.narrow_copies = true});
      CHECK(group_of(plan, form, "d/kernel").narrowed == (units == 3));
    }
  }
}

TEST_CASE("blocks are not joined where the ranks that gather them are on several nodes") {
  const Plan plan = plan_of(stack, {{"data", 4}}, {{".*/kernel", {"data", unsharded}}});
  const ParameterForm form =
      parameter_form(plan, 3, {.sharers = [](const std::vector<Axis>&) -> Sharers {
                       return {1, 2};
                     }});
  CHECK(std::none_of(form.groups.begin(), form.groups.end(),
                     [](const ParameterGroup& group) { return group.home == Home::joined; }));
  CHECK(form.whole_count == 0);
}

TEST_CASE("whole gradients of one operation stand side by side, those of the next over them") {
  const Plan plan =
      plan_of(stack, {{"data", 2}},
              {{".*/kernel", {"data", unsharded}}, {"d1/bias", {"data"}}, {"d3/bias", {"data"}}});
  const ParameterForm form = form_of_sharers(plan, 1);
  // Of 16 floats each, cache lines, the first after the gradients: kernels of 42, 35 and 15
  // elements, biases of 7 and 3.
  const std::int64_t begin = (16 - form.trainable_count % 16) % 16;
  CHECK(group_of(plan, form, "d3/kernel").whole_gradient == begin);
  CHECK(group_of(plan, form, "d3/bias").whole_gradient == begin + 16);
  CHECK(group_of(plan, form, "d2/kernel").whole_gradient == begin);
  CHECK(group_of(plan, form, "d1/kernel").whole_gradient == begin);
  CHECK(group_of(plan, form, "d1/bias").whole_gradient == begin + 48);
  CHECK(form.whole_count == begin + 48 + 16);
}

TEST_CASE("a gradient that comes in several parts is not whole anywhere") {
  const Plan plan = plan_of(twice, {{"data", 2}}, {{"shared/kernel", {"data", unsharded}}});
  const ParameterForm form = form_of_sharers(plan, 0);
  REQUIRE(group_of(plan, form, "shared/kernel").home == Home::joined);
  CHECK(!group_of(plan, form, "shared/kernel").whole_gradient);
}

TEST_CASE("the values of joined blocks are a part of the gathered block") {
  const Plan plan = plan_of(stack, {{"data", 2}}, {{"d2/kernel", {"data", unsharded}}});
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  // Two ranks of this process.
  std::vector<std::unique_ptr<Parameters>> ranks;
  std::vector<float> memory(1000);
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    ParameterForm form = parameter_form(plan, rank,
                                        {.sharers =
                                             [&](const std::vector<Axis>&) {
                                               return Sharers{static_cast<int>(rank), 2};
                                             },
                                         .one_copy = false});
    ranks.push_back(std::make_unique<Parameters>(
        *device, std::move(form), std::vector<Slot>{{"m"}},
        ParameterMemory{.shared = [&](const std::vector<Axis>&, std::int64_t bytes) {
          return Memory(memory.data(), bytes, [](void*) {});
        }}));
    ranks.back()->initialize(plan, 3);
  }
  const Plan whole = plan_of(stack, {{"data", 1}}, {});
  Parameters reference(*device, parameter_form(whole, 0), {});
  reference.initialize(whole, 3);
  int v = 0;
  while (path(plan, v) != "d2/kernel") ++v;
  const int group = ranks[0]->form().spans[static_cast<std::size_t>(v)].group;
  const auto joined = [&](std::size_t rank) {
    return static_cast<const float*>(ranks[rank]->group(group).values.data());
  };
  CHECK(joined(0) == joined(1));
  CHECK(std::equal(reference.block(v), reference.block(v) + 7 * 5, joined(0)));
  CHECK(ranks[1]->block(v) == joined(0) + 3 * 5);
  // Slots are each rank's own.
  CHECK(ranks[0]->block(v, 0) != ranks[1]->block(v, 0));
}

TEST_CASE("values are read to two stretches and written back") {
  const Plan plan = plan_of(stack, {{"data", 1}}, {});
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  Parameters parameters(*device, parameter_form(plan, 0), {{"first"}, {"second", 0.25f}});
  parameters.initialize(plan, 3);
  CHECK(*parameters.block(2, 0) == 0);
  CHECK(*parameters.block(2, 1) == 0.25f);
  std::vector<float> trainable(static_cast<std::size_t>(parameters.form().trainable_count));
  std::vector<float> rest(static_cast<std::size_t>(parameters.form().fixed_count));
  parameters.read_values(trainable, rest);
  for (const ParameterSpan& span : parameters.form().spans) {
    CHECK(trainable[static_cast<std::size_t>(span.offset)] == *parameters.block(span.variable));
  }
  std::fill(trainable.begin(), trainable.end(), 5.0f);
  parameters.write_values(trainable, rest);
  for (const ParameterSpan& span : parameters.form().spans) {
    CHECK(parameters.block(span.variable)[span.count - 1] == 5);
  }
}

}  // namespace meshwork::parameters_test
