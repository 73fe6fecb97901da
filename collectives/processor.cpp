#include "collectives/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace meshwork {

#if defined(__x86_64__)

static_assert(MESHWORK_COMPILED_FOR == 0,
              "this file has to run on every processor (CMakeLists.txt has its options)");

namespace {

/// What the processor calls itself, behind spaces.
struct Brand {
  unsigned parts[3][4] = {};
  char end = '\0';
  [[nodiscard]] const char* text() const {
    const auto* const name = reinterpret_cast<const char*>(parts);
    return *name == '\0' ? "of no name" : name + strspn(name, " ");
  }
};

/// Ends the process, with a line on standard error.
[[noreturn]] void refuse(const char* missing) {
  // mpirun ends all when the first rank of a machine has ended.
  const char* const variables[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"};
  for (const char* variable : variables) {
    const char* const rank = getenv(variable);
    if (rank == nullptr) continue;
    if (strcmp(rank, "0") == 0) break;
    sleep(1);
    _exit(2);
  }
  Brand brand;
  for (unsigned i = 0; i < 3; ++i) {
    unsigned* const part = brand.parts[i];
    __get_cpuid(0x80000002 + i, &part[0], &part[1], &part[2], &part[3]);
  }
  fprintf(stderr,
          "meshwork: this processor (%s) or its system lacks %s, which Meshwork was compiled for; "
          "compile it on this machine, or with -DMESHWORK_NATIVE=OFF for every machine\n",
          brand.text(), missing);
  _exit(2);
}

/// Constructors with a smaller number run first, and those without any last; up to 100 are the
/// compiler's own.
[[gnu::constructor(101)]] void compare() {
  processor_was_compared = true;
  __builtin_cpu_init();
  char missing[1024] = "";
  InstructionSets required = required_instruction_sets;
#define MESHWORK_COMPARE(name, macro)                              \
  if ((required & 1) != 0 && !__builtin_cpu_supports(name)) {      \
    strcat(strcat(missing, missing[0] == '\0' ? "" : ", "), name); \
  }                                                                \
  required >>= 1;
  MESHWORK_INSTRUCTION_SETS(MESHWORK_COMPARE)
#undef MESHWORK_COMPARE
  if (missing[0] != '\0') refuse(missing);
}

}  // namespace

#endif

constinit bool processor_was_compared = false;

}  // namespace meshwork
