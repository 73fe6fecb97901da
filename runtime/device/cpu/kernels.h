// The CPU's kernels.
//
// A file of this folder holds kernels of one concern; its opening comment says which and what
// bounds them, and its last function enters them (kernel_set.h). One that composes others asks
// `compile` for them.
#pragma once

#include <functional>
#include <memory>

#include "runtime/device/kernel_set.h"

namespace meshwork::cpu {

struct Context;
using Kernels = KernelSet<Context>;
using KernelPointer = std::unique_ptr<Kernel>;

/// What kernels of one device share.
struct Context {
  int threads = 1;
  const Kernels* kernels = nullptr;
};

/// Enters those of every file of this folder.
void add_kernels(Kernels& kernels);

/// Devices that are made from now on have what `enter` enters too: the kernels of an extension
/// (runtime/config/extension.h). They may be loops over bodies (body_loops.h), updates
/// (update_loops.h) or anything else, and take the place of built-in ones of their specification. A
/// specification of an extension belongs in an unnamed namespace, lest it meets another's.
void extend_kernels(std::function<void(Kernels&)> enter);

inline KernelPointer compile(const KernelSpec& spec, const Context& context) {
  return context.kernels->compile(spec, context);
}

}  // namespace meshwork::cpu
