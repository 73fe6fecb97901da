// A bias over the last dimensions, one as a rule: y (..., o) = x (..., o) + bias (o).
//
// Rule "bto,o->bto"; of two dimensions "btuo,uo->btuo". Backward: dx = dy, dbias = the sum of dy over
// all leading dimensions. An activation that can be differentiated from its value can be joined
// (epilogue.h): y = activation(x + bias).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/error.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/device/kernels/products.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class BiasOperation final : public Operation {
 public:
  explicit BiasOperation(Epilogue epilogue = {}, std::size_t dimensions = 1)
      : epilogue_(epilogue), dimensions_(dimensions) {
    epilogue_.bias = true;
    epilogue_.check("a bias");
  }

  std::string kind() const override {
    Epilogue behind = epilogue_;
    behind.bias = false;
    return behind.behind("bias");
  }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 2);
    const Shape& x = inputs[0];
    if (x.size() < dimensions_ || !std::equal(x.end() - static_cast<std::ptrdiff_t>(dimensions_),
                                              x.end(), inputs[bias].begin(), inputs[bias].end())) {
      fail("an input of shape {} needs a bias as long as its last {}, found {}", to_string(x),
           dimensions_ == 1 ? "dimension" : fmt::format("{} dimensions", dimensions_),
           to_string(inputs[bias]));
    }
    return x;
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size(), 'o');
    return {.inputs = {letters, letters.substr(letters.size() - dimensions_)}, .output = letters};
  }

  void forward(Lowering& lowering) const override {
    const auto [rows, columns] = extents(lowering.local_output_shape());
    lowering.emit(BiasAddSpec{rows, columns, epilogue_.activation},
                  {lowering.input(0), lowering.input(bias), lowering.output()});
    epilogue_.drop(lowering);
  }
  void backward(Lowering& lowering) const override {
    const Shape y = lowering.local_output_shape();
    const bool input_wanted = lowering.needs_gradient(0);
    const bool bias_wanted = lowering.needs_gradient(bias);
    if (!input_wanted && !bias_wanted) {
      return;
    }
    Operand dz;  // the gradient before the activation, which is dx
    if (!input_wanted) {
      dz = epilogue_.gradient_before(lowering, element_count(y));
    } else if (epilogue_.gradient_is_before(lowering)) {
      dz = lowering.output_gradient();
      lowering.input_gradient_is_output_gradient(0);
    } else {
      dz = lowering.input_gradient(0);
      lowering.emit(epilogue_.gradient(element_count(y)),
                    {lowering.output(), lowering.output_gradient(), dz});
    }
    if (bias_wanted) {
      const auto [rows, columns] = extents(y);
      lowering.emit(ColumnSumSpec{rows, columns}, {dz, lowering.input_gradient(bias)});
    }
  }
  bool backward_reads(int) const override { return false; }
  Fusible fusible() const override {
    return {.epilogue = epilogue_,
            .is_epilogue = dimensions_ == 1,
            .with =
                [of = dimensions_](const Epilogue& epilogue) {
                  return std::make_unique<BiasOperation>(epilogue, of);
                },
            .ends_in = epilogue_.ends_in()};
  }

 private:
  static constexpr int bias = 1;

  struct Extents {
    std::int64_t rows, columns;
  };
  [[nodiscard]] Extents extents(const Shape& y) const {
    const std::span<const std::int64_t> all(y);
    return {element_count(all.first(y.size() - dimensions_)), element_count(all.last(dimensions_))};
  }

  Epilogue epilogue_;
  std::size_t dimensions_;
};

}  // namespace meshwork
