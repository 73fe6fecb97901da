// Which models can be run on pieces of sequences, and what a step on one position costs: counted in
// the kernels and collectives that are booked, so that no mesh has to be there.
#include "runtime/graph/sequences.h"

#include <map>

#include "layers/add.h"
#include "layers/batch_normalization.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/einsum_dense.h"
#include "layers/group_normalization.h"
#include "layers/layer_normalization.h"
#include "layers/multi_head_attention.h"
#include "layers/permute.h"
#include "layers/position.h"
#include "layers/reshape.h"
#include "layers/softmax.h"
#include "runtime/device/kernels/attention.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "tests/support/plans.h"

namespace meshwork::sequences_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t width = 8;

SharedLayer attention(const std::string& name, std::int64_t window = 0, bool causal = true) {
  return MultiHeadAttention({.name = name,
                             .num_heads = 4,
                             .key_dim = 4,
                             .use_causal_mask = causal,
                             .sliding_window = window,
                             .rope_max_wavelength = 100});
}

Plan planned(std::int64_t length, const std::function<SymbolicTensor(const SymbolicTensor&)>& build,
             const std::vector<MeshAxis>& axes = {{"data", 1}}, const LayoutEntries& layouts = {}) {
  return plan_of({.sample = {length, width}, .build = build, .loss = MeanSquaredError()},
                 mesh_of(axes), layouts, "data", 1);
}

std::string obstacle(const std::function<SymbolicTensor(const SymbolicTensor&)>& build) {
  return sequences_of(planned(6, build)).obstacle;
}

SymbolicTensor transformer(const SymbolicTensor& tokens) {
  auto x = Add({.name = "both"})(
      {tokens,
       PositionEmbedding({.name = "places", .sequence_length = tokens.shape()[1]})(tokens)});
  for (const std::string block : {"a", "b"}) {
    const auto y =
        attention("attention_" + block)(LayerNormalization({.name = "norm_" + block})(x));
    x = Add({.name = "mid_" + block})({x, y});
    const auto up = Dense({.name = "up_" + block, .units = 20, .activation = Activation::gelu})(x);
    x = Add({.name = "sum_" + block})({x, Dense({.name = "down_" + block, .units = width})(up)});
  }
  return x;
}

struct Booked {
  double attention = 0, others = 0;  // floating-point operations
  double bytes = 0;                  // that kernels but for attention read and write
  std::int64_t kept = 0, sent = 0;   // bytes
};

// Of a step of prediction of one row on a rank, on so many positions; 0: all.
Booked booked(const Plan& plan, std::int64_t positions, std::int64_t rank = 0) {
  const ParameterForm form = parameter_form(plan, rank);
  const Sequences sequences = sequences_of(plan);
  REQUIRE(sequences.obstacle == "");
  Booked found;
  LoweringRequest request;
  request.plan = &plan;
  request.mode = Mode::predict;
  request.rows = 1;
  request.form = &form;
  if (positions > 0) request.piece = Piece{&sequences, positions};
  request.kept = [&](const std::string&, std::int64_t bytes) -> void* {
    found.kept += bytes;
    return nullptr;
  };
  std::vector<KernelSpec> specs;
  ProgramBuilder builder(&specs);
  const auto collectives = plan_collectives(plan.mesh, rank);
  (void)lower(request, builder, *collectives);
  for (const KernelSpec& spec : specs) {
    const KernelWork work = spec.work();
    if (spec.get_if<AttentionSpec>() != nullptr) {
      found.attention += work.flops;
    } else {
      found.others += work.flops;
      found.bytes += work.bytes;
    }
  }
  for (const CollectiveRecord& record : collectives->records()) found.sent += record.bytes_sent;
  return found;
}

}  // namespace

TEST_CASE("what works position by position, or looks back alone, is run on pieces") {
  CHECK(obstacle(transformer) == "");
  CHECK(obstacle([](const SymbolicTensor& x) { return attention("a", 3)(x); }) == "");
  CHECK(obstacle([](const SymbolicTensor& x) {
          return Softmax({.name = "s"})(BatchNormalization({.name = "b"})(x));
        }) == "");
  CHECK(obstacle([](const SymbolicTensor& x) {
          return Add({.name = "a"})(
              {x, PositionEmbedding({.name = "longer", .sequence_length = 8})(x)});
        }) == "");
  // Positions may be any dimension on the way, and a kernel may have them.
  CHECK(obstacle([](const SymbolicTensor& x) {
          const auto turned = Permute({.name = "p", .dims = {2, 1}})(x);
          return Permute({.name = "q", .dims = {2, 1}})(turned);
        }) == "");
  CHECK(obstacle([](const SymbolicTensor& x) {
          return Reshape({.name = "r", .target_shape = {6, 2, width / 2}})(x);
        }) == "");
  CHECK(obstacle([](const SymbolicTensor& x) {
          return EinsumDense({.name = "e", .equation = "btc,tcd->btd", .output_shape = {6, 5}})(x);
        }) == "");
}

TEST_CASE("what looks at other positions is named as the obstacle to pieces") {
  const std::map<std::string, std::function<SymbolicTensor(const SymbolicTensor&)>> looking{
      {"all/attention", [](const SymbolicTensor& x) { return attention("all", 0, false)(x); }},
      {"near/attention", [](const SymbolicTensor& x) { return attention("near", 2, false)(x); }},
      {"own/attention", [](const SymbolicTensor& x) { return attention("own", 1)(x); }},
      {"conv/convolution",
       [](const SymbolicTensor& x) {
         return Conv1D({.name = "conv", .filters = 2, .kernel_size = 3, .padding = Padding::same})(
             x);
       }},
      {"mix/product",
       [](const SymbolicTensor& x) {
         return EinsumDense({.name = "mix", .equation = "btc,ts->bsc", .output_shape = {6, width}})(
             x);
       }},
      {"norm/",
       [](const SymbolicTensor& x) {
         return GroupNormalization({.name = "norm", .groups = 2})(x);
       }},
      {"shares/",
       [](const SymbolicTensor& x) { return Softmax({.name = "shares", .axis = 1})(x); }},
      {"turned/product",
       [](const SymbolicTensor& x) {
         return Dense({.name = "turned", .units = 3})(Permute({.name = "p", .dims = {2, 1}})(x));
       }},
      {"rows/reshape", [](const SymbolicTensor& x) {
         return Reshape({.name = "rows", .target_shape = {3, 2 * width}})(x);
       }}};
  for (const auto& [path, build] : looking) {
    CHECK_THAT(obstacle(build), Catch::StartsWith(path));
    CHECK_THAT(obstacle(build), Catch::EndsWith("does not work position by position"));
  }
}

TEST_CASE("the work of a position does not grow with the sequence, but for attention") {
  const Booked shorter = booked(planned(16, transformer), 1);
  const Booked longer = booked(planned(160, transformer), 1);
  CHECK(shorter.others > 0);
  CHECK(longer.others == shorter.others);
  CHECK(longer.bytes == shorter.bytes);
  // Halfway, with 8 or 80 positions before it.
  CHECK(longer.attention == Approx(shorter.attention * 80 / 8));
  // All positions of a sequence at once are as much work in products.
  CHECK(booked(planned(160, transformer), 0).others == 160 * longer.others);
}

TEST_CASE("a rank keeps the keys and values of its heads, and sends as much in any sequence") {
  const LayoutEntries heads{{"attention_.*/(query|key|value)/kernel", {{}, "model", {}}},
                            {"attention_.*/attention_output/kernel", {"model", {}, {}}},
                            {"up_.*/kernel", {{}, "model"}},
                            {"down_.*/kernel", {"model", {}}}};
  constexpr std::int64_t whole = 2 * 2 * 16 * 4 * 4 * 4;  // blocks, k and v, positions, heads, ...
  CHECK(booked(planned(16, transformer), 1).kept == whole);
  CHECK(booked(planned(16, transformer), 5).kept == whole);
  const std::vector<MeshAxis> axes{{"data", 1}, {"model", 4}};
  for (const std::int64_t rank : {0, 3}) {
    const Booked shorter = booked(planned(16, transformer, axes, heads), 1, rank);
    CHECK(shorter.kept == whole / 4);
    CHECK(shorter.sent > 0);
    CHECK(booked(planned(160, transformer, axes, heads), 1, rank).sent == shorter.sent);
  }
  // Where an axis splits the sequence, each of its ranks keeps all positions.
  const LayoutEntries places{{"both/output", {"data", "sequence", {}}},
                             {"sum_.*/output", {"data", "sequence", {}}}};
  for (const std::int64_t rank : {0, 1}) {
    CHECK(booked(planned(16, transformer, {{"data", 1}, {"sequence", 2}}, places), 4, rank).kept ==
          whole);
  }
}

}  // namespace meshwork::sequences_test
