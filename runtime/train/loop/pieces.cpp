// Prediction at some positions of sequences (graph/sequences.h).
#include <cmath>
#include <span>
#include <vector>

#include "collectives/error.h"
#include "runtime/data/sample_copy.h"
#include "runtime/train/model_state.h"

namespace meshwork {
namespace {

// How many positions of each sequence the piece has.
std::int64_t positions_of(const Graph& graph, const Sequences& sequences, const BatchView& piece) {
  if (piece.inputs.size() != graph.inputs.size() || piece.rows < 1) {
    fail("a piece of {} inputs and {} rows: the model has {} inputs, and there is a row at least",
         piece.inputs.size(), piece.rows, graph.inputs.size());
  }
  std::int64_t positions = 0;
  for (std::size_t i = 0; i < piece.inputs.size(); ++i) {
    const std::int64_t of_one =
        element_count(graph.shape_of(graph.inputs[i], piece.rows)) / sequences.length;
    const std::int64_t values = std::ssize(piece.inputs[i]);
    if (i == 0) positions = values / of_one;
    if (positions < 1 || values != positions * of_one) {
      fail("input {} of a piece has {} values, which are no positions of {} values each", i, values,
           of_one);
    }
  }
  return positions;
}

void feed_part(Step& step, std::size_t part, const Graph& graph, const Piece& piece,
               std::int64_t rows, std::span<const float> values) {
  const auto& [id, block] = step.fed_parts()[part];
  const Shape shape = piece.shape_of(id, graph.shape_of(id, rows));
  std::vector<float> held(static_cast<std::size_t>(element_count(shape_of(block))));
  constexpr std::int64_t only_sample = 0;
  copy_samples(std::as_bytes(values).data(), shape, float32_bytes, std::span(&only_sample, 1),
               block, std::as_writable_bytes(std::span(held)).data());
  if (graph.tensors[id].type == ElementType::float32) {
    step.feed(part, held.data());
    return;
  }
  const std::vector<std::int32_t> numbers(held.begin(), held.end());
  step.feed(part, numbers.data());
}

// The same on all ranks, before any of them runs.
void check_numbers(const Graph& graph, const BatchView& piece) {
  for (std::size_t i = 0; i < piece.inputs.size(); ++i) {
    const std::int64_t classes = graph.classes_of(graph.inputs[i]);
    if (classes == 0) continue;
    for (const float value : piece.inputs[i]) {
      if (!(value >= 0 && value < static_cast<float>(classes)) || value != std::floor(value)) {
        fail(
            "input {} of a piece: category {} is out of range; expected whole numbers from 0 to {}",
            i, value, classes - 1);
      }
    }
  }
}

}  // namespace

std::vector<std::vector<float>> predict_piece(Model::State& model, const BatchView& piece,
                                              std::int64_t position) {
  if (const std::string obstacle = obstacle_to_pieces(model); !obstacle.empty()) {
    fail("a model cannot be run on pieces of sequences: {}", obstacle);
  }
  const Sequences& sequences = model.engine->sequences();
  const Graph& graph = *model.engine->plan().graph;
  const std::int64_t positions = positions_of(graph, sequences, piece);
  if (position < 0 || position + positions > sequences.length) {
    fail("positions {} to {} of sequences of {}", position, position + positions - 1,
         sequences.length);
  }
  check_numbers(graph, piece);
  std::int64_t& seen = model.pieces_seen[piece.rows];
  if (position > seen) {
    fail(
        "a piece begins at position {}, but these weights have seen {} of {} sequences; pass the "
        "positions before it first",
        position, seen == 0 ? "none" : fmt::format("{} positions", seen), piece.rows);
  }
  seen = position + positions;
  const Model::State::InStep in_step(model);
  Step& step =
      model.engine->step({.mode = Mode::predict, .rows = piece.rows, .positions = positions});
  const Piece at{&sequences, positions};
  for (std::size_t part = 0; part < step.fed_parts().size(); ++part) {
    const auto input = std::ranges::find(graph.inputs, step.fed_parts()[part].tensor);
    feed_part(step, part, graph, at, piece.rows,
              piece.inputs[static_cast<std::size_t>(input - graph.inputs.begin())]);
  }
  step.run({.position = position});
  return step.predictions();
}

std::string obstacle_to_pieces(Model::State& model) {
  model.prepare(std::nullopt, 1);
  return model.engine->sequences().obstacle;
}

}  // namespace meshwork
