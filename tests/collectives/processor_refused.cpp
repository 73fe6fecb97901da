// A program that needs more than any processor has: instructions of Intel's and of AMD's that the
// other never had. It ends before its first constructor; what it says is what the tests look at.
#include <cstdio>

#include "collectives/processor.h"

namespace meshwork {

constinit const InstructionSets required_instruction_sets = ~InstructionSets{0};

}  // namespace meshwork

namespace {

[[gnu::constructor(102)]] void construct() {
  std::puts("a constructor ran");
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::puts("main ran");
  return meshwork::processor_was_compared ? 0 : 1;
}
