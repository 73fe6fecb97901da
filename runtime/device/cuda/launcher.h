// What a kernel needs to be started, and the memory of what was started last.
//
// Errors on a GPU come late: a kernel that reads where it must not makes some later call fail. So
// every start notes its name, and the error says what had been started last.
#pragma once

#include <memory>
#include <source_location>
#include <string>

namespace meshwork::cuda {

/// The name of the kernel that was started last.
struct Activity {
  std::shared_ptr<const std::string> last;
};

struct Launcher {
  void* stream = nullptr;                   // a cudaStream_t
  int processors = 1;                       // of the GPU: its streaming multiprocessors
  std::shared_ptr<const std::string> name;  // of the kernel
  std::shared_ptr<Activity> activity;
};

/// Notes the start and throws `Error` if it was refused. Called behind every launch.
void check_launch(const Launcher& launcher,
                  std::source_location where = std::source_location::current());

}  // namespace meshwork::cuda
