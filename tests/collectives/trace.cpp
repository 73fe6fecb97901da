// Where a rank is, as others read it: also while a device works off collectives behind its thread.
#include "collectives/trace.h"

#include <malloc.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/apart_queues.h"
#include "tests/support/catch.h"

namespace meshwork::trace_test {

using meshwork::test::ApartQueues;

namespace {

struct Subject {
  ApartQueues device;
  Enqueued enqueued{device};
  CollectiveTrace trace;
  std::vector<std::unique_ptr<Mark>> marks;

  Subject() { trace.follow(&enqueued); }
  /// A collective of some operations, of which the device has done none.
  void enqueue(const std::string& label, int operations = 1) {
    const TracedCollective inside(&trace, trace.label(label));
    for (int i = 0; i < operations; ++i) {
      enqueued.add(device.transfers());
      marks.push_back(device.make_mark());
      device.transfers().record(*marks.back());
    }
    trace.note_enqueued(enqueued.started());
  }
  void on_host(const std::string& label) {
    const TracedCollective inside(&trace, trace.label(label));
  }
  /// The device does so many operations.
  void done(std::size_t operations) { marks[operations - 1]->wait(); }
  /// "inside 2: the second", "behind 3".
  [[nodiscard]] std::string where() const {
    const std::uint64_t position = trace.position();
    const std::string number = std::to_string(sequence_of(position));
    return is_inside(position) ? "inside " + number + ": " + trace.last(position, 1).front()
                               : "behind " + number;
  }
};

}  // namespace

TEST_CASE("a rank is inside the first collective that its device has not done") {
  Subject subject;
  CHECK(subject.where() == "behind 0");
  subject.on_host("agreement");
  CHECK(subject.where() == "behind 1");
  subject.enqueue("gradients", 2);
  subject.on_host("wait for gradients");
  subject.enqueue("sums");
  CHECK(subject.where() == "inside 2: gradients");
  subject.done(1);
  CHECK(subject.where() == "inside 2: gradients");
  subject.done(2);
  CHECK(subject.where() == "inside 4: sums");
  subject.on_host("agreement");
  CHECK(subject.where() == "inside 4: sums");
  subject.done(3);
  CHECK(subject.where() == "behind 5");
  {
    const TracedCollective inside(&subject.trace, subject.trace.label("agreement"));
    CHECK(subject.where() == "inside 6: agreement");
  }
  subject.enqueue("gradients");
  CHECK(subject.where() == "inside 7: gradients");
}

TEST_CASE("a trace that follows no device knows its thread alone") {
  Subject subject;
  subject.trace.follow(nullptr);
  subject.enqueue("gradients");
  CHECK(subject.where() == "behind 1");
  subject.device.finish();
}

TEST_CASE("more collectives than are kept leave the earliest that is known") {
  Subject subject;
  for (std::size_t i = 0; i < CollectiveTrace::kept + 2; ++i) subject.enqueue(std::to_string(i));
  CHECK(subject.where() == "inside 3: 2");
  subject.device.finish();
  CHECK(subject.where() == "behind " + std::to_string(CollectiveTrace::kept + 2));
}

TEST_CASE("a passing label is named as long as its collective is among the last ones") {
  CollectiveTrace trace;
  {
    const TracedCollective inside(TracePoint(&trace, "closing of the first file"));
    CHECK(trace.last(trace.position(), 1) == std::vector<std::string>{"closing of the first file"});
  }
  { const TracedCollective inside(&trace, trace.label("a sum")); }
  CHECK(trace.last(trace.position(), 2) ==
        std::vector<std::string>{"a sum", "closing of the first file"});
  {
    const TracedActivity outer(TracePoint(&trace, "reading of a file"));
    { const TracedActivity inner(TracePoint(&trace, "reading of a line")); }
    CHECK(trace.doing() == "reading of a file");
  }
  CHECK(trace.doing().empty());
}

TEST_CASE("passing labels of any number of files take the memory of the last ones") {
  CollectiveTrace trace;
  const auto files = [&](int first, int count, bool with_collective) {
    for (int i = first; i < first + count; ++i) {
      const std::string text = std::string(200, 'x') + std::to_string(i);
      const TracedActivity writes(TracePoint(&trace, "writing of " + text));
      if (with_collective) const TracedCollective inside(TracePoint(&trace, "closing of " + text));
    }
  };
  files(0, 20'000, true);
  const std::size_t before = ::mallinfo2().uordblks;
  files(20'000, 100'000, true);
  files(120'000, 100'000, false);  // on one rank there are none
  const std::size_t after = ::mallinfo2().uordblks;
  CHECK(after < before + (std::size_t{4} << 20));
}

}  // namespace meshwork::trace_test
