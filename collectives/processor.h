// Whether the processor has the instructions that this library was compiled for.
//
// A compiler that is told -march=native uses all that the machine has on which it runs. On an older
// processor the program would end with SIGILL, somewhere. So the library compares two things before
// anything else in it runs: what the compiler's macros said (processor_requirements.cpp) and what
// CPUID says.
//
// processor.cpp is compiled for every x86-64 processor. It calls no function that a header defines:
// the linker keeps one copy of such a function, which may be that of another file. On other
// architectures there is nothing to compare.
#pragma once

#include <cstddef>
#include <cstdint>

namespace meshwork {

// The instruction sets that compilers use by themselves, as
//   SET(name, macro, leaf, subleaf, register, bit, state)
// GCC and Clang define the macro where they may use the set. CPUID tells of it in that bit (Intel
// 64 and IA-32 Architectures Software Developer's Manual, CPUID; AMD64 Architecture Programmer's
// Manual, volume 3, appendix E). The operating system has to save the registers whose bits of XCR0
// are `state`. Sets that only a program itself asks for, such as AES or AMX, are left out: that
// program asks the processor first.
#define MESHWORK_INSTRUCTION_SETS(SET)                              \
  SET("SSE3", __SSE3__, 1, 0, ecx, 0, 0)                            \
  SET("SSSE3", __SSSE3__, 1, 0, ecx, 9, 0)                          \
  SET("SSE4.1", __SSE4_1__, 1, 0, ecx, 19, 0)                       \
  SET("SSE4.2", __SSE4_2__, 1, 0, ecx, 20, 0)                       \
  SET("POPCNT", __POPCNT__, 1, 0, ecx, 23, 0)                       \
  SET("MOVBE", __MOVBE__, 1, 0, ecx, 22, 0)                         \
  SET("LAHF", __LAHF_SAHF__, 0x80000001, 0, ecx, 0, 0)              \
  SET("LZCNT", __LZCNT__, 0x80000001, 0, ecx, 5, 0)                 \
  SET("BMI1", __BMI__, 7, 0, ebx, 3, 0)                             \
  SET("BMI2", __BMI2__, 7, 0, ebx, 8, 0)                            \
  SET("TBM", __TBM__, 0x80000001, 0, ecx, 21, 0)                    \
  SET("AVX", __AVX__, 1, 0, ecx, 28, 0x6)                           \
  SET("F16C", __F16C__, 1, 0, ecx, 29, 0x6)                         \
  SET("FMA", __FMA__, 1, 0, ecx, 12, 0x6)                           \
  SET("FMA4", __FMA4__, 0x80000001, 0, ecx, 16, 0x6)                \
  SET("XOP", __XOP__, 0x80000001, 0, ecx, 11, 0x6)                  \
  SET("AVX2", __AVX2__, 7, 0, ebx, 5, 0x6)                          \
  SET("AVX-VNNI", __AVXVNNI__, 7, 1, eax, 4, 0x6)                   \
  SET("AVX-IFMA", __AVXIFMA__, 7, 1, eax, 23, 0x6)                  \
  SET("AVX-VNNI-INT8", __AVXVNNIINT8__, 7, 1, edx, 4, 0x6)          \
  SET("AVX-VNNI-INT16", __AVXVNNIINT16__, 7, 1, edx, 10, 0x6)       \
  SET("AVX-NE-CONVERT", __AVXNECONVERT__, 7, 1, edx, 5, 0x6)        \
  SET("GFNI", __GFNI__, 7, 0, ecx, 8, 0)                            \
  SET("CMPCCXADD", __CMPCCXADD__, 7, 1, eax, 7, 0)                  \
  SET("APX", __APX_F__, 7, 1, edx, 21, 0x80000)                     \
  SET("AVX512F", __AVX512F__, 7, 0, ebx, 16, 0xe6)                  \
  SET("AVX512CD", __AVX512CD__, 7, 0, ebx, 28, 0xe6)                \
  SET("AVX512BW", __AVX512BW__, 7, 0, ebx, 30, 0xe6)                \
  SET("AVX512DQ", __AVX512DQ__, 7, 0, ebx, 17, 0xe6)                \
  SET("AVX512VL", __AVX512VL__, 7, 0, ebx, 31, 0xe6)                \
  SET("AVX512-IFMA", __AVX512IFMA__, 7, 0, ebx, 21, 0xe6)           \
  SET("AVX512-VBMI", __AVX512VBMI__, 7, 0, ecx, 1, 0xe6)            \
  SET("AVX512-VBMI2", __AVX512VBMI2__, 7, 0, ecx, 6, 0xe6)          \
  SET("AVX512-BITALG", __AVX512BITALG__, 7, 0, ecx, 12, 0xe6)       \
  SET("AVX512-VPOPCNTDQ", __AVX512VPOPCNTDQ__, 7, 0, ecx, 14, 0xe6) \
  SET("AVX512-VNNI", __AVX512VNNI__, 7, 0, ecx, 11, 0xe6)           \
  SET("AVX512-BF16", __AVX512BF16__, 7, 1, eax, 5, 0xe6)            \
  SET("AVX512-FP16", __AVX512FP16__, 7, 0, edx, 23, 0xe6)           \
  SET("AVX512-PF", __AVX512PF__, 7, 0, ebx, 26, 0xe6)               \
  SET("AVX512-ER", __AVX512ER__, 7, 0, ebx, 27, 0xe6)               \
  SET("AVX512-4VNNIW", __AVX5124VNNIW__, 7, 0, edx, 2, 0xe6)        \
  SET("AVX512-4FMAPS", __AVX5124FMAPS__, 7, 0, edx, 3, 0xe6)

/// Some of the instruction sets: bit i is the i-th of the list.
using InstructionSets = std::uint64_t;

// The sets that the file is compiled for in which this stands. A macro that is defined becomes its
// value, 1; another keeps its name.
#define MESHWORK_TEXT_OF(value) #value
#define MESHWORK_IS_COMPILED_FOR(name, macro, ...) MESHWORK_TEXT_OF(macro)[0] == '1',
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

/// What CPUID says of a leaf and a subleaf.
struct CpuidAnswer {
  std::uint32_t eax, ebx, ecx, edx;
};

/// The questions that a processor answers.
struct Processor {
  CpuidAnswer (*cpuid)(std::uint32_t leaf, std::uint32_t subleaf);
  /// XCR0: the registers that the operating system saves. Asked only if CPUID says that it can be.
  std::uint64_t (*saved_registers)();
};

/// Those of `required` that the processor lacks, or whose registers the system does not save.
[[nodiscard]] InstructionSets missing_instruction_sets(InstructionSets required,
                                                       const Processor& processor);

/// Writes what a user is told when `missing` are: a line, of at most `size` - 1 characters.
void describe_missing(InstructionSets missing, const Processor& processor, char* text,
                      std::size_t size);

/// Whether the comparison was made, which happens before any other constructor of the library. What
/// refers to it makes the linker keep it.
extern bool processor_was_compared;

}  // namespace meshwork
