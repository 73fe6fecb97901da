// How fast calls between ranks are, beside MPI's own messages between the same two ranks:
//
//   mpirun -n 2 build/benchmarks/calls [--largest BYTES] [--only step|latency|idleness|bandwidth]
//
// Latency: a round trip of 8 bytes, by MPI_Send and MPI_Recv, and as a call that is answered with
// what it brought, while calls are under way. After idleness: the first call after 50 ms without any. Bandwidth: one block there
// and nothing back, in MPI from and to the same memory each time. Step: how long rank 0 takes for
// arithmetic and an all-reduce, without a service and with an idle one. Ways take turns, sample by
// sample, and the medians are shown, with the quartiles behind them.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/calls.h"
#include "collectives/error.h"

namespace meshwork {

namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Samples {
  std::vector<double> values;

  [[nodiscard]] double at(std::size_t quarter) {
    std::ranges::sort(values);
    return values[std::min(values.size() * quarter / 4, values.size() - 1)];
  }
  [[nodiscard]] double median() { return at(2); }
  [[nodiscard]] std::string shown() {
    return fmt::format("{:.2f} ({:.2f}-{:.2f})", median(), at(1), at(3));
  }
};

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

class Benchmark {
 public:
  Benchmark(const Communicator& world, std::size_t largest, std::string only)
      : world_(world), largest_(largest), only_(std::move(only)), is_caller_(world.rank() == 0) {}

  void run() {
    if (wants("step")) steps();
    Calls calls(world_);
    calls.define("same", [](int, CallPayload payload) { return payload; });
    calls.define("take", [](int, CallPayload) { return CallPayload{}; });
    calls.open();
    if (wants("latency")) latency(calls);
    if (wants("idleness")) idleness(calls);
    if (wants("bandwidth")) {
      for (std::size_t bytes = 64 << 10; bytes <= largest_; bytes *= 4) bandwidth(calls, bytes);
    }
    calls.close();
  }

 private:
  [[nodiscard]] bool wants(const std::string& what) const { return only_.empty() || only_ == what; }
  void meet() const { check_mpi(MPI_Barrier(world_.native()), "MPI_Barrier"); }
  void send(const void* data, std::size_t bytes, int to) const {
    check_mpi(MPI_Send(data, static_cast<int>(bytes), MPI_BYTE, to, 0, world_.native()),
              "MPI_Send");
  }
  void receive(void* data, std::size_t bytes, int from) const {
    check_mpi(MPI_Recv(data, static_cast<int>(bytes), MPI_BYTE, from, 0, world_.native(),
                       MPI_STATUS_IGNORE),
              "MPI_Recv");
  }
  /// MPI's round trip, of `bytes` there and `back` back, on ranks 0 and 1. In pieces where MPI counts
  /// no further.
  void round_trip(std::vector<std::byte>& buffer, std::size_t bytes, std::size_t back) const {
    constexpr std::size_t most = 1 << 30;
    const auto all = [&](auto&& act, int other) {
      for (std::size_t at = 0; at < bytes; at += most) {
        act(buffer.data() + at, std::min(most, bytes - at), other);
      }
    };
    if (is_caller_) {
      all([&](auto... of) { send(of...); }, 1);
      receive(buffer.data(), back, 1);
    } else if (world_.rank() == 1) {
      all([&](auto... of) { receive(of...); }, 0);
      send(buffer.data(), back, 0);
    }
  }

  void latency(Calls& calls) {
    constexpr int trips = 2000;
    Samples mpi, called;
    std::vector<std::byte> buffer(8);
    for (int sample = -1; sample < 31; ++sample) {
      meet();
      auto start = Clock::now();
      for (int i = 0; i < trips; ++i) round_trip(buffer, 8, 8);
      if (sample >= 0) mpi.values.push_back(microseconds_since(start) / trips);
      meet();
      if (is_caller_) {
        const auto call = [&](int times) {
          for (int i = 0; i < times; ++i) {
            static_cast<void>(calls.call(1, "same", {.front = "12345678"}).get());
          }
        };
        call(100);  // the far rank is awake then
        start = Clock::now();
        call(trips);
        if (sample >= 0) called.values.push_back(microseconds_since(start) / trips);
        send(nullptr, 0, 1);
      } else if (world_.rank() == 1) {
        // Asleep in the kernel, as a rank is that computes on its own core: it takes no turns with
        // the service.
        await_message();
      }
    }
    if (!is_caller_) return;
    say(fmt::format("round trip of 8 bytes, us: MPI {}, call {}: {:.2f} times", mpi.shown(),
                    called.shown(), called.median() / mpi.median()));
  }

  /// Waits for rank 0 without using its core.
  void await_message() const {
    for (;;) {
      int there = 0;
      check_mpi(MPI_Iprobe(0, 0, world_.native(), &there, MPI_STATUS_IGNORE), "MPI_Iprobe");
      if (there != 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    receive(nullptr, 0, 0);
  }

  void idleness(Calls& calls) {
    Samples called;
    for (int sample = 0; sample < 51; ++sample) {
      meet();
      if (is_caller_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        const auto start = Clock::now();
        static_cast<void>(calls.call(1, "same", {.front = "12345678"}).get());
        called.values.push_back(microseconds_since(start));
        send(nullptr, 0, 1);
      } else if (world_.rank() == 1) {
        await_message();
      }
    }
    if (is_caller_) {
      say(fmt::format("first call after 50 ms of idleness, us: {}, the longest {:.1f}",
                      called.shown(), called.values.back()));
    }
  }

  void bandwidth(Calls& calls, std::size_t bytes) {
    const int trips = static_cast<int>(std::max<std::size_t>(1, (16 << 20) / bytes));
    const int samples = bytes > 256 << 20 ? 5 : 15;
    std::vector<std::byte> buffer(bytes, std::byte{1});
    const auto owner = std::make_shared<std::vector<std::byte>>(is_caller_ ? bytes : 0);
    Samples mpi, called;
    for (int sample = -1; sample < samples; ++sample) {
      meet();
      auto start = Clock::now();
      for (int i = 0; i < trips; ++i) round_trip(buffer, bytes, 0);
      if (sample >= 0) mpi.values.push_back(microseconds_since(start) / trips);
      meet();
      start = Clock::now();
      if (is_caller_) {
        for (int i = 0; i < trips; ++i) {
          static_cast<void>(calls.call(1, "take", {.blocks = {{*owner, owner}}}).get());
        }
        if (sample >= 0) called.values.push_back(microseconds_since(start) / trips);
        send(nullptr, 0, 1);
      } else if (world_.rank() == 1) {
        await_message();
      }
    }
    if (!is_caller_) return;
    const auto rate = [&](Samples& of) { return static_cast<double>(bytes) / of.median() / 1e3; };
    say(fmt::format("{:>11} bytes, us: MPI {} ({:.2f} GB/s), call {} ({:.2f} GB/s): {:.2f} of it",
                    bytes, mpi.shown(), rate(mpi), called.shown(), rate(called),
                    rate(called) / rate(mpi)));
  }

  /// Some milliseconds of arithmetic on every rank, and an all-reduce of 1 MiB.
  double step(std::vector<float>& values) const {
    const auto start = Clock::now();
    for (int round = 0; round < 40; ++round) {
      for (float& value : values) value = value * 0.999F + 0.5F;
    }
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT,
                            MPI_MAX, world_.native()),
              "MPI_Allreduce");
    return microseconds_since(start);
  }

  void steps() {
    std::vector<float> values(1 << 18, 1.0F);
    Samples without, with, ratios;
    for (int sample = -1; sample < 41; ++sample) {
      for (const bool serves : {false, true}) {
        std::optional<Calls> calls;
        if (serves) {
          calls.emplace(world_);
          calls->open();
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        meet();
        double sum = 0;
        for (int i = 0; i < 20; ++i) sum += step(values);
        if (sample >= 0) (serves ? with : without).values.push_back(sum / 20);
      }
      if (sample >= 0) ratios.values.push_back(with.values.back() / without.values.back());
    }
    if (!is_caller_) return;
    say(fmt::format("step, us: without calls {}, with idle calls {}; ratio {:.4f} ({:.4f}-{:.4f})",
                    without.shown(), with.shown(), ratios.median(), ratios.at(1), ratios.at(3)));
  }

  const Communicator& world_;
  std::size_t largest_;
  std::string only_;  // of these; "": all
  bool is_caller_;
};

int run(int argc, char** argv) {
  MpiEnvironment environment(&argc, &argv);
  std::size_t largest = 64 << 20;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--largest") {
      largest = std::stoull(argv[i + 1]);
    } else if (option == "--only") {
      only = argv[i + 1];
    } else {
      fail("usage: calls [--largest BYTES] [--only step|latency|idleness|bandwidth]");
    }
  }
  const Communicator world = Communicator::world();
  if (world.size() < 2) fail("this benchmark needs two ranks");
  Benchmark(world, largest, only).run();
  return 0;
}

}  // namespace

}  // namespace meshwork

int main(int argc, char** argv) {
  try {
    return meshwork::run(argc, argv);
  } catch (const std::exception& error) {
    meshwork::abort_job(1, error.what());
  }
}
