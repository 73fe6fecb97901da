#include "runtime/device/kernels/pieces.h"

#include "runtime/device/kernels/rotary.h"
#include "runtime/device/kernels/step_scalars.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::pieces_test {

TEST_CASE("a piece is cut out of a whole where the step says, and put back there") {
  constexpr std::int64_t outer = 3, all = 11;
  for (const std::int64_t positions : {0, 1, 4}) {
    for (const std::int64_t inner : {1, 5, 33}) {
      for (const std::int64_t position : {0, 2, 7}) {
        INFO(positions << " positions of " << inner << " from " << position << " on");
        const std::vector<float> values = random_values(outer * all * inner, 1);
        Array<> whole(values), piece(outer * positions * inner);
        Array<StepScalars> scalars({StepScalars{.position = position}});
        run(CutPieceSpec{outer, positions, inner, all}, whole, scalars, piece);
        std::vector<float> expected;
        for (std::int64_t o = 0; o < outer; ++o) {
          const auto from = values.begin() + (o * all + position) * inner;
          expected.insert(expected.end(), from, from + positions * inner);
        }
        CHECK(piece.values() == expected);
        // The rank that has the later part of a piece.
        if (positions > 1) {
          Array<> later(outer * inner);
          run(CutPieceSpec{outer, 1, inner, all, positions - 1}, whole, scalars, later);
          CHECK(later[0] == values[static_cast<std::size_t>((position + positions - 1) * inner)]);
        }

        const std::vector<float> fresh = random_values(outer * positions * inner, 2);
        Array<> put(fresh);
        run(KeepPieceSpec{outer, positions, inner, all}, put, scalars, whole);
        std::vector<float> kept = values;
        for (std::int64_t o = 0; o < outer; ++o) {
          std::copy_n(fresh.begin() + o * positions * inner, positions * inner,
                      kept.begin() + (o * all + position) * inner);
        }
        CHECK(whole.values() == kept);
      }
    }
  }
}

TEST_CASE("vectors of a piece are turned as they are in the whole") {
  constexpr std::int64_t batch = 2, all = 9, vectors = 3, length = 8, row = vectors * length;
  const std::vector<float> values = random_values(batch * all * row, 1);
  Array<> x(values), y(batch * all * row);
  const RotarySpec turned{.batch = batch, .places = all, .vectors = vectors, .length = length};
  run(turned, x, y);
  for (const std::int64_t first_of_block : {0, 1}) {
    for (const std::int64_t position : {0, 4, 5}) {
      constexpr std::int64_t places = 3;
      const std::int64_t begin = position + first_of_block;
      std::vector<float> here, expected;
      for (std::int64_t b = 0; b < batch; ++b) {
        const std::int64_t from = (b * all + begin) * row;
        here.insert(here.end(), values.begin() + from, values.begin() + from + places * row);
        expected.insert(expected.end(), y.data() + from, y.data() + from + places * row);
      }
      Array<> piece(here), result(batch * places * row);
      Array<StepScalars> scalars({StepScalars{.position = position}});
      RotarySpec of_piece = turned;
      of_piece.places = places, of_piece.first_place = first_of_block, of_piece.all = all;
      run(of_piece, piece, scalars, result);
      CHECK(result.values() == expected);
    }
  }
}

}  // namespace meshwork::test::pieces_test
