// A primitive of oneDNN as a kernel whose operands lie as the program has them.
//
// Where the primitive wants an operand in another format or type, it is reordered into the
// workspace before, or out of it behind; rounding to bfloat16 is such a reordering. The workspace
// holds also the scratchpads of all primitives, which would else be memory of the library's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/cpu/dnnl_version.h"
#include "runtime/device/cpu/kernels.h"
#include "runtime/device/cpu/primitive.h"

namespace meshwork::cpu {

/// Attributes by which a primitive takes its scratchpad as an argument.
[[nodiscard]] dnnl::primitive_attr with_user_scratchpad();

class ReorderedPrimitive final : public Kernel {
 public:
  struct Argument {
    int number;  // DNNL_ARG_
    dnnl::memory::desc of_program, of_primitive;
    bool written = false;
  };

  /// `arguments` by operand, `name` for messages.
  ReorderedPrimitive(const std::string& name, const dnnl::engine& engine,
                     const dnnl::primitive& primitive, const std::vector<Argument>& arguments,
                     const dnnl::memory::desc& scratchpad);

  [[nodiscard]] std::int64_t workspace_bytes() const override { return bytes_; }
  void run(void* const* operands) override;

 private:
  struct Reordering {
    std::size_t operand;
    Primitive primitive;
    std::int64_t at, scratchpad_at;  // into the workspace
  };
  Reordering reordering(const std::string& name, const dnnl::engine& engine, std::size_t operand,
                        const Argument& argument);

  Primitive primitive_;
  std::size_t operand_count_;
  std::vector<Reordering> before_, after_;
  std::int64_t scratchpad_at_ = 0, bytes_ = 0;
};

}  // namespace meshwork::cpu
