// Whether the processor has the instructions that this library was compiled for.
//
// A compiler that is told -march=native uses all that the machine has on which it runs. On an older
// processor the program would end with SIGILL, somewhere. So the library compares two things before
// anything else in it runs: what the compiler's macros said (processor_requirements.cpp) and what
// its __builtin_cpu_supports finds, which asks CPUID and whether the system saves the registers.
//
// processor.cpp is compiled for every x86-64 processor. It calls no function that a header defines:
// the linker keeps one copy of such a function, which may be that of another file. On other
// architectures there is nothing to compare.
#pragma once

#include <cstdint>

namespace meshwork {

// The instruction sets that compilers use by themselves, as SET(name, macro): the macro is defined
// where the compiler may use the set, which the processor has under that name. Sets that only a
// program itself asks for, such as AES or AMX, are left out: that program asks the processor first.
#define MESHWORK_INSTRUCTION_SETS(SET)        \
  SET("sse3", __SSE3__)                       \
  SET("ssse3", __SSSE3__)                     \
  SET("sse4.1", __SSE4_1__)                   \
  SET("sse4.2", __SSE4_2__)                   \
  SET("popcnt", __POPCNT__)                   \
  SET("bmi", __BMI__)                         \
  SET("bmi2", __BMI2__)                       \
  SET("avx", __AVX__)                         \
  SET("fma", __FMA__)                         \
  SET("fma4", __FMA4__)                       \
  SET("xop", __XOP__)                         \
  SET("avx2", __AVX2__)                       \
  SET("gfni", __GFNI__)                       \
  SET("avx512f", __AVX512F__)                 \
  SET("avx512cd", __AVX512CD__)               \
  SET("avx512bw", __AVX512BW__)               \
  SET("avx512dq", __AVX512DQ__)               \
  SET("avx512vl", __AVX512VL__)               \
  SET("avx512ifma", __AVX512IFMA__)           \
  SET("avx512vbmi", __AVX512VBMI__)           \
  SET("avx512vbmi2", __AVX512VBMI2__)         \
  SET("avx512bitalg", __AVX512BITALG__)       \
  SET("avx512vpopcntdq", __AVX512VPOPCNTDQ__) \
  SET("avx512vnni", __AVX512VNNI__)           \
  SET("avx512bf16", __AVX512BF16__)           \
  SET("avx512pf", __AVX512PF__)               \
  SET("avx512er", __AVX512ER__)               \
  SET("avx5124vnniw", __AVX5124VNNIW__)       \
  SET("avx5124fmaps", __AVX5124FMAPS__)       \
  MESHWORK_INSTRUCTION_SETS_OF_GCC(SET)
// Names that Clang does not know. A processor that has the others for which it may use one of these
// has that one too, but for the last two.
#ifdef __clang__
#define MESHWORK_INSTRUCTION_SETS_OF_GCC(SET)
#else
#define MESHWORK_INSTRUCTION_SETS_OF_GCC(SET) \
  SET("movbe", __MOVBE__)                     \
  SET("lahf_lm", __LAHF_SAHF__)               \
  SET("lzcnt", __LZCNT__)                     \
  SET("tbm", __TBM__)                         \
  SET("f16c", __F16C__)                       \
  SET("avxvnni", __AVXVNNI__)                 \
  SET("avx512fp16", __AVX512FP16__)
#endif

/// Some of the instruction sets: bit i is the i-th of the list.
using InstructionSets = std::uint64_t;

// The sets that the file is compiled for in which this stands. A macro that is defined becomes its
// value, 1; another keeps its name.
#define MESHWORK_TEXT_OF(value) #value
#define MESHWORK_IS_COMPILED_FOR(name, macro) MESHWORK_TEXT_OF(macro)[0] == '1',
#define MESHWORK_COMPILED_FOR                                                                    \
  [] {                                                                                           \
    constexpr bool compiled_for[] = {MESHWORK_INSTRUCTION_SETS(MESHWORK_IS_COMPILED_FOR) false}; \
    ::meshwork::InstructionSets sets = 0;                                                        \
    for (unsigned i = 0; i < sizeof(compiled_for); ++i) {                                        \
      if (compiled_for[i]) sets |= std::uint64_t{1} << i;                                        \
    }                                                                                            \
    return sets;                                                                                 \
  }()

/// What this library is compiled for.
extern const InstructionSets required_instruction_sets;

/// Whether the comparison was made, which happens before any other constructor of the library. What
/// refers to it makes the linker keep it.
extern bool processor_was_compared;

}  // namespace meshwork
