// Running a program allocates nothing: neither ours nor, but for records of its own that oneDNN
// makes, the library's.
#include "runtime/device/cpu/kernels.h"
#include "runtime/device/kernels/adadelta.h"
#include "runtime/device/kernels/adafactor.h"
#include "runtime/device/kernels/adagrad.h"
#include "runtime/device/kernels/adam.h"
#include "runtime/device/kernels/adamax.h"
#include "runtime/device/kernels/attention.h"
#include "runtime/device/kernels/average.h"
#include "runtime/device/kernels/category_encoding.h"
#include "runtime/device/kernels/circle.h"
#include "runtime/device/kernels/classes.h"
#include "runtime/device/kernels/convolution.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/counts.h"
#include "runtime/device/kernels/documents.h"
#include "runtime/device/kernels/draws.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/embedding.h"
#include "runtime/device/kernels/ftrl.h"
#include "runtime/device/kernels/generalized_crossentropy.h"
#include "runtime/device/kernels/image_motion.h"
#include "runtime/device/kernels/image_tone.h"
#include "runtime/device/kernels/lamb.h"
#include "runtime/device/kernels/lion.h"
#include "runtime/device/kernels/losses.h"
#include "runtime/device/kernels/masks.h"
#include "runtime/device/kernels/middle.h"
#include "runtime/device/kernels/nadam.h"
#include "runtime/device/kernels/normalization.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/kernels/overlap.h"
#include "runtime/device/kernels/pairs.h"
#include "runtime/device/kernels/pieces.h"
#include "runtime/device/kernels/pooling.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/kernels/rmsprop.h"
#include "runtime/device/kernels/rotary.h"
#include "runtime/device/kernels/row_losses.h"
#include "runtime/device/kernels/row_normalization.h"
#include "runtime/device/kernels/rows.h"
#include "runtime/device/kernels/schedule_free.h"
#include "runtime/device/kernels/sgd.h"
#include "runtime/device/kernels/upsampling.h"
#include "runtime/device/kernels/value_losses.h"
#include "runtime/device/program.h"
#include "tests/support/allocations.h"
#include "tests/support/catch.h"

namespace meshwork::program_allocations_test {

TEST_CASE("running a program allocates nothing") {
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  constexpr std::int64_t rows = 33, columns = 10, count = rows * columns;
  const auto floats = [&](std::int64_t length) { return builder.scratch(length * 4, "floats"); };
  const Buffer x = floats(count), target = floats(count), wide = floats(rows * columns);
  const Buffer bias = floats(columns), m = floats(rows), s = floats(rows), z = floats(3 * rows);
  const Buffer y = floats(count), e = floats(count), c = floats(rows),
               square = floats(columns * columns);
  const Buffer scalar = builder.scratch(8, "scalar"), rank = builder.scratch(8, "rank"),
               factor = floats(1);
  const Buffer scalars = builder.scratch(sizeof(StepScalars), "step");
  const Buffer slot = floats(count), second = floats(count), third = floats(count);
  const ClassColumns at{.rows = rows, .columns = columns, .classes = columns};
  for (const Buffer& preset : {x, target, bias, scalars, slot, second, third})
    builder.preset(preset);

  builder.emit(MatmulSpec{.m = columns, .n = columns, .k = rows, .transpose_a = true},
               {x, x, square}, "t");
  builder.emit(BiasAddSpec{rows, columns, Activation::gelu}, {x, bias, y}, "t");
  builder.emit(ColumnSumSpec{rows, columns}, {x, bias}, "t");
  builder.emit(ActivationSpec{Activation::tanh, count}, {x, y}, "t");
  builder.emit(ActivationGradientSpec{Activation::relu, count}, {x, y, y}, "t");
  builder.emit(RectifySpec{Rectifier{}, count}, {x, y}, "t");
  builder.emit(RectifyGradientSpec{Rectifier{}, count}, {x, y, y}, "t");
  builder.emit(AffineSpec{count, 2, 1}, {x, y}, "t");
  builder.emit(ConvertSpec{count, ElementType::uint8}, {x, y}, "t");
  builder.emit(NarrowSpec{count}, {x, e}, "t");
  std::array<std::uint8_t, columns> pixels{};
  std::array<std::int64_t, rows> samples{};  // all of them the first
  const void* table = pixels.data();
  builder.emit(GatherSpec{rows, columns, ElementType::uint8},
               {builder.external(&table, sizeof table, "table"),
                builder.external(samples.data(), sizeof samples, "samples"), y},
               "t");
  builder.emit(SumSpec{count, 3}, {x, y, x, y}, "t");
  builder.emit(DropoutSpec{0.5f, 3, {rows, columns}, {{0, rows}, {0, columns}}}, {x, scalars, y},
               "t");
  builder.emit(NormalDrawSpec{0, 1, 3, {rows, columns}, {{0, rows}, {0, columns}}}, {scalars, y},
               "t");
  builder.emit(UniformDrawSpec{3, {rows, columns}, {{0, rows}, {0, columns}}}, {scalars, y}, "t");
  builder.emit(ImageMotionSpec{{}, {1, rows, columns, rows, columns, 1}}, {x, y, wide}, "t");
  builder.emit(ImageMotionGradientSpec{{}, {1, rows, columns, rows, columns, 1}}, {x, y, wide},
               "t");
  builder.emit(ImageToneSpec{{.tone = Tone::contrast}, {1, rows, columns}}, {x, x, bias, y}, "t");
  builder.emit(InnerGradientSpec{count, 0, 1}, {x, y, y}, "t");
  builder.emit(ZeroSpec{count * 4}, {y}, "t");
  builder.emit(CopySpec{ElementType::float32, {{{columns, rows}, 0, 0, {1, columns}, {rows, 1}}}},
               {x, wide}, "t");
  builder.emit(RowMaximumSpec{rows, columns}, {x, m}, "t");
  builder.emit(RowExponentialSpec{rows, columns}, {x, m, e, s}, "t");
  builder.emit(RowDivideSpec{rows, columns}, {e, s, y}, "t");
  builder.emit(RowSumSpec{rows, columns}, {y, s}, "t");
  builder.emit(RowDotSpec{rows, columns}, {y, x, c}, "t");
  builder.emit(UnitRowSpec{rows, columns, 1}, {x, c, y}, "t");
  builder.emit(UnitRowGradientSpec{rows, columns, 1}, {y, x, c, c, e}, "t");
  builder.emit(SoftmaxGradientSpec{rows, columns}, {y, x, c, e}, "t");
  builder.emit(SoftmaxSpec{rows, columns}, {x, y}, "t");
  builder.emit(LogitStatisticsSpec{at}, {x, target, m, z}, "t");
  builder.emit(LogitLossSpec{rows}, {z, scalar}, "t");
  builder.emit(LogitGradientSpec{at, 1}, {x, target, m, z, e}, "t");
  builder.emit(ProbabilityLossSpec{at}, {y, target, s, scalar, c}, "t");
  builder.emit(ProbabilityGradientSpec{at, 1}, {y, target, s, c, e}, "t");
  builder.emit(TargetValueSpec{at}, {x, target, m}, "t");
  builder.emit(CountAheadSpec{at}, {x, target, m, c}, "t");
  builder.emit(CountBelowSpec{rows, 1}, {c, scalar}, "t");
  builder.emit(FirstMaximumSpec{at}, {x, m, c}, "t");
  builder.emit(MaskSpec{.rows = rows, .columns = columns}, {x, m}, "t");
  builder.emit(MaskedRowsSpec{rows, columns}, {x, m, y}, "t");
  builder.emit(MaskedClassSpec{rows, 1}, {c, m, target}, "t");
  builder.emit(MaskCountSpec{rows}, {m, scalar}, "t");
  builder.emit(
      ClassComparisonSpec{
          .at = at, .crossentropy = Crossentropy::of_logits, .gradient = true, .within = {1, 3}},
      {x, target, scalar, e, rank, rank}, "t");
  builder.emit(SquaredErrorSpec{count, 1}, {x, target, scalar}, "t");
  builder.emit(SquaredErrorGradientSpec{count, 1}, {x, target, e}, "t");
  builder.emit(WeightGradientSpec{count, 1}, {x, e}, "t");
  builder.emit(RowWeightSpec{.rows = at.rows, .table = {1, 2}}, {target, m}, "t");
  builder.emit(AbsoluteErrorSpec{count, 1}, {x, target, scalar}, "t");
  builder.emit(BinaryCrossentropySpec{count, 1, true, 0}, {x, target, scalar}, "t");
  builder.emit(BinaryCrossentropyGradientSpec{count, 1, true, 0}, {x, target, e}, "t");
  builder.emit(BinaryMatchSpec{count, 1, 0.5f}, {x, target, scalar}, "t");
  builder.emit(PowerSumSpec{count, 2}, {x, scalar}, "t");
  builder.emit(WeightedSumSpec{{2.0}}, {scalar, scalar}, "t");
  builder.emit(PenaltyGradientSpec{count, 1, 1}, {x, e}, "t");
  builder.emit(ClipFactorSpec{1, true}, {scalar, factor}, "t");
  builder.emit(ScaleBySpec{count}, {factor, e}, "t");
  builder.emit(ClampSpec{count, 1}, {e}, "t");
  builder.emit(SgdSpec{.count = count, .momentum = 0.9f}, {scalars, e, x, slot}, "t");
  builder.emit(AdamSpec{.count = count, .scaled = true}, {scalars, factor, e, x, slot, second},
               "t");
  builder.emit(RmspropSpec{.count = count, .momentum = 0.5, .centered = true},
               {scalars, e, x, slot, second, third}, "t");
  builder.emit(LionSpec{.count = count}, {scalars, e, x, slot}, "t");
  builder.emit(AdagradSpec{.count = count}, {scalars, e, x, slot}, "t");
  builder.emit(AdadeltaSpec{.count = count}, {scalars, e, x, slot, second}, "t");
  builder.emit(AdamaxSpec{.count = count}, {scalars, e, x, slot, second}, "t");
  builder.emit(NadamSpec{.count = count}, {scalars, e, x, slot, second}, "t");
  builder.emit(FtrlSpec{.count = count}, {scalars, e, x, slot, second}, "t");
  builder.emit(LambSpec{.count = count}, {scalars, e, x, slot, second}, "t");
  builder.emit(AverageSpec{.count = count}, {scalars, e, x, slot}, "t");
  builder.emit(ScheduleFreeSpec{.count = count}, {scalars, e, x, slot, second}, "t");
  builder.emit(AdafactorSpec{.count = count}, {scalars, e, x, slot}, "t");
  builder.emit(SlowingSpec{.count = count}, {scalars, e, x}, "t");
  builder.emit(OuterProductSpec{1, rows, columns}, {x, x, x, slot}, "t");
  builder.emit(RootQuotientSpec{count}, {slot, e}, "t");
  builder.emit(RelativeSizeSpec{count}, {scalar, scalar, factor}, "t");
  builder.emit(NormRatioSpec{}, {scalar, scalar, factor}, "t");
  builder.emit(MiddleSquaresSpec{{1, count, 1}}, {x, scalar}, "t");
  builder.emit(NormLimitsSpec{.count = 1}, {scalar, factor}, "t");
  builder.emit(ZeroDiagonalSpec{columns}, {square}, "t");
  builder.emit(PairSpec{PairFunction::product, count}, {x, target, y}, "t");
  builder.emit(PairGradientSpec{PairFunction::maximum, true, count}, {x, target, y, e}, "t");
  builder.emit(ColumnScaleSpec{rows, columns}, {x, bias, y}, "t");
  const AttentionShape attention{.batch = 1,
                                 .queries = rows,
                                 .keys = rows,
                                 .heads = 1,
                                 .key_heads = 1,
                                 .key_length = columns,
                                 .value_length = columns};
  builder.emit(RepeatRowsSpec{rows, columns}, {bias, y}, "t");
  builder.emit(RotarySpec{.batch = 1, .places = rows, .vectors = 1, .length = columns}, {x, y},
               "t");
  builder.emit(AttentionSpec{attention}, {x, target, slot, y, m}, "t");
  builder.emit(AttentionGradientSpec{attention}, {x, target, slot, y, m, e, wide, second, third},
               "t");
  const Buffer numbers = builder.scratch(rows * 4, "numbers");
  builder.preset(numbers);
  builder.emit(EmbeddingSpec{rows, columns, 0, rows}, {numbers, x, y}, "t");
  builder.emit(EmbeddingGradientSpec{rows, columns, 0, rows}, {numbers, y, e}, "t");
  builder.emit(CategoryEncodingSpec{.rows = rows, .columns = columns}, {m, y}, "t");
  builder.emit(SlopeSpec{rows, columns}, {x, bias, y}, "t");
  builder.emit(SlopeGradientSpec{rows, columns}, {x, bias, y, e}, "t");
  builder.emit(SlopeTermSpec{count}, {x, y, e}, "t");
  EveryValueLoss::each([&]<class Function>(const Function&) {
    builder.emit(ValueLossSpec<Function>{.count = count}, {x, target, scalar}, "t");
    builder.emit(ValueSlopeSpec<Function>{.count = count}, {x, target, e}, "t");
  });
  const Buffer sums = builder.scratch(3 * rows * 8, "sums");
  const Buffer further = builder.scratch(3 * rows * 8, "further sums");
  for (const Buffer preset : {sums, further, m}) builder.preset(preset);
  EveryRowLoss::each([&]<class Function>(const Function&) {
    if constexpr (Function::has_maximum) {
      builder.emit(RowScoreSpec<Function>{rows, columns}, {x, target, m}, "t");
    }
    builder.emit(RowSumsSpec<Function, false>{rows, columns}, {x, target, m, sums, further}, "t");
    if constexpr (Function::further > 0) {
      builder.emit(RowSumsSpec<Function, true>{rows, columns}, {x, target, m, sums, further}, "t");
    }
    builder.emit(RowLossSpec<Function>{rows}, {m, sums, further, scalar}, "t");
    if constexpr (Function::has_slope) {
      builder.emit(RowSlopeSpec<Function>{rows, columns}, {x, target, m, sums, further, e}, "t");
    }
  });
  const RowNormalization normalized{.rows = rows, .columns = columns, .count = columns};
  builder.emit(RowMomentsSpec{rows, columns}, {x, sums}, "t");
  builder.emit(RowStatisticsSpec{normalized}, {sums, m, s}, "t");
  builder.emit(RowNormalizeSpec{normalized}, {x, m, s, bias, bias, y}, "t");
  builder.emit(RowGradientSumsSpec{normalized}, {x, m, s, bias, y, sums}, "t");
  builder.emit(RowNormalizeGradientSpec{normalized}, {x, m, s, bias, y, e}, "t");
  builder.emit(RowNormalizeVariablesSpec{normalized}, {x, m, s, y, bias, bias}, "t");
  const Buffer counts = builder.scratch(2 * 4 * 8, "counts");
  const Buffer squares = builder.scratch(3 * columns * 8, "squares");
  builder.emit(ThresholdCountsSpec{count, {0.2f, 0.5f, 0.8f}}, {x, target, counts}, "t");
  builder.emit(ColumnSquaresSpec{{.outer = 1, .middle = rows, .inner = columns}},
               {x, target, squares}, "t");
  const MiddleExtents all_rows{.outer = 1, .middle = rows, .inner = columns};
  builder.emit(ColumnChoicesSpec{all_rows}, {x, target, squares}, "t");
  const Buffer classes = builder.scratch(rows * 4, "classes");
  builder.preset(classes);
  builder.emit(ClassPairsSpec{rows, 4}, {classes, classes, squares}, "t");
  builder.emit(LargestEndSpec{rows, columns, 2}, {x, m, classes}, "t");
  builder.emit(LargestOnlySpec{rows, columns}, {x, m, classes, y}, "t");
  builder.emit(OverlapSumsSpec{all_rows}, {x, target, squares}, "t");
  builder.emit(FoldedSumsSpec{1, 3 * columns}, {squares, squares}, "t");
  builder.emit(OverlapLossSpec{columns}, {squares, scalar}, "t");
  builder.emit(OverlapGradientSpec{all_rows}, {target, squares, e}, "t");
  // The same elements as one image of 3x11 with ten channels, under windows of one place.
  const WindowDimension three{.input = 3, .output = 3}, eleven{.input = 11, .output = 11};
  const ConvolutionShape convolution{
      .batch = 1, .rows = three, .columns = eleven, .channels = columns, .filters = columns};
  const PoolingShape pooling{.batch = 1, .rows = three, .columns = eleven, .channels = columns};
  const UpsamplingShape same{.batch = 1,
                             .rows = {.length = 3, .input = 3, .output = 3},
                             .columns = {.length = 11, .input = 11, .output = 11},
                             .channels = columns,
                             .interpolation = Interpolation::bilinear};
  const NormalizationShape normalization{
      .rows = rows, .channels = columns, .scale = false, .center = false};
  const Buffer winners = builder.scratch(count, "winners");
  const Buffer moments = builder.scratch(2 * columns * 8, "moments");
  const Buffer mean = floats(columns), variance = floats(columns), inverse = floats(columns);
  for (const Buffer preset : {mean, variance}) builder.preset(preset);
  builder.emit(ConvolutionSpec{.at = convolution, .activation = Activation::relu}, {x, square, y},
               "t");
  builder.emit(ConvolutionInputGradientSpec{convolution}, {x, square, e}, "t");
  builder.emit(ConvolutionKernelGradientSpec{convolution}, {x, target, square}, "t");
  builder.emit(MaximumPoolingSpec{pooling, true}, {x, y, winners}, "t");
  builder.emit(MaximumPoolingGradientSpec{pooling}, {winners, x, e}, "t");
  builder.emit(AveragePoolingSpec{pooling}, {x, y}, "t");
  builder.emit(AveragePoolingGradientSpec{pooling}, {x, e}, "t");
  const Buffer circle = builder.scratch(columns * columns * 4, "circle");
  const Buffer pair_sums = builder.scratch(2 * columns * 4, "pair sums");
  builder.preset(circle);
  builder.emit(CircleSumsSpec{columns, {}}, {circle, classes, pair_sums}, "t");
  builder.emit(CircleLossSpec{columns}, {pair_sums, factor, scalar}, "t");
  builder.emit(CircleGradientSpec{columns, {}}, {classes, pair_sums, factor, circle}, "t");
  builder.emit(GeneralizedCrossentropySpec{rows, columns}, {classes, m, scalar}, "t");
  builder.emit(GeneralizedCrossentropyGradientSpec{rows, columns}, {classes, m, e}, "t");
  builder.emit(MiddleSumSpec{1, rows, columns, 1}, {x, bias}, "t");
  builder.emit(MiddleBroadcastSpec{1, rows, columns, 1}, {bias, y}, "t");
  builder.emit(MiddleMaximumSpec{1, rows, columns}, {x, m}, "t");
  builder.emit(MiddleTiesSpec{1, rows, columns}, {x, m, s}, "t");
  builder.emit(MiddleMaximumGradientSpec{1, rows, columns}, {x, m, s, bias, e}, "t");
  builder.emit(MiddleScaleSpec{1, rows, columns}, {x, bias, y}, "t");
  builder.emit(ChannelMomentsSpec{rows, columns}, {x, moments}, "t");
  builder.emit(ChannelStatisticsSpec{.channels = columns, .count = rows},
               {moments, mean, variance, m, inverse, mean, variance}, "t");
  builder.emit(InverseDeviationSpec{columns}, {variance, inverse}, "t");
  builder.emit(NormalizeSpec{normalization}, {x, mean, inverse, y}, "t");
  builder.emit(NormalizeGradientSumsSpec{normalization}, {x, target, mean, inverse, moments}, "t");
  builder.emit(NormalizeGradientSpec{normalization, rows}, {x, target, mean, inverse, moments, e},
               "t");
  builder.emit(UpsamplingSpec{same}, {x, y}, "t");
  builder.emit(UpsamplingGradientSpec{same}, {x, e}, "t");
  builder.emit(CutPieceSpec{.outer = 1, .positions = 3, .inner = columns, .all = rows},
               {x, scalars, y}, "t");
  builder.emit(KeepPieceSpec{.outer = 1, .positions = 3, .inner = columns, .all = rows},
               {y, scalars, e}, "t");
  builder.emit(DocumentStartSpec{.rows = rows, .places = columns, .all = columns}, {x, y}, "t");
  Program program = builder.finish();
  cpu::Kernels kernels;
  cpu::add_kernels(kernels);
  CHECK(program.instruction_count() == kernels.types().size());

  program.run();
  const long before = test::allocations;
  program.run();
  program.run();
  const long after = test::allocations;
  CHECK(after == before);
}

}  // namespace meshwork::program_allocations_test
