// One primitive of oneDNN with the memory objects that it runs on.
//
// The objects are made once and get their addresses anew in each run. The C interface runs from
// this object's own list of arguments; the C++ one would build a list in every run.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>

#include "runtime/device/cpu/dnnl_version.h"

namespace meshwork::cpu {

class Primitive {
 public:
  static constexpr std::size_t most_arguments = 6;

  Primitive() = default;
  /// `name` is for messages.
  Primitive(std::string name, const dnnl::engine& engine, dnnl::primitive primitive);
  Primitive(Primitive&&) = default;
  Primitive& operator=(Primitive&&) = default;

  /// The next argument: a DNNL_ARG_ number and what its memory looks like. `most_arguments` at
  /// most.
  void add(int argument, const dnnl::memory::desc& description);
  /// Runs on the arguments' addresses, in the order in which they were added, and waits.
  void run(std::span<void* const> addresses);
  void run(std::initializer_list<void*> addresses) { run(std::span(addresses)); }

 private:
  std::string name_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::array<dnnl::memory, most_arguments> memories_;
  std::array<dnnl_exec_arg_t, most_arguments> arguments_{};
  std::size_t count_ = 0;
};

}  // namespace meshwork::cpu
