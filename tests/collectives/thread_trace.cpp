// Whose trace a thread finds.
#include "collectives/thread_trace.h"

#include <memory>
#include <thread>

#include "tests/support/catch.h"

namespace meshwork::thread_trace_test {

TEST_CASE("a thread finds the last trace of its own, as long as there is one") {
  CollectiveTrace first, second;
  CHECK(ThreadTrace::current() == nullptr);
  {
    const ThreadTrace outer(first);
    auto inner = std::make_unique<ThreadTrace>(second);
    CHECK(ThreadTrace::current() == &second);
    CollectiveTrace* of_other_thread = &first;
    std::thread([&] {
      of_other_thread = ThreadTrace::current();
      inner.reset();
    }).join();
    CHECK(of_other_thread == nullptr);
    CHECK(ThreadTrace::current() == &first);
  }
  CHECK(ThreadTrace::current() == nullptr);
}

}  // namespace meshwork::thread_trace_test
