// A device whose kernels have prices instead of durations, for tests of what is chosen by timing.
//
// It computes as the CPU does. Products have the candidates that the test gives them, each with a
// price in seconds; the device's clock, which its marks read, goes on by the price of each kernel
// that runs and by nothing else. The first candidate gives the CPU's numbers, the others numbers
// that differ from them in the last bit, each in its own way, so that a test sees by which one it
// was computed.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/cpu/memory.h"
#include "runtime/device/device.h"
#include "runtime/device/kernel_record.h"
#include "runtime/device/kernels/products.h"

namespace meshwork::test {

/// What a test gives a counted device, and what it finds out.
struct Prices {
  struct Candidate {
    std::string name;
    /// Of the run with this number, from 0.
    std::function<double(std::int64_t run)> seconds;
  };
  std::function<std::vector<Candidate>(const MatmulSpec&)> candidates;
  std::string platform = "a counted device";

  double clock = 0;
  std::map<std::string, std::int64_t> runs;  // by "specification by candidate"

  [[nodiscard]] std::int64_t runs_by(const std::string& name) const {
    std::int64_t sum = 0;
    for (const auto& [key, count] : runs) sum += key.ends_with(" by " + name) ? count : 0;
    return sum;
  }
};

/// A candidate whose runs all cost the same.
inline Prices::Candidate at_price(std::string name, double seconds) {
  return {std::move(name), [seconds](std::int64_t) { return seconds; }};
}

class CountedDevice final : public Device {
 public:
  /// `prices` outlives it.
  CountedDevice(Prices& prices, const DeviceOptions& options)
      : Device({.kind = "counted"}),
        prices_(&prices),
        cpu_(make_device({"cpu", options.ranks_on_node, options.rank_on_node})),
        queues_(prices) {}

  [[nodiscard]] std::string description() const override { return "counted"; }
  [[nodiscard]] std::string platform() const override { return prices_->platform; }
  [[nodiscard]] Memory allocate(std::int64_t bytes) override { return cpu_->allocate(bytes); }
  void copy_in(void* to, const void* from, std::int64_t bytes) override {
    cpu_->copy_in(to, from, bytes);
  }
  void copy_out(void* to, const void* from, std::int64_t bytes) override {
    cpu_->copy_out(to, from, bytes);
  }
  void synchronize() override {}
  [[nodiscard]] DeviceQueues& queues() override { return queues_; }
  [[nodiscard]] std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    const std::vector<KernelCandidate> found = candidates(spec);
    return found.empty() ? cpu_->compile(spec) : found.front().compile();
  }
  [[nodiscard]] std::vector<KernelCandidate> candidates(const KernelSpec& spec) override {
    std::vector<KernelCandidate> found;
    const auto* product = spec.get_if<MatmulSpec>();
    if (product == nullptr || !prices_->candidates) return found;
    for (const Prices::Candidate& candidate : prices_->candidates(*product)) {
      const auto index = static_cast<int>(found.size());
      found.push_back({candidate.name, [this, spec = *product, candidate, index] {
                         return std::make_unique<Priced>(*prices_, cpu_->compile(spec), spec,
                                                         candidate, index);
                       }});
    }
    return found;
  }

 private:
  class Priced final : public Kernel {
   public:
    Priced(Prices& prices, std::unique_ptr<Kernel> kernel, const MatmulSpec& spec,
           Prices::Candidate candidate, int index)
        : prices_(&prices),
          kernel_(std::move(kernel)),
          spec_(spec),
          candidate_(std::move(candidate)),
          index_(index),
          key_(KernelSpec(spec).key() + " by " + candidate_.name) {}
    void run(void* const* operands) override {
      kernel_->run(operands);
      auto* const result = static_cast<float*>(operands[result_operand(spec_)]);
      for (std::int64_t i = 0; i < spec_.m * spec_.n; ++i) {
        for (int times = 0; times < index_; ++times) {
          result[i] = std::nextafter(result[i], std::numeric_limits<float>::infinity());
        }
      }
      prices_->clock += candidate_.seconds(run_++);
      ++prices_->runs[key_];
    }
    /// More for each candidate: what the program's arena must have room for.
    [[nodiscard]] std::int64_t workspace_bytes() const override {
      return kernel_->workspace_bytes() + 64 * index_;
    }

   private:
    Prices* prices_;
    std::unique_ptr<Kernel> kernel_;
    MatmulSpec spec_;
    Prices::Candidate candidate_;
    int index_;
    std::string key_;
    std::int64_t run_ = 0;
  };

  class CountedMark final : public Mark {
   public:
    void wait() override {}
    [[nodiscard]] bool reached() override { return true; }
    [[nodiscard]] double seconds_since(const Mark& earlier) const override {
      return at - static_cast<const CountedMark&>(earlier).at;
    }
    double at = 0;
  };

  class CountedQueues final : public DeviceQueues, private Queue {
   public:
    explicit CountedQueues(const Prices& prices) : prices_(&prices) {}
    [[nodiscard]] bool owns(const void* /*address*/) const override { return false; }
    [[nodiscard]] Memory allocate_pinned(std::int64_t bytes) override {
      return cpu::allocate(bytes);
    }
    [[nodiscard]] std::unique_ptr<Mark> make_mark(bool /*timed*/) override {
      return std::make_unique<CountedMark>();
    }
    [[nodiscard]] Queue& kernels() override { return *this; }
    [[nodiscard]] Queue& transfers() override { return *this; }
    [[nodiscard]] Queue& feeds() override { return *this; }

   private:
    void start_copy(void* to, const void* from, std::int64_t bytes) override {
      if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
    }
    void record(Mark& mark) override { static_cast<CountedMark&>(mark).at = prices_->clock; }
    void wait_for(Mark& /*mark*/) override {}
    void start_count(std::uint64_t& count) override { ++count; }

    const Prices* prices_;
  };

  Prices* prices_;
  std::unique_ptr<Device> cpu_;
  CountedQueues queues_;
};

}  // namespace meshwork::test
