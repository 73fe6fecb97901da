// A test of its own, because it replaces the global operator new to count what is allocated.
//
// oneDNN's matmul primitive allocates a few records of its own in each run, inside the library; the
// products here are those that it is not used for. Nothing of ours allocates.
#include <cstdlib>
#include <new>

#include "runtime/device/program.h"
#include "tests/support/catch.h"

namespace {

long allocations = 0;

void* counted(std::size_t bytes) {
  ++allocations;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace meshwork {

TEST_CASE("running a program allocates nothing") {
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  constexpr std::int64_t rows = 33, columns = 10, count = rows * columns;
  const auto floats = [&](std::int64_t length) { return builder.scratch(length * 4, "floats"); };
  const Buffer x = floats(count), target = floats(count), wide = floats(rows * columns);
  const Buffer bias = floats(columns), m = floats(rows), s = floats(rows), z = floats(3 * rows);
  const Buffer y = floats(count), e = floats(count), c = floats(rows),
               square = floats(columns * columns);
  const Buffer scalar = builder.scratch(8, "scalar"), factor = floats(1);
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
  builder.emit(AffineSpec{count, 2, 1}, {x, y}, "t");
  builder.emit(ConvertSpec{count, ElementType::uint8}, {x, y}, "t");
  builder.emit(SumSpec{count, 3}, {x, y, x, y}, "t");
  builder.emit(DropoutSpec{0.5f, 3, {rows, columns}, {{0, rows}, {0, columns}}}, {x, scalars, y},
               "t");
  builder.emit(ZeroSpec{count * 4}, {y}, "t");
  builder.emit(CopySpec{ElementType::float32, {{{columns, rows}, 0, 0, {1, columns}, {rows, 1}}}},
               {x, wide}, "t");
  builder.emit(RowMaximumSpec{rows, columns}, {x, m}, "t");
  builder.emit(RowExponentialSpec{rows, columns}, {x, m, e, s}, "t");
  builder.emit(RowDivideSpec{rows, columns}, {e, s, y}, "t");
  builder.emit(RowSumSpec{rows, columns}, {y, s}, "t");
  builder.emit(RowDotSpec{rows, columns}, {y, x, c}, "t");
  builder.emit(SoftmaxGradientSpec{rows, columns}, {y, x, c, e}, "t");
  builder.emit(LogitStatisticsSpec{at}, {x, target, m, z}, "t");
  builder.emit(LogitLossSpec{rows}, {z, scalar}, "t");
  builder.emit(LogitGradientSpec{at, 1}, {x, target, m, z, e}, "t");
  builder.emit(ProbabilityLossSpec{at}, {y, target, s, scalar, c}, "t");
  builder.emit(ProbabilityGradientSpec{at, 1}, {y, target, s, c, e}, "t");
  builder.emit(TargetValueSpec{at}, {x, target, m}, "t");
  builder.emit(CountAheadSpec{at}, {x, target, m, c}, "t");
  builder.emit(CountBelowSpec{rows, 1}, {c, scalar}, "t");
  builder.emit(FirstMaximumSpec{at}, {x, m, c}, "t");
  builder.emit(SquaredErrorSpec{count, 1}, {x, target, scalar}, "t");
  builder.emit(SquaredErrorGradientSpec{count, 1}, {x, target, e}, "t");
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
  Program program = builder.finish();
  CHECK(program.instruction_count() == std::variant_size_v<KernelSpec>);

  program.run();
  const long before = allocations;
  program.run();
  program.run();
  const long after = allocations;
  CHECK(after == before);
}

}  // namespace meshwork
