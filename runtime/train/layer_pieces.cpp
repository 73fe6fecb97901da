#include "runtime/train/layer_pieces.h"

#include <algorithm>
#include <span>

#include "runtime/graph/graph.h"
#include "runtime/graph/sequences.h"

namespace meshwork {
namespace {

// Positions `some` of the `all` of values (outer, all, inner).
struct Positions {
  std::int64_t outer = 1, all = 0, inner = 1;
  Range some;

  // Calls copy(where it is in all of them, where it is in those alone, count).
  void each(const auto& copy) const {
    for (std::int64_t o = 0; o < outer; ++o) {
      copy((o * all + some.begin) * inner, o * some.length() * inner, some.length() * inner);
    }
  }
};

Positions positions_of(const Shape& shape, std::size_t dimension, Range some) {
  const std::span all(shape);
  return {element_count(all.first(dimension)), shape[dimension],
          element_count(all.subspan(dimension + 1)), some};
}

}  // namespace

InPieces in_pieces(const Plan& plan) {
  const Sequences sequences = sequences_of(plan);
  if (!sequences.obstacle.empty() || sequences.length < 2) return {};
  InPieces found{.length = sequences.length, .shapes = {}, .dimensions = {}};
  for (const TensorId output : plan.graph->outputs) {
    found.shapes.push_back(plan.graph->tensors[output].shape);
    found.dimensions.push_back(static_cast<std::size_t>(sequences.dimensions[output]));
  }
  return found;
}

std::vector<std::vector<float>> predict_in_pieces(Model& model, const InPieces& of,
                                                  const BatchView& batch) {
  std::vector<std::vector<float>> whole;
  for (Shape shape : of.shapes) {
    shape.front() = batch.rows;
    whole.emplace_back(static_cast<std::size_t>(element_count(shape)));
  }
  const std::int64_t half = (of.length + 1) / 2;
  for (const Range some : {Range{0, half}, Range{half, half + 1}, Range{half + 1, of.length}}) {
    if (some.length() == 0) continue;
    std::vector<std::vector<float>> fed;
    for (const std::span<const float> input : batch.inputs) {
      const Positions at{batch.rows, of.length, std::ssize(input) / (batch.rows * of.length), some};
      std::vector<float>& piece = fed.emplace_back(at.outer * some.length() * at.inner);
      at.each([&](std::int64_t from, std::int64_t to, std::int64_t count) {
        std::copy_n(input.begin() + from, count, piece.begin() + to);
      });
    }
    const std::vector<std::vector<float>> outputs = model.predict_piece(
        {.rows = batch.rows, .inputs = {fed.begin(), fed.end()}, .targets = {}}, some.begin);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      Shape shape = of.shapes[i];
      shape.front() = batch.rows;
      positions_of(shape, of.dimensions[i], some)
          .each([&](std::int64_t to, std::int64_t from, std::int64_t count) {
            std::copy_n(outputs[i].begin() + from, count, whole[i].begin() + to);
          });
    }
  }
  return whole;
}

}  // namespace meshwork
