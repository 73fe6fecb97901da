#include "collectives/processor.h"

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

namespace meshwork {
namespace {

constexpr std::array names = {
#define MESHWORK_NAME(name, ...) std::string_view(name),
    MESHWORK_INSTRUCTION_SETS(MESHWORK_NAME)
#undef MESHWORK_NAME
};

/// The sets of these names.
InstructionSets sets(const std::vector<std::string_view>& wanted) {
  InstructionSets result = 0;
  for (const std::string_view name : wanted) {
    bool is_known = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] != name) continue;
      result |= InstructionSets{1} << i;
      is_known = true;
    }
    REQUIRE(is_known);
  }
  return result;
}
constexpr InstructionSets all_sets = (InstructionSets{1} << names.size()) - 1;

// The processor under test: what it answers, all zeros where nothing is said.
using Leaves = std::map<std::pair<std::uint32_t, std::uint32_t>, CpuidAnswer>;
Leaves leaves;
std::uint64_t saved = 0;
int questions_for_saved = 0;

const Processor subject{.cpuid =
                            [](std::uint32_t leaf, std::uint32_t subleaf) {
                              const auto found = leaves.find({leaf, subleaf});
                              return found == leaves.end() ? CpuidAnswer{} : found->second;
                            },
                        .saved_registers =
                            [] {
                              ++questions_for_saved;
                              return saved;
                            }};

constexpr std::uint32_t ones = 0xffffffff;
constexpr std::uint64_t avx512_registers = 0xe7;
constexpr std::uint64_t avx_registers = 0x7;

void pretend_everything() {
  leaves = {{{0, 0}, {.eax = 7}},
            {{1, 0}, {ones, ones, ones, ones}},
            {{7, 0}, {1, ones, ones, ones}},
            {{7, 1}, {ones, ones, ones, ones}},
            {{0x80000000, 0}, {.eax = 0x80000001}},
            {{0x80000001, 0}, {ones, ones, ones, ones}}};
  saved = ~std::uint64_t{0};
}

/// A Core i7-975 of 2009, without the leaves of what came later.
void pretend_nehalem() {
  leaves = {
      {{0, 0}, {.eax = 0xb}},
      {{1, 0}, {0x106a5, 0x100800, 0x0098e3bd, 0xbfebfbff}},
      {{0x80000000, 0}, {.eax = 0x80000008}},
      {{0x80000001, 0}, {0, 0, 0x1, 0x28100800}},
      {{0x80000002, 0}, {0x65746e49, 0x2952286c, 0x726f4320, 0x4d542865}},  // Intel(R) Core(TM
      {{0x80000003, 0}, {0x37692029, 0x00000000, 0, 0}}};                   // ) i7
  saved = 0;
  questions_for_saved = 0;
}

const std::vector<std::string_view> x86_64_v3 = {"SSE3", "SSSE3", "SSE4.1", "SSE4.2", "POPCNT",
                                                 "LAHF", "MOVBE", "LZCNT",  "BMI1",   "BMI2",
                                                 "AVX",  "AVX2",  "FMA",    "F16C"};

}  // namespace

TEST_CASE("a processor with everything lacks nothing") {
  pretend_everything();
  CHECK(missing_instruction_sets(all_sets, subject) == 0);
}

TEST_CASE("a processor without a set lacks that one and no other") {
  struct Bit {
    std::string_view name;
    std::uint32_t leaf, subleaf;
    std::uint32_t CpuidAnswer::*part;
    int bit;
  };
  // From the manuals once more, those that there are machines without.
  for (const Bit& bit :
       {Bit{"SSE4.2", 1, 0, &CpuidAnswer::ecx, 20}, Bit{"AVX", 1, 0, &CpuidAnswer::ecx, 28},
        Bit{"FMA", 1, 0, &CpuidAnswer::ecx, 12}, Bit{"AVX2", 7, 0, &CpuidAnswer::ebx, 5},
        Bit{"BMI2", 7, 0, &CpuidAnswer::ebx, 8}, Bit{"AVX512F", 7, 0, &CpuidAnswer::ebx, 16},
        Bit{"AVX512VL", 7, 0, &CpuidAnswer::ebx, 31},
        Bit{"AVX512-VNNI", 7, 0, &CpuidAnswer::ecx, 11},
        Bit{"AVX512-FP16", 7, 0, &CpuidAnswer::edx, 23},
        Bit{"AVX-VNNI", 7, 1, &CpuidAnswer::eax, 4}, Bit{"AVX512-BF16", 7, 1, &CpuidAnswer::eax, 5},
        Bit{"LZCNT", 0x80000001, 0, &CpuidAnswer::ecx, 5}}) {
    pretend_everything();
    leaves[{bit.leaf, bit.subleaf}].*bit.part &= ~(1U << bit.bit);
    INFO(bit.name);
    CHECK(missing_instruction_sets(all_sets, subject) == sets({bit.name}));
  }
}

TEST_CASE("what is not required is not missing") {
  pretend_nehalem();
  CHECK(missing_instruction_sets(sets({"SSE3", "SSSE3", "SSE4.1", "SSE4.2", "POPCNT", "LAHF"}),
                                 subject) == 0);
  CHECK(missing_instruction_sets(0, subject) == 0);
}

TEST_CASE("an old processor lacks what came after it") {
  pretend_nehalem();
  CHECK(missing_instruction_sets(sets(x86_64_v3), subject) ==
        sets({"MOVBE", "LZCNT", "BMI1", "BMI2", "AVX", "AVX2", "FMA", "F16C"}));
  // It would not know how to be asked.
  CHECK(questions_for_saved == 0);
}

TEST_CASE("sets are missing whose registers the system does not save") {
  pretend_everything();
  saved = avx_registers;
  const InstructionSets wanted = sets({"SSE4.2", "BMI2", "AVX2", "FMA", "AVX512F", "AVX512VL"});
  CHECK(missing_instruction_sets(wanted, subject) == sets({"AVX512F", "AVX512VL"}));
  saved = 0x3;
  CHECK(missing_instruction_sets(wanted, subject) == sets({"AVX2", "FMA", "AVX512F", "AVX512VL"}));
  saved = avx512_registers;
  CHECK(missing_instruction_sets(wanted, subject) == 0);
  leaves[{1, 0}].ecx &= ~(1U << 27);  // XGETBV cannot be had
  CHECK(missing_instruction_sets(wanted, subject) == sets({"AVX2", "FMA", "AVX512F", "AVX512VL"}));
}

TEST_CASE("leaves that the processor does not know count as zeros") {
  pretend_everything();
  leaves[{7, 0}].eax = 0;
  CHECK(missing_instruction_sets(sets({"AVX2", "AVX-VNNI"}), subject) == sets({"AVX-VNNI"}));
  leaves[{0, 0}].eax = 6;
  CHECK(missing_instruction_sets(sets({"AVX", "AVX2"}), subject) == sets({"AVX2"}));
  leaves[{0x80000000, 0}].eax = 0;
  CHECK(missing_instruction_sets(sets({"SSE3", "LZCNT"}), subject) == sets({"LZCNT"}));
}

TEST_CASE("the message names the processor, what is missing and what to do") {
  pretend_nehalem();
  std::array<char, 400> text{};
  describe_missing(sets({"AVX", "AVX2"}), subject, text.data(), text.size());
  CHECK(std::string(text.data()) ==
        "meshwork: this processor (Intel(R) Core(TM) i7) or its system lacks AVX, AVX2, which "
        "Meshwork was compiled for; compile it on this machine, or with -DMESHWORK_NATIVE=OFF for "
        "every machine");
  // A buffer that is too small for it ends it.
  std::array<char, 64> small{};
  small.fill('x');
  describe_missing(all_sets, subject, small.data(), 40);
  CHECK(std::string(small.data()) == "meshwork: this processor (Intel(R) Core");
  CHECK(small[40] == 'x');
}

#if defined(__x86_64__)
TEST_CASE("what the compiler was told is what is required") {
  CHECK(required_instruction_sets == MESHWORK_COMPILED_FOR);
#if defined(__AVX2__)
  CHECK((required_instruction_sets & sets({"AVX2"})) != 0);
#else
  CHECK((required_instruction_sets & sets({"AVX2"})) == 0);
#endif
#if defined(__AVX512VL__)
  CHECK((required_instruction_sets & sets({"AVX512VL"})) != 0);
#else
  CHECK((required_instruction_sets & sets({"AVX512VL"})) == 0);
#endif
}

TEST_CASE("the comparison is made before main") {
  CHECK(processor_was_compared);
}
#endif

}  // namespace meshwork
