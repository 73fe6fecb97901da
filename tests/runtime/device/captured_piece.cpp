// What of a program is captured together, and what the host has to do with it.
#include "runtime/device/captured_piece.h"

#include <memory>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/body_kernel.h"
#include "tests/support/apart_device.h"
#include "tests/support/apart_queues.h"
#include "tests/support/catch.h"

namespace meshwork::captured_piece_test {

std::ostream& operator<<(std::ostream& out, const PieceRange& piece) {
  return out << piece.begin << " to " << piece.end << (piece.captured ? ", captured" : "");
}

namespace {

/// A collective that starts as much in the queue of transfers as the device is to do, or that the
/// host has a part in.
class Collective final : public Kernel {
 public:
  Collective(bool is_enqueued, const Kernel* begun_by = nullptr, DeviceQueues* queues = nullptr)
      : is_enqueued_(is_enqueued), begun_by_(begun_by), queues_(queues) {
    if (queues == nullptr) return;
    before_ = queues->make_mark();
    behind_ = queues->make_mark();
  }
  void run(void* const* operands) override {
    ++runs;
    queues_->kernels().record(*before_);
    queues_->transfers().wait_for(*before_);
    queues_->transfers().start_count(*static_cast<std::uint64_t*>(operands[0]));
    queues_->transfers().record(*behind_);
    queues_->kernels().wait_for(*behind_);
  }
  [[nodiscard]] bool is_enqueued() const override { return is_enqueued_; }
  [[nodiscard]] const Kernel* begun_by() const override { return begun_by_; }
  void note_start() override { ++noted; }

  int runs = 0, noted = 0;

 private:
  bool is_enqueued_;
  const Kernel* begun_by_;
  DeviceQueues* queues_;
  std::unique_ptr<Mark> before_, behind_;
};

/// Instructions from a picture: "k" a kernel of the device, "c" a collective that is enqueued, "h"
/// one that the host has a part in, "(" and ")" the start and the end of one that is enqueued.
struct Picture {
  explicit Picture(const std::string& letters) {
    std::vector<const Kernel*> begun;
    for (const char letter : letters) {
      const Kernel* of = nullptr;
      if (letter == ')') {
        of = begun.front();  // what is started first is waited for first
        begun.erase(begun.begin());
      }
      kernels.push_back(std::make_unique<Collective>(letter != 'h' && letter != 'k', of));
      if (letter == '(') begun.push_back(kernels.back().get());
      instructions.push_back({kernels.back().get(), nullptr, nullptr, letter == 'k'});
    }
  }
  std::vector<std::unique_ptr<Collective>> kernels;
  std::vector<PieceInstruction> instructions;
};

/// "[kc]h[kk]": what is captured together stands in brackets.
std::string cut(const std::string& letters) {
  const Picture picture(letters);
  std::string text;
  for (const PieceRange& piece : pieces_of(picture.instructions)) {
    const std::string inside = letters.substr(piece.begin, piece.end - piece.begin);
    text += piece.captured ? "[" + inside + "]" : inside;
  }
  return text;
}

}  // namespace

TEST_CASE("a step all of whose collectives are enqueued is one piece") {
  CHECK(cut("kckkck") == "[kckkck]");
  CHECK(cut("k(k(k)kc)k") == "[k(k(k)kc)k]");
}

TEST_CASE("a collective that the host has a part in cuts, n of them into n + 1 pieces") {
  CHECK(cut("kkhkkhkk") == "[kk]h[kk]h[kk]");
  CHECK(cut("kckhkck") == "[kck]h[kck]");
}

TEST_CASE("a kernel alone is not captured, and a collective alone is, since it is on other ranks") {
  CHECK(cut("khk") == "khk");
  CHECK(cut("hch") == "h[c]h");
  CHECK(cut("hkch") == "h[kc]h");
}

TEST_CASE("what is started and waited for is captured with both ends or not at all") {
  CHECK(cut("kk(khk)kk") == "[kk](khk)[kk]");
  // Nor is what comes between, which lies in one queue with it.
  CHECK(cut("kk(kckhk)kkck") == "[kk](kckhk)[kkck]");
  // One that reaches into another takes it along.
  CHECK(cut("k(kh(k)k)kk(k)") == "k(kh(k)k)[kk(k)]");
  CHECK(cut("hk(kk)kh") == "h[k(kk)k]h");
}

TEST_CASE("a piece is captured once, and what the host has to know of is told at each start") {
  const auto device = test::make_apart_device_with_streams({});
  auto& queues = dynamic_cast<test::ApartQueues&>(device->queues());
  const Memory count = queues.allocate_pinned(8);
  const auto& counted = *static_cast<std::uint64_t*>(count.data());
  void* operand = count.data();
  Collective collective(true, nullptr, &queues);
  const std::string first = "first", last = "last";
  CapturedPiece piece(
      *device, {{&collective, &operand, &first, false}, {&collective, &operand, &last, false}});
  CHECK(piece.label() == "from first to last");
  for (int run = 1; run <= 3; ++run) {
    piece.run(nullptr);
    CHECK(queues.captures() == 1);
    CHECK(collective.runs == 2);
    CHECK(collective.noted == 2 * run);
    // The host waits for nothing.
    CHECK(counted == 0);
  }
  device->synchronize();
  CHECK(counted == 6);
}

TEST_CASE("what cannot be captured here or on another rank is started one by one") {
  const auto device = test::make_apart_device_with_streams({});
  auto& queues = dynamic_cast<test::ApartQueues&>(device->queues());
  int runs = 0;
  const auto stubborn = make_kernel([&](void* const*) {
    if (queues.is_capturing()) fail("not while it is captured");
    ++runs;
  });
  const std::string label = "it";
  CapturedPiece kernels(
      *device, {{stubborn.get(), nullptr, &label, true}, {stubborn.get(), nullptr, &label, true}});
  for (int run = 1; run <= 2; ++run) {
    kernels.run(nullptr);
    CHECK(runs == 2 * run);
  }
  // With a collective the ranks agree, of kernels alone they are not asked.
  int asked = 0;
  CapturedPiece collective(*device, {{stubborn.get(), nullptr, &label, false}}, [&](bool here) {
    ++asked;
    CHECK_FALSE(here);
    return here;
  });
  for (int run = 1; run <= 2; ++run) {
    collective.run(nullptr);
    CHECK(runs == 4 + run);
  }
  CHECK(asked == 1);
}

TEST_CASE("a collective that another rank cannot capture is started by itself") {
  const auto device = test::make_apart_device_with_streams({});
  const Memory count = device->queues().allocate_pinned(8);
  void* operand = count.data();
  Collective collective(true, nullptr, &device->queues());
  const std::string label = "it";
  CapturedPiece piece(*device, {{&collective, &operand, &label, false}}, [](bool here) {
    CHECK(here);
    return false;
  });
  for (int run = 1; run <= 3; ++run) {
    piece.run(nullptr);
    CHECK(collective.runs == run + 1);
    CHECK(collective.noted == 0);
  }
  device->synchronize();
  CHECK(*static_cast<std::uint64_t*>(count.data()) == 3);
}

TEST_CASE("what was started is ended where an error ends its capturing") {
  const auto device = test::make_apart_device_with_streams({});
  auto& queues = dynamic_cast<test::ApartQueues&>(device->queues());
  const Memory count = queues.allocate_pinned(8);
  void* operand = count.data();
  Collective first(true, nullptr, &queues), second(true, nullptr, &queues);
  Collective end_of_first(true, &first, &queues), end_of_second(true, &second, &queues);
  const auto stubborn = make_kernel([&](void* const*) {
    if (queues.is_capturing()) fail("not while it is captured");
  });
  const std::string label = "it";
  CapturedPiece piece(*device, {{&first, &operand, &label, false},
                                {stubborn.get(), nullptr, &label, true},
                                {&second, &operand, &label, false},
                                {&end_of_first, &operand, &label, false},
                                {&end_of_second, &operand, &label, false}});
  piece.run(nullptr);
  CHECK(first.runs == 2);
  CHECK(end_of_first.runs == 2);
  CHECK(second.runs == 1);
  CHECK(end_of_second.runs == 1);
}

TEST_CASE("on a device that gains nothing by capturing a piece runs as it is written") {
  const auto device = make_device({.kind = "cpu"});
  std::uint64_t counted = 0;
  void* operand = &counted;
  Collective collective(true, nullptr, &device->queues());
  const std::string label = "it";
  CapturedPiece piece(*device, {{&collective, &operand, &label, false}});
  for (int run = 0; run < 3; ++run) piece.run(nullptr);
  CHECK(collective.runs == 3);
  CHECK(collective.noted == 0);
  CHECK(counted == 3);
}

}  // namespace meshwork::captured_piece_test
