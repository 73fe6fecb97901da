#include "runtime/train/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "collectives/exchange.h"
#include "runtime/config/text_table.h"
#include "runtime/graph/plan_report.h"

namespace meshwork {
namespace {

using Clock = std::chrono::steady_clock;

// The shortest of some runs: what the device reaches, not what else went on.
double shortest_run(Device& device, Kernel& kernel, std::vector<void*> operands) {
  constexpr int runs = 10;
  const Memory workspace = device.allocate(kernel.workspace_bytes());
  operands.push_back(workspace.data());
  double shortest = 0;
  for (int run = 0; run < runs; ++run) {
    const Clock::time_point begin = Clock::now();
    kernel.run(operands.data());
    device.synchronize();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    shortest = run == 0 ? seconds : std::min(shortest, seconds);
  }
  return shortest;
}

// What ranks compare: seconds a step.
struct RankTimes {
  double step = 0, kernels = 0, reading = 0, feeding = 0, between = 0;
  std::vector<double> collectives;  // in the order of the program, the same on all ranks

  [[nodiscard]] double in_collectives() const {
    double sum = 0;
    for (const double seconds : collectives) sum += seconds;
    return sum;
  }
};

std::string packed(const RankTimes& times) {
  std::vector<double> values{times.step, times.kernels, times.reading, times.feeding,
                             times.between};
  values.insert(values.end(), times.collectives.begin(), times.collectives.end());
  std::string text(values.size() * sizeof(double), '\0');
  std::memcpy(text.data(), values.data(), text.size());
  return text;
}

RankTimes unpacked(const std::string& text) {
  std::vector<double> values(text.size() / sizeof(double));
  std::memcpy(values.data(), text.data(), text.size());
  return {values[0], values[1], values[2],
          values[3], values[4], std::vector<double>(values.begin() + 5, values.end())};
}

// "d1" of "d1: matmul 32x256x784"; what has no kernel behind it stands for itself.
std::string layer_of(const std::string& label) {
  return label.substr(0, label.find(": "));
}
std::string kernel_of(const std::string& label) {
  const std::size_t colon = label.find(": ");
  return colon == std::string::npos ? label : label.substr(colon + 2);
}

std::string in_milliseconds(double seconds) {
  return fmt::format("{:.3f}", seconds * 1e3);
}
std::string in_microseconds(double seconds) {
  return fmt::format("{:.1f}", seconds * 1e6);
}
std::string percent(double share) {
  return fmt::format("{:.1f} %", share * 100);
}

// By rank: what it spends in collectives beyond what each takes where it is shortest.
std::vector<double> waiting_of(const std::vector<RankTimes>& ranks) {
  std::vector<double> waiting(ranks.size(), 0.0);
  for (std::size_t c = 0; c < ranks.front().collectives.size(); ++c) {
    double least = ranks.front().collectives[c];
    for (const RankTimes& rank : ranks) least = std::min(least, rank.collectives[c]);
    for (std::size_t r = 0; r < ranks.size(); ++r) waiting[r] += ranks[r].collectives[c] - least;
  }
  return waiting;
}

std::string table_of_parts(const std::vector<RankTimes>& ranks) {
  const std::vector<double> waiting = waiting_of(ranks);
  TextTable table({"part", "ms on rank 0", "share", "least", "most"}, {1, 2, 3, 4});
  const auto add = [&](const std::string& name, const std::function<double(std::size_t)>& value) {
    double least = value(0), most = value(0);
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      least = std::min(least, value(r));
      most = std::max(most, value(r));
    }
    table.add({name, in_milliseconds(value(0)), percent(value(0) / ranks.front().step),
               in_milliseconds(least), in_milliseconds(most)});
  };
  add("kernels", [&](std::size_t r) { return ranks[r].kernels; });
  add("collectives", [&](std::size_t r) { return ranks[r].in_collectives(); });
  add("  of it waiting", [&](std::size_t r) { return waiting[r]; });
  add("reading", [&](std::size_t r) { return ranks[r].reading; });
  add("feeding", [&](std::size_t r) { return ranks[r].feeding; });
  add("between", [&](std::size_t r) { return ranks[r].between; });
  add("step", [&](std::size_t r) { return ranks[r].step; });
  return table.text();
}

// Layers in the order in which they first come, below each its instructions.
std::string table_of_instructions(const Program& program, const DeviceRates& rates, double step) {
  const std::vector<std::string>& labels = program.labels();
  const MeasuredTimes& measured = program.measured();
  std::vector<std::string> layers;
  for (const std::string& label : labels) {
    if (std::find(layers.begin(), layers.end(), layer_of(label)) == layers.end()) {
      layers.push_back(layer_of(label));
    }
  }
  TextTable table({"layer", "instruction", "us", "share", "GFLOP/s", "GB/s", "of its bound"},
                  {2, 3, 4, 5, 6});
  for (const std::string& layer : layers) {
    double sum = 0;
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (layer_of(labels[i]) != layer) continue;
      const double seconds = measured.seconds[i] / static_cast<double>(measured.runs);
      sum += seconds;
      std::vector<std::string> row{
          "", kernel_of(labels[i]), in_microseconds(seconds), percent(seconds / step), "", "", ""};
      if (const std::optional<KernelWork>& work = program.works()[i]; work && seconds > 0) {
        if (work->flops > 0) row[4] = fmt::format("{:.1f}", work->flops / seconds * 1e-9);
        row[5] = fmt::format("{:.1f}", work->bytes / seconds * 1e-9);
        row[6] = percent(rates.bound(*work) / seconds);
      }
      rows.push_back(std::move(row));
    }
    table.add({layer, "", in_microseconds(sum), percent(sum / step), "", "", ""});
    for (std::vector<std::string>& row : rows) table.add(std::move(row));
  }
  return table.text();
}

}  // namespace

double DeviceRates::bound(const KernelWork& work) const {
  const auto fits = std::find_if(bandwidths.begin(), bandwidths.end(),
                                 [&](const Bandwidth& b) { return work.bytes <= b.bytes; });
  const Bandwidth& bandwidth = fits == bandwidths.end() ? bandwidths.back() : *fits;
  return std::max(work.flops / flops_per_second, work.bytes / bandwidth.bytes_per_second);
}

DeviceRates measure_rates(Device& device) {
  DeviceRates rates;
  constexpr std::int64_t n = 512;
  const MatmulSpec product{.m = n, .n = n, .k = n};
  const Memory a = device.allocate(n * n * 4), b = device.allocate(n * n * 4),
               c = device.allocate(n * n * 4);
  rates.flops_per_second = work_of(product).flops / shortest_run(device, *device.compile(product),
                                                                 {a.data(), b.data(), c.data()});
  constexpr std::array<std::int64_t, 3> sizes{std::int64_t{256} << 10, std::int64_t{4} << 20,
                                              std::int64_t{64} << 20};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t count = sizes[i] / 2 / 4;  // half of it is read, half written
    const CopySpec copy{ElementType::float32,
                        {{.extents = {count}, .source_strides = {1}, .destination_strides = {1}}}};
    const Memory from = device.allocate(count * 4), to = device.allocate(count * 4);
    const double seconds = shortest_run(device, *device.compile(copy), {from.data(), to.data()});
    rates.bandwidths[i] = {static_cast<double>(sizes[i]), static_cast<double>(sizes[i]) / seconds};
  }
  return rates;
}

void StepProfile::end_step(Step& step) {
  spent_on(Part::between);
  if (step_ == nullptr) step_ = &step;
  if (&step == step_ && ++seen_ > warm_up) {
    ++counted_;
    for (std::size_t i = 0; i < parts; ++i) total_[i] += present_[i];
  } else if (seen_ == warm_up && &step == step_) {
    step.measure();
  }
  present_ = {};
}

std::string StepProfile::report(const Communicator& all, const TracePoint& at) const {
  RankTimes own;
  if (counted_ > 0) {
    const auto mean = [&](Part part) {
      return total_[static_cast<std::size_t>(part)] / static_cast<double>(counted_);
    };
    own.reading = mean(Part::reading);
    own.feeding = mean(Part::feeding);
    own.between = mean(Part::between);
    const MeasuredTimes& measured = step_->program().measured();
    for (std::size_t i = 0; i < measured.seconds.size(); ++i) {
      const double seconds = measured.seconds[i] / static_cast<double>(measured.runs);
      if (step_->program().works()[i]) {
        own.kernels += seconds;
      } else {
        own.collectives.push_back(seconds);
      }
    }
    // What it takes to start and to end a program is between as well.
    own.between += mean(Part::program) - own.kernels - own.in_collectives();
    own.step = own.kernels + own.in_collectives() + own.reading + own.feeding + own.between;
  }
  std::vector<RankTimes> ranks;
  {
    const TracedCollective inside(at);
    for (const std::string& text : gather_texts(all, packed(own))) {
      ranks.push_back(unpacked(text));
    }
  }
  if (ranks.empty()) return "";
  if (counted_ == 0) {
    return fmt::format("profile: nothing to tell, for the first {} steps do not count\n", warm_up);
  }
  std::string text =
      fmt::format("profile: {} steps of {} rows on {} rank{}, after {} that do not count; means\n",
                  counted_, step_->rows(), ranks.size(), ranks.size() == 1 ? "" : "s", warm_up);
  text += table_of_parts(ranks);
  text += fmt::format("rank 0 by instruction; a bound is what {:.0f} GFLOP/s, or",
                      rates_.flops_per_second * 1e-9);
  for (const DeviceRates::Bandwidth& bandwidth : rates_.bandwidths) {
    text += fmt::format("{} {:.0f} GB/s in {}", &bandwidth == rates_.bandwidths.data() ? "" : ",",
                        bandwidth.bytes_per_second * 1e-9,
                        readable_bytes(static_cast<std::int64_t>(bandwidth.bytes)));
  }
  text += ", would take\n";
  text += table_of_instructions(step_->program(), rates_, own.step);
  return text;
}

}  // namespace meshwork
