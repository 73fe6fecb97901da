// How fast the collectives are, beside those of MPI, over as many ranks as are launched:
//
//   mpirun -n 2 build/benchmarks/collectives [--largest BYTES] [--only OPERATION] [--json FILE]
//
// Three ways take turns, sample by sample: MPI's collectives; shared memory with private buffers;
// and shared memory with buffers that the transport gave. Before a sample every rank writes its
// buffers anew, so that they are dirty in its own cache, and the ranks meet. A sample is as long as
// on the slowest rank, and it is a few calls for sizes of microseconds. The table shows the median
// sample, the quartiles behind it, and how many times as long MPI takes. Sizes are those of the
// whole buffer of a rank. Where other programs use the machine, only the ratios say anything.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "collectives/transport.h"

namespace meshwork {

namespace {

struct Times {
  double lower = 0, median = 0, upper = 0;  // microseconds
};

Times quartiles(std::vector<double> samples) {
  std::ranges::sort(samples);
  const auto at = [&](std::size_t part) { return samples[samples.size() * part / 4]; };
  return {at(1), at(2), at(3)};
}

/// One way of one operation on `bytes` bytes a rank.
struct Way {
  std::function<void()> dirty;
  std::function<void()> run;
  std::vector<double> samples;  // microseconds a call
};

class Benchmark {
 public:
  Benchmark(const Communicator& world, std::int64_t largest, std::string only)
      : world_(world),
        largest_(largest),
        only_(std::move(only)),
        mpi_(make_transport("mpi")),
        shared_(make_transport("shared")),
        private_send_(mpi_->allocate(world, largest)),
        private_receive_(mpi_->allocate(world, largest)),
        send_(shared_->allocate(world, largest)),
        receive_(shared_->allocate(world, largest)) {}

  /// The rows as JSON objects.
  std::vector<std::string> run() {
    struct Operation {
      std::string name;
      std::function<Collective(std::int64_t count)> collective;
      Use use = Use::at_once;
    };
    const auto blocks = [this](std::int64_t count) {
      const auto parts = static_cast<std::size_t>(world_.size());
      counts_.assign(parts, count / world_.size());
      offsets_.resize(parts);
      for (std::size_t part = 0; part < parts; ++part) {
        offsets_[part] = static_cast<std::int64_t>(part) * counts_[part];
      }
    };
    constexpr ElementType type = ElementType::float32;
    const auto sum = [](std::int64_t count) { return AllReduce{type, Reduction::sum, count}; };
    const std::vector<Operation> operations{
        {"all_reduce", sum},
        {"started", sum, Use::started},
        {"reduce_scatter",
         [&](std::int64_t) {
           return ReduceScatter{type, counts_};
         }},
        {"all_gather",
         [&](std::int64_t) {
           return AllGather{type, counts_, offsets_};
         }},
        {"all_to_all",
         [&](std::int64_t) {
           return AllToAll{type, counts_, offsets_, counts_, offsets_};
         }},
        {"broadcast", [&](std::int64_t count) {
           return Broadcast{type, count, 0};
         }}};
    std::vector<std::string> rows;
    show(fmt::format("{:<15}{:>10}  {:>28}  {:>28}{:>7}  {:>28}{:>7}", "operation", "bytes",
                     "MPI, us", "shared, private buffers", "ratio", "shared, in place", "ratio"));
    for (const auto& [name, collective, use] : operations) {
      if (!only_.empty() && name != only_) continue;
      for (std::int64_t bytes = 4096; bytes <= largest_; bytes *= 4) {
        const std::int64_t count = bytes / 4;
        blocks(count);
        const auto way = [&](Transport& by, const TransportMemory& send,
                             const TransportMemory& receive) {
          auto* from = reinterpret_cast<float*>(send.data());
          auto* to = reinterpret_cast<float*>(receive.data());
          const std::shared_ptr<CompiledCollective> compiled =
              by.compile(world_, collective(count), use);
          const bool in_place = is_in_place(collective(count));
          return Way{[=] {
                       std::fill_n(from, count, 1.0F);
                       std::fill_n(to, count, 0.0F);
                     },
                     [=] { compiled->run(from, in_place ? from : to); },
                     {}};
        };
        std::vector<Way> ways{way(*mpi_, private_send_, private_receive_),
                              way(*shared_, private_send_, private_receive_),
                              way(*shared_, send_, receive_)};
        measure(ways, bytes);
        rows.push_back(report(name, bytes, ways));
      }
    }
    return rows;
  }

 private:
  void show(const std::string& line) const {
    if (world_.rank() != 0) return;
    std::puts(line.c_str());
    std::fflush(stdout);
  }

  void measure(std::vector<Way>& ways, std::int64_t bytes) {
    // Large ones are few; all calls of a small sample together are long against the clock.
    const int calls = bytes <= 64 << 10 ? 20 : 1;
    const int samples = bytes <= 1 << 20 ? 41 : bytes <= 16 << 20 ? 15 : 7;
    for (int sample = -1; sample < samples; ++sample) {
      for (Way& way : ways) {
        way.dirty();
        check_mpi(MPI_Barrier(world_.native()), "MPI_Barrier");
        const auto start = std::chrono::steady_clock::now();
        for (int call = 0; call < calls; ++call) way.run();
        double microseconds =
            std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
                .count() /
            calls;
        check_mpi(
            MPI_Allreduce(MPI_IN_PLACE, &microseconds, 1, MPI_DOUBLE, MPI_MAX, world_.native()),
            "MPI_Allreduce");
        if (sample >= 0) way.samples.push_back(microseconds);  // the first warms up
      }
    }
  }

  std::string report(const std::string& name, std::int64_t bytes, const std::vector<Way>& ways) {
    std::vector<Times> times;
    for (const Way& way : ways) times.push_back(quartiles(way.samples));
    const auto shown = [](const Times& of) {
      return fmt::format("{:.2f} ({:.2f}-{:.2f})", of.median, of.lower, of.upper);
    };
    show(fmt::format("{:<15}{:>10}  {:>28}  {:>28}{:>7.2f}  {:>28}{:>7.2f}", name, bytes,
                     shown(times[0]), shown(times[1]), times[0].median / times[1].median,
                     shown(times[2]), times[0].median / times[2].median));
    std::string row =
        fmt::format(R"({{"operation": "{}", "ranks": {}, "bytes": {})", name, world_.size(), bytes);
    constexpr const char* names[] = {"mpi", "shared_private", "shared_in_place"};
    for (std::size_t i = 0; i < times.size(); ++i) {
      row += fmt::format(R"(, "{}_us": [{:.3f}, {:.3f}, {:.3f}])", names[i], times[i].lower,
                         times[i].median, times[i].upper);
    }
    return row + "}";
  }

  const Communicator& world_;
  std::int64_t largest_;
  std::string only_;
  std::unique_ptr<Transport> mpi_;
  std::unique_ptr<Transport> shared_;
  TransportMemory private_send_, private_receive_, send_, receive_;
  std::vector<std::int64_t> counts_, offsets_;
};

int run(int argc, char** argv) {
  std::int64_t largest = std::int64_t{64} << 20;
  std::string file, only;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 == argc || (option != "--largest" && option != "--json" && option != "--only")) {
      fail(
          "\"{}\" is not an option with a value; there are --largest BYTES, --only OPERATION and "
          "--json FILE",
          option);
    }
    if (option == "--json") file = argv[i + 1];
    if (option == "--only") only = argv[i + 1];
    if (option == "--largest") largest = std::stoll(argv[i + 1]);
  }
  const Communicator world = Communicator::world();
  const std::vector<std::string> rows = Benchmark(world, largest, only).run();
  if (world.rank() != 0 || file.empty()) return 0;
  std::FILE* out = std::fopen(file.c_str(), "w");
  if (out == nullptr) fail("{} cannot be written", file);
  std::string list;
  for (const std::string& row : rows) list += (list.empty() ? "" : ",\n ") + row;
  fmt::print(out, "[{}]\n", list);
  if (std::fclose(out) != 0) fail("{} could not be written to its end", file);
  return 0;
}

}  // namespace

}  // namespace meshwork

int main(int argc, char** argv) {
  meshwork::MpiEnvironment environment(&argc, &argv);
  try {
    return meshwork::run(argc, argv);
  } catch (const std::exception& error) {
    meshwork::abort_job(1, error.what());
  }
}
