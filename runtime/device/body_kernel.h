// Kernels as objects: a body that gets the operands.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/device/device.h"

namespace meshwork {

template <class Body>
class BodyKernel final : public Kernel {
 public:
  BodyKernel(Body body, std::int64_t workspace) : body_(std::move(body)), workspace_(workspace) {}
  void run(void* const* operands) override { body_(operands); }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return workspace_; }

 private:
  Body body_;
  std::int64_t workspace_;
};

/// A kernel that calls `body(operands)` on the host: what computes, or starts work on a device.
template <class Body>
[[nodiscard]] std::unique_ptr<Kernel> make_kernel(Body body, std::int64_t workspace_bytes = 0) {
  // make_unique would compile a type of pointer for each body.
  return std::unique_ptr<Kernel>(new BodyKernel<Body>(std::move(body), workspace_bytes));
}

/// Operand `index` as floats (inputs and outputs), or as another type.
template <class T = float>
[[nodiscard]] T* at(void* const* operands, int index) {
  return static_cast<T*>(operands[index]);
}

}  // namespace meshwork
