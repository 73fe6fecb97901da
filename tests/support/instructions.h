// Counts the instructions that a thread executes, by stepping through them one by one.
//
// A process beside this one does (ptrace), from one breakpoint in the thread to the next: the
// number is exact and the same on every run, on a loaded machine and in a virtual one, where the
// processor's own counters are not to be had; and it needs no program of its own, as callgrind
// does, which knows no AVX-512. A step takes some microseconds, so one counts what is short and
// lets the rest run: `pass_over` does not count what it calls. Of an instruction that repeats
// itself (rep movs, which copies large blocks) each round counts.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace meshwork::test {

class InstructionCounter {
 public:
  InstructionCounter() {
#if !defined(__x86_64__)
    why_not_ = "instructions are counted on x86-64 only";
#else
    void* const memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      why_not_ = fmt::format("mmap: {}", std::strerror(errno));
      return;
    }
    shared_ = static_cast<Shared*>(memory);
    const auto thread = static_cast<pid_t>(::syscall(SYS_gettid));
    stepper_ = ::fork();
    if (stepper_ == 0) step(thread);
    (void)::prctl(PR_SET_PTRACER, static_cast<unsigned long>(stepper_));
    shared_->may_begin = true;
    while (shared_->state == waiting) {
    }
    if (shared_->state == refused) {
      why_not_ = fmt::format("ptrace: {}", std::strerror(shared_->error));
    }
#endif
  }
  ~InstructionCounter() {
    if (stepper_ > 0) {
      ::kill(stepper_, SIGKILL);
      ::waitpid(stepper_, nullptr, 0);
    }
    if (shared_ != nullptr) ::munmap(shared_, sizeof(Shared));
  }
  InstructionCounter(const InstructionCounter&) = delete;
  InstructionCounter& operator=(const InstructionCounter&) = delete;

  /// Why nothing can be counted; "" if it can.
  [[nodiscard]] const std::string& why_not() const {
    return why_not_;
  }

  /// From here to `end` this thread's instructions are counted, a few of the counting among them.
  void begin() {
    before_ = shared_->count;
    counts_ = true;
    toggle();
  }
  [[nodiscard]] std::int64_t end() {
    toggle();
    counts_ = false;
    return shared_->count - before_;
  }

  /// Does `work` without counting it.
  template <class Work>
  void pass_over(const Work& work) {
    if (counts_) toggle();
    work();
    if (counts_) toggle();
  }

 private:
  enum State : int { waiting, refused, ready };
  struct Shared {
    volatile bool may_begin;
    volatile State state;
    volatile int error;
    volatile std::int64_t count;
  };

  static void toggle() {
#if defined(__x86_64__)
    asm volatile("int3" ::: "memory");
#endif
  }

  /// The process beside: steps from every other breakpoint on to the next.
  [[noreturn]] void step(pid_t thread) const {
    for (const int number : {SIGTERM, SIGINT, SIGSEGV}) std::signal(number, SIG_DFL);
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (!shared_->may_begin) {
    }
    if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
      shared_->error = errno;
      shared_->state = refused;
      ::_exit(0);
    }
    shared_->state = ready;
    bool steps = false;
    for (;;) {
      int status = 0;
      if (::waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status)) ::_exit(0);
      int deliver = 0;
      if (WSTOPSIG(status) != SIGTRAP) {
        deliver = WSTOPSIG(status);
      } else if (status >> 16 == 0) {
        siginfo_t information{};
        (void)::ptrace(PTRACE_GETSIGINFO, thread, nullptr, &information);
        if (information.si_code == SI_KERNEL) {
          steps = !steps;  // a breakpoint
        } else {
          shared_->count = shared_->count + 1;
        }
      }
      (void)::ptrace(steps ? PTRACE_SINGLESTEP : PTRACE_CONT, thread, nullptr,
                     reinterpret_cast<void*>(static_cast<std::intptr_t>(deliver)));
    }
  }

  Shared* shared_ = nullptr;
  pid_t stepper_ = -1;
  bool counts_ = false;
  std::int64_t before_ = 0;
  std::string why_not_;
};

}  // namespace meshwork::test
