#include "runtime/device/kernel_candidates.h"
#include "runtime/device/kernels/adam.h"
#include "runtime/device/kernels/convolution.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/products.h"

#include <array>
#include <set>

#include "runtime/device/kernel_record.h"
#include "runtime/device/program.h"
#include "tests/support/catch.h"
#include "tests/support/counted_device.h"

namespace meshwork::test::kernel_candidates_test {

namespace {

const MatmulSpec product{.m = 4, .n = 3, .k = 5};

/// The seconds that are found for candidates with these prices.
std::vector<double> timed(Prices& prices, const std::vector<Prices::Candidate>& candidates) {
  prices.candidates = [candidates](const MatmulSpec&) { return candidates; };
  CountedDevice device(prices, {});
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (const KernelCandidate& candidate : device.candidates(product)) {
    kernels.push_back(candidate.compile());
  }
  return time_kernels(device, product, kernels);
}

ConvolutionShape convolution() {
  return {.batch = 2,
          .rows = {7, 4, 3, 2, 1, 1},
          .columns = {8, 4, 3, 2, 1, 0},
          .channels = 16,
          .filters = 32};
}

/// Of the candidates, all of which can be made.
std::set<std::string> names_of(Device& device, const KernelSpec& spec) {
  std::set<std::string> found;
  for (const KernelCandidate& candidate : device.candidates(spec)) {
    CHECK(found.insert(candidate.name).second);
    CHECK(candidate.compile() != nullptr);
  }
  return found;
}

}  // namespace

TEST_CASE("another candidate is taken only where it is clearly faster than the first") {
  CHECK(clearly_fastest(std::array{1.0}) == 0);
  CHECK(clearly_fastest(std::array{1.0, 1.0}) == 0);
  CHECK(clearly_fastest(std::array{1.0, 0.96}) == 0);
  CHECK(clearly_fastest(std::array{1.0, 0.94}) == 1);
  CHECK(clearly_fastest(std::array{1.0, 0.94, 0.93}) == 2);
  CHECK(clearly_fastest(std::array{0.5, 0.94, 0.93}) == 0);
}

TEST_CASE("a candidate takes what most of its runs take, not the first nor a few long ones") {
  Prices prices;
  const std::vector<double> found =
      timed(prices, {{"slow to begin", [](std::int64_t run) { return run == 0 ? 9.0 : 1e-3; }},
                     {"disturbed", [](std::int64_t run) { return run % 4 == 3 ? 5e-3 : 9e-4; }}});
  CHECK(found[0] == Approx(1e-3));
  CHECK(found[1] == Approx(9e-4));
}

TEST_CASE("a short kernel is timed over many runs, and no kernel over very many") {
  for (const double seconds : {1e-9, 1e-6, 1e-4, 1e-2, 1.0}) {
    INFO(seconds);
    Prices prices;
    CHECK(timed(prices, {at_price("one", seconds), at_price("two", seconds)})[0] ==
          Approx(seconds));
    CHECK(prices.runs_by("one") >= (seconds < 0.1 ? 9 : 3));
    CHECK(prices.runs_by("one") == prices.runs_by("two"));
    CHECK(prices.runs_by("one") <= 2 + 64 * 50);
  }
}

TEST_CASE("timing costs some tenths of a second, or few runs of kernels that take longer") {
  for (const double seconds : {1e-6, 1e-3, 3e-2, 0.15, 1.0, 20.0}) {
    INFO(seconds);
    Prices prices;
    (void)timed(prices, {at_price("one", seconds), at_price("two", 1.5 * seconds),
                         at_price("three", 1.9 * seconds), at_price("slow", 2.1 * seconds)});
    const double all = (1 + 1.5 + 1.9) * seconds;
    // The first runs, and the turn in which the time is over, may come on top.
    CHECK(prices.clock <= 2 * 2.1 * seconds + std::max(3 * all, 0.2 + 2 * all));
    CHECK(prices.runs_by("three") >= 3);
  }
}

TEST_CASE("a candidate that takes more than twice as long is not timed on and on") {
  Prices prices;
  const std::vector<double> found =
      timed(prices, {at_price("hopeless", 2.25), at_price("fair", 1.75), at_price("fast", 1.0)});
  CHECK(found == std::vector<double>{2.25, 1.75, 1.0});
  CHECK(prices.runs_by("hopeless") == 2);
  CHECK(prices.runs_by("fair") == prices.runs_by("fast"));
  CHECK(prices.runs_by("fast") > 2);
}

TEST_CASE("the CPU's first candidate is what it compiles without a name") {
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  for (const bool transpose_a : {false, true}) {
    for (const bool bias : {false, true}) {
      const MatmulSpec spec{.m = 61, .n = 35, .k = 127, .transpose_a = transpose_a, .bias = bias};
      const std::vector<KernelCandidate> found = device->candidates(spec);
      REQUIRE(found.size() == 2);
      std::vector<float> a(61 * 127), b(127 * 35), of_bias(35), one(61 * 35), other(61 * 35);
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<float>(i));
      for (std::size_t i = 0; i < b.size(); ++i) b[i] = std::cos(static_cast<float>(i));
      const auto run = [&](Kernel& kernel, std::vector<float>& result) {
        const Memory workspace = device->allocate(kernel.workspace_bytes());
        std::vector<void*> operands{a.data(), b.data()};
        if (bias) operands.push_back(of_bias.data());
        operands.push_back(result.data());
        operands.push_back(workspace.data());
        kernel.run(operands.data());
      };
      run(*device->compile(spec), one);
      run(*found.front().compile(), other);
      CHECK(one == other);
    }
  }
}

TEST_CASE("products are timed with what they take along") {
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  MatmulSpec forward{.m = 5, .n = 7, .k = 3, .bias = true, .activation = Activation::relu};
  forward.mask = true;
  MatmulSpec backward{.m = 5, .n = 7, .k = 3, .derivative = Activation::relu};
  backward.transpose_b = true;
  const MatmulSpec sums{.m = 5, .n = 7, .k = 3, .transpose_a = true, .column_sums = true};
  MatmulSpec from_mask = backward;
  from_mask.mask = true;
  std::set<std::string> keys;
  for (const MatmulSpec& spec : {forward, backward, from_mask, sums}) {
    keys.insert(KernelSpec(spec).key());
    std::vector<std::unique_ptr<Kernel>> kernels;
    for (const KernelCandidate& candidate : device->candidates(spec)) {
      kernels.push_back(candidate.compile());
    }
    REQUIRE(kernels.size() == 2);
    for (const double seconds : time_kernels(*device, spec, kernels)) CHECK(seconds > 0);
  }
  CHECK(keys.size() == 4);
}

TEST_CASE("the CPU has candidates for products and convolutions alone, under names of their own") {
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  CHECK(device->candidates(BiasAddSpec{3, 4}).empty());
  CHECK(device->candidates(AdamSpec{.count = 5}).empty());
  CHECK(device->candidates(MatmulSpec{.m = 3, .n = 0, .k = 4}).empty());
  const auto names = [&](const KernelSpec& spec) { return names_of(*device, spec); };
  CHECK(names(product) == std::set<std::string>{"gemm", "primitive"});
  CHECK(names(ConvolutionSpec{convolution(), true, Activation::relu}).contains("unfolded"));
  CHECK(names(ConvolutionInputGradientSpec{convolution()}).contains("unfolded"));
  CHECK(names(ConvolutionKernelGradientSpec{convolution()}).contains("unfolded"));
}

TEST_CASE("in bfloat16 what computes in float32 is a candidate too, of rounded operands") {
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  const auto check = [&](const auto& wide) {
    auto spec = wide;
    spec.precision = Precision::bfloat16;
    const std::set<std::string> names = names_of(*device, spec);
    for (const KernelCandidate& candidate : device->candidates(wide)) {
      CHECK(names.contains("rounded " + candidate.name));
    }
    const bool first_rounds = device->candidates(spec).front().name.starts_with("rounded ");
    CHECK(first_rounds != device->is_faster_in(Precision::bfloat16));
  };
  check(product);
  check(ConvolutionSpec{convolution(), true, Activation::relu});
  check(ConvolutionInputGradientSpec{convolution()});
  check(ConvolutionKernelGradientSpec{convolution()});
  MatmulSpec stored = product;
  stored.precision = Precision::bfloat16;
  stored.narrow = true;
  CHECK(names_of(*device, stored).contains("rounded primitive"));
}

TEST_CASE("a name that is no candidate's is refused with those there are") {
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  CHECK_THROWS_WITH(compile_candidate(*device, product, "gem"),
                    Catch::Contains("\"gem\"") && Catch::Contains("matmul 4x3x5") &&
                        Catch::Contains("primitive, gemm"));
  CHECK_THROWS_WITH(compile_candidate(*device, BiasAddSpec{3, 4}, "gemm"),
                    Catch::Contains("none by name"));
}

TEST_CASE("a record knows two specifications apart wherever they differ") {
  std::vector<KernelSpec> all{product};
  const auto add = [&](auto change) {
    auto spec = *all.front().get_if<MatmulSpec>();
    change(spec);
    all.emplace_back(spec);
  };
  add([](MatmulSpec& s) { s.m = 40; });
  add([](MatmulSpec& s) { s.n = 30; });
  add([](MatmulSpec& s) { s.k = 50; });
  add([](MatmulSpec& s) { s.transpose_a = true; });
  add([](MatmulSpec& s) { s.transpose_b = true; });
  add([](MatmulSpec& s) { s.accumulate = true; });
  add([](MatmulSpec& s) { s.bias = true; });
  add([](MatmulSpec& s) { s.activation = Activation::relu; });
  add([](MatmulSpec& s) { s.precision = Precision::bfloat16; });
  const auto add_convolution = [&](auto change) {
    ConvolutionShape at = convolution();
    change(at);
    all.emplace_back(ConvolutionSpec{at});
    all.emplace_back(ConvolutionInputGradientSpec{at});
    all.emplace_back(ConvolutionKernelGradientSpec{at});
  };
  add_convolution([](ConvolutionShape&) {});
  add_convolution([](ConvolutionShape& at) { at.batch = 3; });
  add_convolution([](ConvolutionShape& at) { at.channels = 8; });
  add_convolution([](ConvolutionShape& at) { at.filters = 8; });
  add_convolution([](ConvolutionShape& at) { at.groups = 2; });
  for (WindowDimension ConvolutionShape::*along :
       {&ConvolutionShape::planes, &ConvolutionShape::rows, &ConvolutionShape::columns}) {
    for (std::int64_t WindowDimension::*length :
         {&WindowDimension::input, &WindowDimension::output, &WindowDimension::window,
          &WindowDimension::stride, &WindowDimension::dilation, &WindowDimension::padding}) {
      add_convolution([&](ConvolutionShape& at) { ++(at.*along.*length); });
    }
  }
  all.emplace_back(ConvolutionSpec{convolution(), true});
  all.emplace_back(ConvolutionSpec{convolution(), false, Activation::relu});
  all.emplace_back(ConvolutionSpec{convolution(), false, Activation::linear, Precision::bfloat16});
  std::set<std::string> keys;
  for (const KernelSpec& spec : all) {
    INFO(KernelSpec(spec).key());
    CHECK(keys.insert(KernelSpec(spec).key()).second);
  }
}

TEST_CASE("a program runs the candidate that was chosen, with its workspace, and says so") {
  Prices prices;
  prices.candidates = [](const MatmulSpec&) {
    return std::vector{at_price("one", 1), at_price("two", 1)};
  };
  CountedDevice device(prices, {});
  KernelRecord record{.platform = "here", .chosen = {{KernelSpec(product).key(), "two"}}};
  std::vector<float> a(20, 1), b(15, 1), chosen(12), first(12);
  ProgramBuilder builder(device, &record);
  const auto external = [&](std::vector<float>& values) {
    return builder.external(values.data(), std::ssize(values) * 4, "values");
  };
  builder.emit(product, {external(a), external(b), external(chosen)}, "layer");
  MatmulSpec other = product;
  other.transpose_b = true;
  builder.emit(other, {external(a), external(b), external(first)}, "layer");
  Program program = builder.finish();
  CHECK(program.labels() ==
        std::vector<std::string>{"layer: matmul 4x3x5 by two", "layer: matmul nt 4x3x5"});
  CHECK(program.arena().bytes >= 64);
  program.run();
  CHECK(prices.runs == std::map<std::string, std::int64_t>{{"matmul 4x3x5 by two", 1},
                                                           {"matmul nt 4x3x5 by one", 1}});
  CHECK(chosen[0] == std::nextafter(5.0f, 6.0f));
  CHECK(first[0] == 5.0f);
}

TEST_CASE("a builder that only plans lists what it is asked for") {
  std::vector<KernelSpec> specs;
  ProgramBuilder builder(&specs);
  const Buffer buffer = builder.scratch(400, "values");
  builder.emit(product, {buffer, buffer, buffer}, "layer");
  builder.emit(ZeroSpec{40}, {buffer}, "layer");
  REQUIRE(specs.size() == 2);
  CHECK(KernelSpec(specs[0]).key() == "matmul 4x3x5");
  CHECK(KernelSpec(specs[1]).key() == "zero 40 bytes");
}

}  // namespace meshwork::test::kernel_candidates_test
