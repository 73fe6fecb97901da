#include "runtime/device/cpu/reordered_primitive.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace meshwork::cpu {

namespace {

using dnnl::memory;

std::int64_t bytes_of(const memory::desc& format) {
  return (static_cast<std::int64_t>(format.get_size()) + 63) / 64 * 64;
}

}  // namespace

dnnl::primitive_attr with_user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

ReorderedPrimitive::ReorderedPrimitive(const std::string& name, const dnnl::engine& engine,
                                       const dnnl::primitive& primitive,
                                       const std::vector<Argument>& arguments,
                                       const memory::desc& scratchpad)
    : primitive_(name, engine, primitive), operand_count_(arguments.size()) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    primitive_.add(argument.number, argument.of_primitive);
    if (argument.of_program != argument.of_primitive) {
      (argument.written ? after_ : before_).push_back(reordering(name, engine, i, argument));
    }
  }
  primitive_.add(DNNL_ARG_SCRATCHPAD, scratchpad);
  scratchpad_at_ = bytes_;
  bytes_ += bytes_of(scratchpad);
}

void ReorderedPrimitive::run(void* const* operands) {
  std::array<void*, Primitive::most_arguments> addresses{};
  std::copy_n(operands, operand_count_, addresses.begin());
  std::byte* workspace = bytes_ > 0 ? static_cast<std::byte*>(operands[operand_count_]) : nullptr;
  addresses[operand_count_] = bytes_ > 0 ? workspace + scratchpad_at_ : nullptr;
  for (Reordering& one : before_) {
    addresses[one.operand] = workspace + one.at;
    one.primitive.run({operands[one.operand], workspace + one.at, workspace + one.scratchpad_at});
  }
  for (const Reordering& one : after_) addresses[one.operand] = workspace + one.at;
  primitive_.run(std::span(addresses).first(operand_count_ + 1));
  for (Reordering& one : after_) {
    one.primitive.run({workspace + one.at, operands[one.operand], workspace + one.scratchpad_at});
  }
}

ReorderedPrimitive::Reordering ReorderedPrimitive::reordering(const std::string& name,
                                                              const dnnl::engine& engine,
                                                              std::size_t operand,
                                                              const Argument& argument) {
  const memory::desc& from = argument.written ? argument.of_primitive : argument.of_program;
  const memory::desc& to = argument.written ? argument.of_program : argument.of_primitive;
  const dnnl::reorder::primitive_desc description(engine, from, engine, to, with_user_scratchpad());
  const memory::desc scratchpad = description.scratchpad_desc();
  Primitive primitive(fmt::format("the reordering of operand {} of {}", operand, name), engine,
                      dnnl::reorder(description));
  primitive.add(DNNL_ARG_FROM, from);
  primitive.add(DNNL_ARG_TO, to);
  primitive.add(DNNL_ARG_SCRATCHPAD, scratchpad);
  const std::int64_t at = bytes_;
  const std::int64_t scratchpad_at = at + bytes_of(argument.of_primitive);
  bytes_ = scratchpad_at + bytes_of(scratchpad);
  return {operand, std::move(primitive), at, scratchpad_at};
}

}  // namespace meshwork::cpu
