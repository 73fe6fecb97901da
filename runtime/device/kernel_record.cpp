#include "runtime/device/kernel_record.h"

namespace meshwork {

const std::string* KernelRecord::find(const KernelSpec& spec) const {
  if (chosen.empty()) return nullptr;
  const auto found = chosen.find(spec.key());
  return found == chosen.end() ? nullptr : &found->second;
}

}  // namespace meshwork
