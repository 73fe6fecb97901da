// Compiled as the rest of the library, and so with its macros: only a number, no instruction.
#include "collectives/processor.h"

namespace meshwork {

constinit const InstructionSets required_instruction_sets = MESHWORK_COMPILED_FOR;

}  // namespace meshwork
