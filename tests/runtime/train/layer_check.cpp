// Layers that state what is not true of them are found and named: a letter that may not be split, a
// gradient that is wrong, a kernel that refuses blocks. True ones pass.
#include "runtime/train/layer_check.h"

#include <memory>
#include <utility>

#include "layers/initializers/ones.h"
#include "layers/layer_of.h"
#include "runtime/device/kernels/pairs.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/kernels/rotary.h"
#include "runtime/device/kernels/rows.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/rotary.h"
#include "runtime/graph/operations/scale.h"
#include "runtime/train/layer_cases.h"
#include "tests/support/catch.h"

namespace meshwork::layer_check_test {

namespace {

// y = x / |x| by rows. Its kernels need rows whole, which its rule says only if it is honest.
class Rows final : public Operation {
 public:
  explicit Rows(bool honest) : honest_(honest) {}
  std::string kind() const override { return "rows"; }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size(), 'k');
    return {.inputs = {letters}, .output = letters, .whole = honest_ ? "k" : ""};
  }
  void forward(Lowering& lowering) const override {
    const Operand squares = dots(lowering, "squares", lowering.input(0), lowering.input(0));
    lowering.emit(UnitRowSpec{rows(lowering), columns(lowering), 1e12f},
                  {lowering.input(0), squares, lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) return;
    const Operand products =
        dots(lowering, "products", lowering.output(), lowering.output_gradient());
    lowering.emit(
        UnitRowGradientSpec{rows(lowering), columns(lowering), 1e12f},
        {lowering.output(), lowering.output_gradient(), lowering.scratch("squares", rows(lowering)),
         products, lowering.input_gradient(0)});
  }

 private:
  static std::int64_t rows(Lowering& lowering) { return rows_of(lowering.local_output_shape()); }
  static std::int64_t columns(Lowering& lowering) {
    return columns_of(lowering.local_output_shape());
  }
  static Operand dots(Lowering& lowering, const std::string& name, Operand a, Operand b) {
    const Operand sums = lowering.scratch(name, rows(lowering));
    lowering.emit(RowDotSpec{rows(lowering), columns(lowering)}, {a, b, sums});
    return sums;
  }
  bool honest_;
};

enum class Mistake : std::uint8_t { none, gradient_of_factor, gradient_of_input };

// y = x * factor.
class Scaled final : public Operation {
 public:
  explicit Scaled(Mistake mistake) : mistake_(mistake) {}
  std::string kind() const override { return "scaled"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  Rule rule(std::span<const Shape> inputs) const override { return truth_.rule(inputs); }
  void forward(Lowering& lowering) const override { truth_.forward(lowering); }
  void backward(Lowering& lowering) const override {
    const Shape y = lowering.local_output_shape();
    const std::int64_t rows = rows_of(y), columns = columns_of(y);
    if (lowering.needs_gradient(0)) {
      const bool wrong = mistake_ == Mistake::gradient_of_input;
      lowering.emit(ColumnScaleSpec{rows, columns},
                    {wrong ? lowering.output() : lowering.output_gradient(), lowering.input(1),
                     lowering.input_gradient(0)});
    }
    const bool wrong = mistake_ == Mistake::gradient_of_factor;
    const Operand terms = lowering.scratch("terms", rows * columns);
    lowering.emit(
        PairSpec{PairFunction::product, rows * columns},
        {wrong ? lowering.output() : lowering.input(0), lowering.output_gradient(), terms});
    lowering.emit(ColumnSumSpec{rows, columns}, {terms, lowering.input_gradient(1)});
  }

 private:
  ScaleOperation truth_;
  Mistake mistake_;
};

// y = x, by a kernel that does not take rows of 3: of 7 in halves, the first rank has such.
class Refusing final : public Operation {
 public:
  std::string kind() const override { return "refusing"; }
  void forward(Lowering& lowering) const override {
    const Shape y = lowering.local_output_shape();
    if (y.back() == 3) fail("this kernel takes no rows of {}", y.back());
    lowering.emit(PairSpec{PairFunction::maximum, element_count(y)},
                  {lowering.input(0), lowering.input(0), lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    const std::int64_t count = element_count(lowering.local_output_shape());
    lowering.emit(
        PairSpec{PairFunction::maximum, count},
        {lowering.output_gradient(), lowering.output_gradient(), lowering.input_gradient(0)});
  }
};

enum class Places : std::uint8_t { asked, refused, silent };

// Vectors turned by their places, for which it asks, or which it takes from the block. Of a piece of
// sequences that begins at 0, which is why it has to refuse pieces.
class Turned final : public Operation {
 public:
  explicit Turned(Places places) : places_(places) {}
  std::string kind() const override { return "turned"; }
  Rule rule(std::span<const Shape> inputs) const override { return truth_.rule(inputs); }
  bool takes_pieces(char, const Rule&) const override { return places_ != Places::refused; }
  void forward(Lowering& lowering) const override {
    if (places_ == Places::asked) return truth_.forward(lowering);
    const Shape y = lowering.local_output_shape();
    lowering.emit(RotarySpec{.batch = y[0],
                             .places = y[1],
                             .vectors = 1,
                             .length = y[2],
                             .first_place = lowering.output_block()[1].begin},
                  {lowering.input(0), lowering.output()});
  }
  void backward(Lowering& lowering) const override { truth_.backward(lowering); }

 private:
  RotaryOperation truth_{10000, 1};
  Places places_;
};

struct Options {
  std::string name;
};
template <class Visitor>
void describe(Options& options, Visitor& option) {
  describe_name(options, option);
}

SharedLayer rows_layer(bool honest) {
  return layer_of("Rows", Options{}, [honest](const Options&, LayerBuilder& builder, TensorId x) {
    return builder.apply(std::make_unique<Rows>(honest), {x});
  });
}
SharedLayer scaled_layer(Mistake mistake) {
  return layer_of(
      "Scaled", Options{}, [mistake](const Options&, LayerBuilder& builder, TensorId x) {
        const TensorId factor =
            builder.variable("factor", {.shape = {builder.shape(x).back()}, .initializer = Ones()});
        return builder.apply(std::make_unique<Scaled>(mistake), {x, factor});
      });
}
SharedLayer refusing_layer() {
  return layer_of("Refusing", Options{}, [](const Options&, LayerBuilder& builder, TensorId x) {
    return builder.apply(std::make_unique<Refusing>(), {x});
  });
}
SharedLayer turned_layer(Places places) {
  return layer_of("Turned", Options{}, [places](const Options&, LayerBuilder& builder, TensorId x) {
    return builder.apply(std::make_unique<Turned>(places), {x});
  });
}

constexpr int limit = 16;

LayerReport report_of(std::function<SharedLayer()> make, std::vector<Shape> samples) {
  return check_on_ranks(cases_of({.make = std::move(make), .samples = std::move(samples)}),
                        Communicator::world(), {.limit = limit});
}

}  // namespace

TEST_CASE("a layer that tells the truth passes, on every mesh of up to so many ranks") {
  const int ranks = Communicator::world().size();
  for (const bool whole : {true, false}) {
    const LayerReport report = whole ? report_of([] { return rows_layer(true); }, {{3, 7}})
                                     : report_of([] { return scaled_layer(Mistake::none); }, {{7}});
    CHECK(report.failures == std::vector<std::string>());
    CHECK(report.causes == std::vector<std::string>());
    // front/kernel, front/bias and, once more, those with the tail.
    CHECK(report.slopes == (whole ? 21 + 21 + 24 : 21 + 7 + 21 + 7 + 24));
    // Two cases, on each of these meshes.
    CHECK(report.layouts == std::int64_t{2} * limit * (ranks == 4 ? 5 : ranks));
    CHECK(report.legal >= report.layouts);
    const std::vector<std::string> letters =
        whole ? std::vector<std::string>{"\"b\" of rows/rows (btk->btk)",
                                         "\"t\" of rows/rows (btk->btk)"}
              : std::vector<std::string>{"\"b\" of scaled/scaled (bo,o->bo)",
                                         "\"o\" of scaled/scaled (bo,o->bo)"};
    CHECK(std::vector<std::string>(report.letters.begin(), report.letters.end()) == letters);
    CHECK(report.never_split() == (ranks == 1 ? letters : std::vector<std::string>()));
  }
}

TEST_CASE("a letter that may not be split is found, and named with its rule") {
  const LayerReport report = report_of([] { return rows_layer(false); }, {{3, 7}});
  const bool splits = Communicator::world().size() > 1;
  REQUIRE(!report.failures.empty() == splits);
  if (!splits) return;
  CHECK_THAT(report.failures.front(),
             Catch::StartsWith("Rows of [3, 7] on mesh x=2, ") &&
                 Catch::Contains("/output: [~, ~, x]") &&
                 Catch::Contains("the prediction differs from that of one rank: element ") &&
                 Catch::Contains(" times the tolerance of 1.0e-05; so do "));
  REQUIRE(!report.causes.empty());
  for (const std::string& cause : report.causes) {
    CHECK_THAT(cause, Catch::Contains("layouts that split \"k\" of rows/rows (btk->btk) fail"));
  }
}

TEST_CASE("a wrong gradient of a variable is found, on one rank and once") {
  const LayerReport report =
      report_of([] { return scaled_layer(Mistake::gradient_of_factor); }, {{7}});
  REQUIRE(report.failures.size() == 2);  // with a tail and without
  CHECK_THAT(report.failures.front(),
             Catch::StartsWith("Scaled of [7] on one rank: the gradient of scaled/factor is wrong: "
                               "element ") &&
                 Catch::Contains(", by differences of the loss "));
  CHECK(report.causes.empty());
}

TEST_CASE("a wrong gradient of an input is found in what is before the layer") {
  const LayerReport report =
      report_of([] { return scaled_layer(Mistake::gradient_of_input); }, {{7}});
  REQUIRE(report.failures.size() == 4);
  CHECK_THAT(report.failures[0], Catch::Contains("the gradient of front/kernel is wrong"));
  CHECK_THAT(report.failures[1], Catch::Contains("the gradient of front/bias is wrong"));
}

TEST_CASE("a kernel that refuses the block of one rank is a failure, and the others do not wait") {
  const LayerReport report = report_of(refusing_layer, {{7}});
  const bool splits = Communicator::world().size() > 1;
  REQUIRE(!report.failures.empty() == splits);
  if (splits) {
    CHECK_THAT(report.failures.front(),
               Catch::StartsWith("rank 0: Refusing of [7] on mesh x=2, ") &&
                   Catch::Contains("this kernel takes no rows of 3"));
  }
}

TEST_CASE("places by blocks are found where a layer takes pieces, and the operation is named") {
  const LayerReport silent = report_of([] { return turned_layer(Places::silent); }, {{5, 4}});
  REQUIRE(silent.failures.size() == 2);  // with a tail and without; once, on whatever mesh
  CHECK_THAT(silent.failures.front(),
             Catch::StartsWith("Turned of [5, 4] on one rank, in pieces of positions, in float32: "
                               "turned/turned gives other numbers: element ") &&
                 Catch::Contains(", at once ") && Catch::EndsWith("(takes_pieces)"));
  CHECK(silent.in_pieces == 0);
  CHECK(silent.causes.empty());
}

TEST_CASE("pieces are compared in every layout of a layer that takes them") {
  const LayerReport asked = report_of([] { return turned_layer(Places::asked); }, {{5, 4}});
  CHECK(asked.failures == std::vector<std::string>());
  CHECK(asked.in_pieces == asked.layouts);
  const LayerReport refused = report_of([] { return turned_layer(Places::refused); }, {{5, 4}});
  CHECK(refused.failures == std::vector<std::string>());
  CHECK(refused.in_pieces == 0);
  CHECK(refused.layouts == asked.layouts);
}

TEST_CASE("a layer that takes no sample of a shape says what it expects") {
  CHECK_THROWS_WITH(
      cases_of({.make = [] { return scaled_layer(Mistake::none); }, .samples = {{7}, {7}}}),
      Catch::Contains("expected one input, found 2"));
}

TEST_CASE("meshes of some ranks are all their factorizations") {
  const auto sizes = [](std::int64_t ranks) {
    std::vector<std::vector<std::int64_t>> all;
    for (const std::vector<MeshAxis>& axes : meshes_of(ranks)) {
      std::vector<std::int64_t> mesh;
      for (const MeshAxis& axis : axes) mesh.push_back(axis.size);
      all.push_back(mesh);
    }
    return all;
  };
  using All = std::vector<std::vector<std::int64_t>>;
  CHECK(sizes(1) == All{{1}});
  CHECK(sizes(3) == All{{3}});
  CHECK(sizes(4) == All{{4}, {2, 2}});
  CHECK(sizes(12) == All{{12}, {6, 2}, {4, 3}, {3, 4}, {3, 2, 2}, {2, 6}, {2, 3, 2}, {2, 2, 3}});
}

}  // namespace meshwork::layer_check_test
