#include "runtime/device/program.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/pairs.h"
#include "runtime/device/kernels/rows.h"

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "collectives/error.h"
#include "tests/support/catch.h"

namespace meshwork::program_test {

namespace {

/// A kernel that does what the test says.
class Scripted : public Kernel {
 public:
  explicit Scripted(std::function<void(void* const*)> body, std::int64_t workspace = 0)
      : body_(std::move(body)), workspace_(workspace) {}
  void run(void* const* operands) override { body_(operands); }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return workspace_; }

 private:
  std::function<void(void* const*)> body_;
  std::int64_t workspace_;
};

std::unique_ptr<Kernel> scripted(std::function<void(void* const*)> body,
                                 std::int64_t workspace = 0) {
  return std::make_unique<Scripted>(std::move(body), workspace);
}

std::unique_ptr<Kernel> idle(std::int64_t workspace = 0) {
  return scripted([](void* const*) {}, workspace);
}

bool holds(const void* data, std::int64_t bytes, unsigned char tag) {
  const auto* begin = static_cast<const unsigned char*>(data);
  for (std::int64_t i = 0; i < bytes; ++i) {
    if (begin[i] != tag) return false;
  }
  return true;
}

float* floats(void* data) {
  return static_cast<float*>(data);
}

/// The CPU with little memory.
class SmallDevice final : public Device {
 public:
  explicit SmallDevice(std::int64_t bytes)
      : Device({.kind = "small"}), cpu_(make_device({.kind = "cpu"})), free_(bytes) {}
  [[nodiscard]] std::string description() const override { return "small"; }
  [[nodiscard]] Memory allocate(std::int64_t bytes) override {
    if (bytes > free_) fail("{} bytes are not to be had", bytes);
    free_ -= bytes;
    auto memory = std::make_shared<Memory>(cpu_->allocate(bytes));
    return {memory->data(), bytes, [this, bytes, memory](void*) { free_ += bytes; }};
  }
  void copy_in(void* to, const void* from, std::int64_t bytes) override {
    cpu_->copy_in(to, from, bytes);
  }
  void copy_out(void* to, const void* from, std::int64_t bytes) override {
    cpu_->copy_out(to, from, bytes);
  }
  void synchronize() override {}
  [[nodiscard]] DeviceQueues& queues() override { return cpu_->queues(); }
  [[nodiscard]] std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    return cpu_->compile(spec);
  }

 private:
  std::unique_ptr<Device> cpu_;
  std::int64_t free_;
};

}  // namespace

TEST_CASE("a program runs its instructions in order on its buffers") {
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  std::vector<float> input{1, -2, 3};
  const Buffer x = builder.external(input.data(), 12, "x");
  const Buffer y = builder.scratch(12, "y");
  const Buffer z = builder.scratch(12, "z");
  builder.keep(z);
  builder.emit(AffineSpec{3, 2, 0}, {x, y}, "double");
  builder.emit(ActivationSpec{Activation::relu, 3}, {y, z}, "activate");
  builder.emit(AffineSpec{1, 1, 10}, {Operand(z, 8), Operand(z, 8)}, "last");
  Program program = builder.finish();
  CHECK(program.instruction_count() == 3);
  CHECK(program.labels() ==
        std::vector<std::string>{"double: affine 3", "activate: relu 3", "last: affine 1"});
  program.run();
  const float* result = floats(program.address(z));
  CHECK(std::vector<float>(result, result + 3) == std::vector<float>{2, 0, 16});
  CHECK(program.address(x) == input.data());
  input[0] = 5;
  program.run();
  CHECK(result[0] == 10);
}

TEST_CASE("what follows kernels follows those of the device, from and until when it is told") {
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  std::vector<float> values{1};
  const Buffer x = builder.external(values.data(), 4, "x");
  std::vector<float> seen;
  const auto double_it = [&] { builder.emit(AffineSpec{1, 2, 0}, {x, x}, "double"); };
  double_it();
  builder.follow_kernels([&] { return scripted([&](void* const*) { seen.push_back(values[0]); }); },
                         "look");
  double_it();
  builder.emit(idle(), {}, "no kernel of the device");
  double_it();
  builder.follow_kernels([] { return nullptr; }, "nothing");
  double_it();
  builder.follow_kernels();
  double_it();
  Program program = builder.finish();
  program.run();
  CHECK(seen == std::vector<float>{4, 8});
  CHECK(program.labels() == std::vector<std::string>{"double: affine 1", "double: affine 1", "look",
                                                     "no kernel of the device", "double: affine 1",
                                                     "look", "double: affine 1",
                                                     "double: affine 1"});
}

TEST_CASE("no two buffers that live at once overlap, whatever the program") {
  const auto device = make_device({.kind = "cpu"});
  std::mt19937 engine(11);
  for (int round = 0; round < 300; ++round) {
    ProgramBuilder builder(*device);
    ArenaPool pool(*device);
    struct Tracked {
      Buffer buffer;
      std::int64_t bytes;
      unsigned char tag;
      bool preset, kept, written;
    };
    std::vector<Tracked> all;
    const int buffer_count = 1 + static_cast<int>(engine() % 20);
    for (int i = 0; i < buffer_count; ++i) {
      const auto bytes = static_cast<std::int64_t>(engine() % 4 == 0 ? 0 : engine() % 700);
      Tracked tracked{
          builder.scratch(bytes, "b"), bytes, static_cast<unsigned char>(i + 1), engine() % 5 == 0,
          engine() % 5 == 0,           false};
      if (tracked.preset) builder.preset(tracked.buffer);
      if (tracked.kept) builder.keep(tracked.buffer);
      tracked.written = tracked.preset;
      all.push_back(tracked);
    }
    // Each instruction takes a few buffers. The first use of one fills it with its tag, later ones
    // expect to find the tag. Workspaces are filled with 255, which is no tag.
    int damaged = 0;
    const int instruction_count = static_cast<int>(engine() % 30);
    for (int i = 0; i < instruction_count; ++i) {
      struct Use {
        std::int64_t bytes;
        unsigned char tag;
        bool fill;
      };
      std::vector<Use> uses;
      std::vector<Operand> operands;
      for (std::size_t b = 0; b < all.size(); ++b) {
        if (engine() % 6 != 0) continue;
        uses.push_back({all[b].bytes, all[b].tag, !all[b].written});
        operands.emplace_back(all[b].buffer);
        all[b].written = true;
      }
      const auto workspace = static_cast<std::int64_t>(engine() % 3 == 0 ? engine() % 300 : 0);
      const auto body = [uses, workspace, &damaged](void* const* places) {
        if (workspace > 0)
          std::memset(places[uses.size()], 255, static_cast<std::size_t>(workspace));
        for (std::size_t u = 0; u < uses.size(); ++u) {
          if (uses[u].bytes == 0 || !uses[u].fill) continue;
          std::memset(places[u], uses[u].tag, static_cast<std::size_t>(uses[u].bytes));
        }
        for (std::size_t u = 0; u < uses.size(); ++u) {
          if (reinterpret_cast<std::uintptr_t>(places[u]) % 64 != 0) ++damaged;
          if (!holds(places[u], uses[u].bytes, uses[u].tag)) ++damaged;
        }
      };
      builder.emit(scripted(body, workspace), operands, "use");
    }
    Program program = round % 2 == 0 ? builder.finish() : builder.finish(pool);
    for (int run = 0; run < 2; ++run) {
      for (const Tracked& tracked : all) {
        if (!tracked.preset || tracked.bytes == 0) continue;
        std::memset(program.address(tracked.buffer), tracked.tag,
                    static_cast<std::size_t>(tracked.bytes));
      }
      program.run();
      CHECK(damaged == 0);
      for (const Tracked& tracked : all) {
        if (!tracked.kept || !tracked.written || tracked.bytes == 0) continue;
        CHECK(holds(program.address(tracked.buffer), tracked.bytes, tracked.tag));
      }
    }
    CHECK(program.arena().bytes <= program.arena().bytes_if_unshared);
  }
}

TEST_CASE("buffers of a chain share the memory of two") {
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  Buffer previous = builder.scratch(4096, "0");
  builder.emit(idle(), {previous}, "start");
  for (int i = 1; i < 10; ++i) {
    const Buffer next = builder.scratch(4096, std::to_string(i));
    builder.emit(idle(), {previous, next}, "link");
    previous = next;
  }
  const Program program = builder.finish();
  CHECK(program.arena().bytes == 2 * 4096);
  CHECK(program.arena().bytes_if_unshared == 10 * 4096);
}

TEST_CASE("a result takes the place of an input that its kernel reads last") {
  const auto device = make_device({.kind = "cpu"});
  constexpr std::int64_t count = 1024, bytes = 4 * count;
  ProgramBuilder builder(*device);
  const Buffer x = builder.scratch(bytes, "x"), y = builder.scratch(bytes, "y"),
               z = builder.scratch(bytes, "z");
  const auto arena_bytes = [&] { return builder.plan_arena().bytes; };
  const AffineSpec twice{count, 2, 1};

  SECTION("however many follow each other") {
    builder.preset(x);
    builder.keep(z);
    builder.emit(twice, {x, y}, "y");
    builder.emit(ActivationSpec{Activation::relu, count}, {y, z}, "z");
    Program program = builder.finish();
    CHECK(program.arena().bytes == bytes);
    CHECK(program.arena().bytes_if_unshared == 3 * bytes);
    auto* values = static_cast<float*>(program.address(x));
    for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i - 512);
    program.run();
    values = static_cast<float*>(program.address(z));
    CHECK(values[0] == 0);
    CHECK(values[count - 1] == 2 * 511 + 1);
  }
  SECTION("and of two the one that dies") {
    builder.emit(twice, {x, x}, "x");
    builder.emit(twice, {y, y}, "y");
    builder.emit(PairSpec{PairFunction::difference, count}, {x, y, z}, "z");
    builder.emit(PairSpec{PairFunction::product, count}, {x, z, z}, "z");
    CHECK(arena_bytes() == 2 * bytes);
  }
  SECTION("but not of one that is read afterwards") {
    builder.emit(twice, {x, y}, "y");
    builder.emit(PairSpec{PairFunction::difference, count}, {y, x, z}, "z");
    builder.emit(PairSpec{PairFunction::product, count}, {x, z, z}, "z");
    CHECK(arena_bytes() == 2 * bytes);
  }
  SECTION("but not of one that is kept") {
    builder.keep(x);
    builder.emit(twice, {x, y}, "y");
    CHECK(arena_bytes() == 2 * bytes);
  }
  SECTION("but not of one that is a part of a buffer") {
    const Buffer wide = builder.scratch(2 * bytes, "wide");
    builder.emit(twice, {Operand(wide).after(count), y}, "y");
    CHECK(arena_bytes() == 3 * bytes);
  }
  SECTION("but not where it was written before") {
    builder.emit(twice, {y, y}, "y");
    builder.emit(twice, {x, y}, "y");
    CHECK(arena_bytes() == 2 * bytes);
  }
  SECTION("but not where the kernel reads other elements of it") {
    builder.emit(SoftmaxGradientSpec{1, count, true}, {x, y, z}, "z");
    CHECK(arena_bytes() == 3 * bytes);
  }
}

TEST_CASE("a buffer that nothing uses takes no memory, and one that is kept does") {
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  static_cast<void>(builder.scratch(1000, "unused"));
  const Buffer kept = builder.scratch(64, "kept");
  builder.keep(kept);
  const Program program = builder.finish();
  CHECK(program.arena().bytes == 64);
  CHECK(program.address(kept) != nullptr);
}

TEST_CASE("an empty program runs") {
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  Program program = builder.finish();
  program.run();
  CHECK(program.instruction_count() == 0);
  CHECK(program.arena().bytes == 0);
}

TEST_CASE("a program that is measured tells what each instruction took and has to do") {
  class Slow final : public Kernel {
   public:
    void run(void* const*) override {
      const auto begin = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(2)) {
      }
    }
  };
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  std::vector<float> memory(8);
  const Buffer x = builder.external(memory.data(), 32, "x");
  builder.emit(AffineSpec{8, 2, 0}, {x, x}, "double");
  builder.emit(std::make_unique<Slow>(), {}, "something slow");
  Program program = builder.finish();
  REQUIRE(program.works().size() == 2);
  CHECK(program.works()[0]->bytes == 64);
  CHECK_FALSE(program.works()[1]);
  program.run();
  CHECK(program.measured().seconds.empty());
  program.measure();
  for (int run = 0; run < 3; ++run) program.run();
  CHECK(program.measured().runs == 3);
  REQUIRE(program.measured().seconds.size() == 2);
  CHECK(program.measured().seconds[0] > 0);
  CHECK(program.measured().seconds[1] >= 0.006);
  program.measure();
  CHECK(program.measured().runs == 0);
  CHECK(program.measured().seconds[1] == 0);
}

TEST_CASE("a program knows which instruction starts what another ends") {
  class Ending final : public Kernel {
   public:
    explicit Ending(const Kernel* begun_by) : begun_by_(begun_by) {}
    void run(void* const*) override {}
    [[nodiscard]] const Kernel* begun_by() const override { return begun_by_; }

   private:
    const Kernel* begun_by_;
  };
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  auto start = idle();
  auto end = std::make_unique<Ending>(start.get());
  builder.emit(idle(), {}, "before");
  builder.emit(std::move(start), {}, "start");
  builder.emit(idle(), {}, "between");
  builder.emit(std::move(end), {}, "end");
  const Program program = builder.finish();
  CHECK(program.beginning_of(0) == 0);
  CHECK(program.beginning_of(1) == 1);
  CHECK(program.beginning_of(2) == 2);
  CHECK(program.beginning_of(3) == 1);
}

TEST_CASE("a kernel's error begins with its label") {
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  builder.emit(idle(), {}, "first");
  builder.emit(scripted([](void* const*) { throw std::runtime_error("out of luck"); }), {},
               "d1 forward");
  Program program = builder.finish();
  CHECK_THROWS_AS(program.run(), Error);
  CHECK_THROWS_WITH(program.run(), "d1 forward: out of luck");
}

TEST_CASE("a kernel that cannot be compiled is an error that begins with its label") {
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  CHECK_THROWS_WITH(builder.emit(ActivationSpec{Activation::softmax, 3}, {}, "a1"),
                    "a1: softmax 3: activation: softmax is not elementwise");
}

TEST_CASE("an operand outside its buffer, or of no buffer, is an error that names it") {
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  const Buffer b = builder.scratch(100, "x");
  CHECK_THROWS_WITH(builder.emit(idle(), {Operand(b, 101)}, "use"),
                    Catch::Contains("use: an operand lies 101 bytes into x, which has 100"));
  CHECK_THROWS_WITH(builder.emit(idle(), {Buffer{7}}, "use"),
                    Catch::Contains("use names buffer 7"));
  CHECK_THROWS_WITH(builder.emit(idle(), {Operand()}, "use"),
                    Catch::Contains("use names buffer -1"));
}

TEST_CASE("the address of a buffer that may be overwritten is refused") {
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  const Buffer b = builder.scratch(100, "x");
  builder.emit(idle(), {b}, "use");
  const Program program = builder.finish();
  CHECK_THROWS_WITH(static_cast<void>(program.address(b)),
                    Catch::Contains("neither kept nor preset"));
}

TEST_CASE("programs of a pool share its block, and stay valid when it grows") {
  const auto device = make_device({.kind = "cpu"});
  ArenaPool pool(*device);
  // out = 2 in + 1
  struct Made {
    Program program;
    Buffer in, out;
  };
  const auto make = [&](std::int64_t count) {
    ProgramBuilder builder(*device);
    const Buffer in = builder.scratch(count * 4, "in"),
                 middle = builder.scratch(count * 4, "middle"),
                 out = builder.scratch(count * 4, "out");
    builder.preset(in);
    builder.keep(out);
    builder.emit(AffineSpec{count, 2, 0}, {in, middle}, "double");
    builder.emit(AffineSpec{count, 1, 1}, {middle, out}, "add");
    return Made{builder.finish(pool), in, out};
  };
  const auto check = [](Made& made, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      floats(made.program.address(made.in))[i] = static_cast<float>(i);
    made.program.run();
    bool right = true;
    for (std::int64_t i = 0; i < count; ++i) {
      right = right && floats(made.program.address(made.out))[i] == static_cast<float>(2 * i + 1);
    }
    return right;
  };
  Made small = make(10);
  const std::int64_t before = pool.bytes();
  CHECK(before == small.program.arena().bytes);
  CHECK(check(small, 10));
  Made tiny = make(3);
  CHECK(pool.bytes() == before);
  Made large = make(100000);
  CHECK(pool.bytes() == large.program.arena().bytes);
  CHECK(check(small, 10));
  CHECK(check(large, 100000));
  CHECK(check(tiny, 3));
  {
    Made gone = make(200000);
    CHECK(check(gone, 200000));
  }
  Made largest = make(300000);
  Program moved = std::move(small.program);
  small.program = std::move(moved);
  CHECK(check(small, 10));
  CHECK(check(largest, 300000));
}

TEST_CASE("a pool grows without room for two blocks, and keeps its programs where it cannot grow") {
  SmallDevice device(1000);
  ArenaPool pool(device);
  const auto make = [&](std::int64_t bytes) {
    ProgramBuilder builder(device);
    const Buffer buffer = builder.scratch(bytes, "x");
    builder.keep(buffer);
    builder.emit(scripted([bytes](void* const* operands) {
                   std::memset(operands[0], 7, static_cast<std::size_t>(bytes));
                 }),
                 {buffer}, "write");
    return std::pair{builder.finish(pool), buffer};
  };
  auto [small, in_small] = make(600);
  auto [larger, in_larger] = make(900);
  CHECK_THROWS_WITH(static_cast<void>(make(2000)), Catch::Contains("not to be had"));
  CHECK(pool.bytes() == larger.arena().bytes);
  larger.run();
  CHECK(holds(larger.address(in_larger), 900, 7));
  small.run();
  CHECK(holds(small.address(in_small), 600, 7));
}

TEST_CASE("a pool that grows takes its earlier programs along") {
  const auto device = make_device({.kind = "cpu"});
  ArenaPool pool(*device);
  const auto make = [&](std::int64_t bytes) {
    ProgramBuilder builder(*device);
    builder.keep(builder.scratch(bytes, "only"));
    return builder.finish(pool);
  };
  const Buffer only{0};
  const Program small = make(64);
  const Program large = make(8 * 1024 * 1024);
  // Each has one buffer, which lies at the beginning of the block.
  CHECK(small.address(only) == large.address(only));
}

TEST_CASE("a program outlives its pool") {
  const auto device = make_device({.kind = "cpu"});
  auto pool = std::make_unique<ArenaPool>(*device);
  ProgramBuilder builder(*device);
  const Buffer b = builder.scratch(400, "b");
  builder.keep(b);
  builder.emit(ZeroSpec{400}, {b}, "zero");
  Program program = builder.finish(*pool);
  pool.reset();
  program.run();
  CHECK(holds(program.address(b), 400, 0));
}

TEST_CASE("a builder is empty after it has finished and can be used again") {
  const auto device = make_device({.kind = "cpu"});
  ProgramBuilder builder(*device);
  builder.emit(idle(), {builder.scratch(8, "a")}, "one");
  const Program first = builder.finish();
  const Buffer again = builder.scratch(8, "b");
  CHECK(again.id == 0);
  builder.emit(idle(), {again}, "two");
  CHECK(builder.finish().labels() == std::vector<std::string>{"two"});
  CHECK(first.labels() == std::vector<std::string>{"one"});
}

}  // namespace meshwork::program_test
