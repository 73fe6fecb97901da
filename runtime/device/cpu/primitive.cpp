#include "runtime/device/cpu/primitive.h"

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include <utility>

#include "collectives/error.h"

namespace meshwork::cpu {

namespace {

void check_dnnl(dnnl_status_t status, const std::string& name) {
  if (status != dnnl_success) {
    fail("oneDNN failed in {} with status {}: {}", name, static_cast<int>(status),
         dnnl_status2str(status));
  }
}

}  // namespace

Primitive::Primitive(std::string name, const dnnl::engine& engine, dnnl::primitive primitive)
    : name_(std::move(name)), engine_(engine), stream_(engine), primitive_(std::move(primitive)) {}

void Primitive::add(int argument, const dnnl::memory::desc& description) {
  if (count_ == most_arguments) internal_error(fmt::format("{} has too many arguments", name_));
  memories_[count_] = dnnl::memory(description, engine_, DNNL_MEMORY_NONE);
  arguments_[count_] = {argument, memories_[count_].get()};
  ++count_;
}

void Primitive::run(std::span<void* const> addresses) {
  if (addresses.size() != count_) {
    internal_error(
        fmt::format("{} runs on {} addresses for {} arguments", name_, addresses.size(), count_));
  }
  std::size_t next = 0;
  for (void* address : addresses) {
    check_dnnl(dnnl_memory_set_data_handle(arguments_[next++].memory, address), name_);
  }
  check_dnnl(dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(count_),
                                    arguments_.data()),
             name_);
  check_dnnl(dnnl_stream_wait(stream_.get()), name_);
}

}  // namespace meshwork::cpu
