// The validator itself: a rule or a gradient that is wrong must not pass.
#include "runtime/device/kernels/products.h"
#include "tests/support/strategy_validator.h"

#include <functional>

#include "runtime/graph/operations/contraction.h"
#include "runtime/graph/operations/reshape.h"
#include "runtime/graph/operations/softmax.h"
#include "tests/support/window_sum.h"

namespace meshwork::validator_test {

using namespace meshwork::test;

namespace {

// Another operation with a changed rule, or without a part of its backward pass.
class Changed final : public Operation {
 public:
  Changed(const Operation& original, std::function<void(Rule&)> change)
      : original_(original), change_(std::move(change)) {}
  std::string kind() const override { return "changed " + original_.kind(); }
  Shape output_shape(std::span<const Shape> inputs) const override {
    return original_.output_shape(inputs);
  }
  Rule rule(std::span<const Shape> inputs) const override {
    Rule rule = original_.rule(inputs);
    change_(rule);
    return rule;
  }
  Range window(int input, int dimension, Range output,
               std::span<const Shape> inputs) const override {
    return original_.window(input, dimension, output, inputs);
  }
  void forward(Lowering& lowering) const override { original_.forward(lowering); }
  void backward(Lowering& lowering) const override { original_.backward(lowering); }

 private:
  const Operation& original_;
  std::function<void(Rule&)> change_;
};

// What goes wrong in a split, "" if nothing does.
std::string wrong(const Operation& operation, const OperationCase& what, const MeshShape& mesh,
                  const Split& split) {
  try {
    const OperationResult found = run_split(operation, what, mesh, split);
    const OperationResult whole = run_whole(operation, what);
    std::string text = difference(found.output, whole.output, 1e-5);
    for (std::size_t i = 0; i < whole.gradients.size(); ++i) {
      text += difference(*found.gradients[i], *whole.gradients[i], 1e-5);
    }
    return text;
  } catch (const std::exception& error) {
    return error.what();
  }
}

const MeshShape two({{"two", 2}}, 2);

}  // namespace

TEST_CASE("a letter that is whole is not split") {
  const Changed whole(ReshapeOperation({12}), [](Rule&) {});
  CHECK(detail::splittable_letters(ReshapeOperation({12}), {.inputs = {Tensor({5, 3, 4})}}) == "b");
}

TEST_CASE("a sum that is said to be complete although it is split is found") {
  const ContractionOperation product("bi,io->bo");
  const OperationCase what{.inputs = {random_tensor({5, 7}, 1), random_tensor({7, 3}, 2)},
                           .output_gradient = random_tensor({5, 3}, 3)};
  CHECK(wrong(product, what, two, {{'i', {0}}}) == "");
  const Changed claims(product, [](Rule& rule) { rule.own = "i"; });
  CHECK_THAT(wrong(claims, what, two, {{'i', {0}}}), Catch::Contains("output differs on ranks"));
}

TEST_CASE("a gradient that is said to be complete although the batch is split is found") {
  const ContractionOperation product("bi,io->bo");
  const OperationCase what{.inputs = {random_tensor({5, 7}, 1), random_tensor({7, 3}, 2)},
                           .output_gradient = random_tensor({5, 3}, 3)};
  const Changed claims(product, [](Rule& rule) { rule.own = "b"; });
  CHECK_THAT(wrong(claims, what, two, {{'b', {0}}}),
             Catch::Contains("gradient of input 1 differs on ranks"));
}

TEST_CASE("a reduction over a letter that is not the rule's own is found") {
  const SoftmaxOperation softmax;
  const OperationCase what{.inputs = {random_tensor({5, 7}, 1)},
                           .output_gradient = random_tensor({5, 7}, 3)};
  const Changed denies(softmax, [](Rule& rule) { rule.own = ""; });
  CHECK_THAT(wrong(denies, what, two, {{'k', {0}}}), Catch::Contains("not the rule's own"));
}

TEST_CASE("a letter that stands for dimensions which differ is found") {
  const ReshapeOperation reshape({12});
  const OperationCase what{.inputs = {random_tensor({5, 3, 4}, 1)},
                           .output_gradient = random_tensor({5, 12}, 3)};
  // "btu->bv" with all of it called splittable: the first half of 3 x 4 is not that of 12.
  const Changed claims(reshape, [](Rule& rule) {
    rule.output[1] = rule.inputs[0][1];
    rule.whole = "";
  });
  const char middle = reshape.rule(std::vector<Shape>{{5, 3, 4}}).inputs[0][1];
  CHECK_THAT(wrong(claims, what, two, {{middle, {0}}}), Catch::Contains("not as long as"));
}

TEST_CASE("a rank that fails does not leave the others waiting") {
  class FailsOnTheFirst final : public Operation {
   public:
    std::string kind() const override { return "fails"; }
    Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
    Rule rule(std::span<const Shape>) const override {
      return {.inputs = {"k"}, .output = "k", .own = "k"};
    }
    void forward(Lowering& lowering) const override {
      if (lowering.block(0)[0].begin == 0) {
        throw std::runtime_error("the first rank fails");
      }
      lowering.all_reduce("k", ElementType::float32, Reduction::sum, lowering.output(), 1, 1,
                          "sums");
    }
    void backward(Lowering&) const override {}
  };
  CHECK_THAT(wrong(FailsOnTheFirst(), {.inputs = {random_tensor({6}, 1)}}, two, {{'k', {0}}}),
             Catch::Contains("rank 0: the first rank fails") &&
                 Catch::Contains("rank 1: sums: another simulated rank failed"));
}

TEST_CASE("windows bring every rank what it needs, and gradients add where they overlap") {
  const Slide slide = GENERATE(Slide{3, 1, 1, true}, Slide{3, 2, 1, true}, Slide{2, 3, 1, false},
                               Slide{3, 1, 2, false}, Slide{5, 1, 1, true}, Slide{1, 1, 1, false});
  INFO("window " << slide.window << ", stride " << slide.stride << ", dilation " << slide.dilation);
  const WindowSumOperation sums(slide);
  const Shape x{2, 7, 5};
  const Shape y = sums.output_shape(std::vector<Shape>{x});
  const OperationCase what{.inputs = {random_tensor(x, 1)}, .output_gradient = random_tensor(y, 2)};
  const OperationResult whole = run_whole(sums, what);
  CHECK(difference(whole.output, expected_window_sum(slide, what.inputs[0]), 1e-5) == "");
  CHECK(difference(*whole.gradients[0],
                   expected_window_sum_gradient(slide, x, *what.output_gradient), 1e-5) == "");
  check_strategies(sums, what);
}

TEST_CASE("a window that is too small is found") {
  class Narrow final : public Operation {
   public:
    std::string kind() const override { return "narrow"; }
    Shape output_shape(std::span<const Shape> inputs) const override {
      return sums_.output_shape(inputs);
    }
    Rule rule(std::span<const Shape> inputs) const override { return sums_.rule(inputs); }
    void forward(Lowering& lowering) const override { sums_.forward(lowering); }
    void backward(Lowering& lowering) const override { sums_.backward(lowering); }

   private:
    WindowSumOperation sums_{Slide{}};
  };
  const OperationCase what{.inputs = {random_tensor({2, 7, 5}, 1)},
                           .output_gradient = random_tensor({2, 7, 5}, 2)};
  CHECK(wrong(Narrow(), what, two, {{'b', {0}}}) == "");
  CHECK(wrong(Narrow(), what, two, {{'h', {0}}}) != "");
}

TEST_CASE("new values of variables are joined, and replicas that differ are found") {
  // Writes the sums over the batch's first dimension's block as the variable's new value, reduced
  // or not.
  class Sums final : public Operation {
   public:
    explicit Sums(bool reduces) : reduces_(reduces) {}
    std::string kind() const override { return "sums"; }
    Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
    Rule rule(std::span<const Shape>) const override {
      return {.inputs = {"bc", "c"}, .output = "bc", .own = "b"};
    }
    void forward(Lowering& lowering) const override {
      const Shape local = lowering.local_shape(0);
      lowering.emit(ColumnSumSpec{local[0], local[1]}, {lowering.input(0), lowering.updated(1)});
      if (reduces_) {
        lowering.all_reduce("b", ElementType::float32, Reduction::sum, lowering.updated(1),
                            local[1], lowering.global_shape(0)[1], "sums");
      }
      lowering.output_is_input(0);
    }
    void backward(Lowering&) const override {}

   private:
    bool reduces_;
  };
  const OperationCase what{.inputs = {random_tensor({5, 4}, 1), random_tensor({4}, 2)}};
  check_strategies(Sums(true), what);
  CHECK_THAT(wrong(Sums(false), what, two, {{'b', {0}}}),
             Catch::Contains("update of input 1 differs on ranks"));
}

}  // namespace meshwork::validator_test
