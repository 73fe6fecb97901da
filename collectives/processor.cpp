#include "collectives/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace meshwork {

namespace {

struct InstructionSet {
  const char* name;
  std::uint32_t leaf, subleaf;
  std::uint32_t CpuidAnswer::*part;
  int bit;
  std::uint64_t state;
};

constexpr InstructionSet instruction_sets[] = {
#define MESHWORK_ROW(name, macro, leaf, subleaf, part, bit, state) \
  {name, leaf, subleaf, &CpuidAnswer::part, bit, state},
    MESHWORK_INSTRUCTION_SETS(MESHWORK_ROW)
#undef MESHWORK_ROW
};
constexpr unsigned set_count = sizeof(instruction_sets) / sizeof(instruction_sets[0]);
static_assert(set_count <= 64, "InstructionSets has a bit for each");

/// All zeros for a leaf that the processor does not know; Intel's give those of another one.
CpuidAnswer ask(const Processor& processor, std::uint32_t leaf, std::uint32_t subleaf) {
  if (processor.cpuid(leaf & 0x80000000, 0).eax < leaf) return {};
  if (subleaf > 0 && processor.cpuid(leaf, 0).eax < subleaf) return {};
  return processor.cpuid(leaf, subleaf);
}

void append(char* text, std::size_t size, const char* more) {
  const std::size_t length = strlen(text);
  snprintf(text + length, size - length, "%s", more);
}

}  // namespace

InstructionSets missing_instruction_sets(InstructionSets required, const Processor& processor) {
  constexpr int xgetbv_bit = 27;
  std::uint64_t saved = 0;
  if ((ask(processor, 1, 0).ecx >> xgetbv_bit & 1) != 0) saved = processor.saved_registers();
  InstructionSets missing = 0;
  for (unsigned i = 0; i < set_count; ++i) {
    const InstructionSet& set = instruction_sets[i];
    if ((required >> i & 1) == 0) continue;
    const bool is_there = (ask(processor, set.leaf, set.subleaf).*set.part >> set.bit & 1) != 0;
    if (!is_there || (saved & set.state) != set.state) missing |= InstructionSets{1} << i;
  }
  return missing;
}

void describe_missing(InstructionSets missing, const Processor& processor, char* text,
                      std::size_t size) {
  char brand[49] = "";
  for (std::uint32_t i = 0; i < 3; ++i) {
    const CpuidAnswer part = ask(processor, 0x80000002 + i, 0);
    memcpy(brand + sizeof(part) * i, &part, sizeof(part));
  }
  snprintf(text, size, "meshwork: this processor (%s) or its system lacks ",
           brand[0] == '\0' ? "of no name" : brand + strspn(brand, " "));
  const char* between = "";
  for (unsigned i = 0; i < set_count; ++i) {
    if ((missing >> i & 1) == 0) continue;
    append(text, size, between);
    append(text, size, instruction_sets[i].name);
    between = ", ";
  }
  append(text, size,
         ", which Meshwork was compiled for; compile it on this machine, or with "
         "-DMESHWORK_NATIVE=OFF for every machine");
}

#if defined(__x86_64__)

static_assert(MESHWORK_COMPILED_FOR == 0,
              "this file has to run on every processor (CMakeLists.txt has its options)");

namespace {

CpuidAnswer cpuid(std::uint32_t leaf, std::uint32_t subleaf) {
  CpuidAnswer answer{};
  __cpuid_count(leaf, subleaf, answer.eax, answer.ebx, answer.ecx, answer.edx);
  return answer;
}

std::uint64_t saved_registers() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

/// Whether another rank of this machine says it. mpirun ends all when the first has ended.
bool another_rank_speaks() {
  const char* const variables[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"};
  for (const char* variable : variables) {
    const char* rank = getenv(variable);
    if (rank != nullptr) return strcmp(rank, "0") != 0;
  }
  return false;
}

/// Constructors with a smaller number run first, and those without any last; up to 100 are the
/// compiler's own.
[[gnu::constructor(101)]] void compare() {
  const Processor processor{.cpuid = cpuid, .saved_registers = saved_registers};
  const InstructionSets missing = missing_instruction_sets(required_instruction_sets, processor);
  processor_was_compared = true;
  if (missing == 0) return;
  if (another_rank_speaks()) {
    sleep(1);
  } else {
    char text[1024];
    describe_missing(missing, processor, text, sizeof(text));
    fprintf(stderr, "%s\n", text);
  }
  _exit(2);
}

}  // namespace

#endif

constinit bool processor_was_compared = false;

}  // namespace meshwork
