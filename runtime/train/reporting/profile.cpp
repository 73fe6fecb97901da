#include "runtime/train/reporting/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "collectives/exchange.h"
#include "collectives/joined_text.h"
#include "runtime/config/text_table.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/products.h"
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

std::string packed(const StepParts& parts) {
  std::string text(sizeof parts, '\0');
  std::memcpy(text.data(), &parts, sizeof parts);
  return text;
}
StepParts unpacked(const std::string& text) {
  StepParts parts;
  std::memcpy(&parts, text.data(), sizeof parts);
  return parts;
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

std::string table_of_parts(const std::vector<StepParts>& ranks, bool waiting, std::size_t width) {
  TextTable table({"part", "ms on rank 0", "share", "least", "most"}, {1, 2, 3, 4});
  const auto add = [&](const std::string& name, double StepParts::*part) {
    const auto [least, most] =
        std::minmax_element(ranks.begin(), ranks.end(),
                            [part](const auto& a, const auto& b) { return a.*part < b.*part; });
    table.add({name, in_milliseconds(ranks.front().*part),
               percent(ranks.front().*part / ranks.front().step), in_milliseconds((*least).*part),
               in_milliseconds((*most).*part)});
  };
  add("kernels", &StepParts::kernels);
  add("collectives", &StepParts::collectives);
  if (waiting) add("  of it waiting", &StepParts::waiting);
  add("reading", &StepParts::reading);
  add("feeding", &StepParts::feeding);
  add("between", &StepParts::between);
  add("step", &StepParts::step);
  return table.text(2, width);
}

// What kernels did in `seconds`.
struct Rates {
  double seconds = 0, flops = 0, bytes = 0;
  std::optional<double> bound = 0;  // seconds; none if one of them has none

  void add(double more, const KernelWork& work, const DeviceRates& rates) {
    seconds += more;
    flops += work.flops;
    bytes += work.bytes;
    const std::optional<double> least = rates.bound(work);
    bound = bound && least ? std::optional(*bound + *least) : std::nullopt;
  }
  // Appends the seconds, their share of a step, and the rates to `row`.
  void append_to(std::vector<std::string>& row, double step) const {
    const bool known = seconds > 0;
    row.insert(row.end(), {in_microseconds(seconds), percent(seconds / step),
                           known && flops > 0 ? fmt::format("{:.1f}", flops / seconds * 1e-9) : "",
                           known && bytes > 0 ? fmt::format("{:.1f}", bytes / seconds * 1e-9) : "",
                           known && bytes > 0 && bound ? percent(*bound / seconds) : ""});
  }
};

// Layers in the order in which they first come, below each its instructions.
std::string table_of_instructions(const Program& program, const DeviceRates& rates, double step,
                                  std::size_t width) {
  const std::vector<std::string>& labels = program.labels();
  const MeasuredTimes& measured = program.measured();
  std::vector<std::string> layers;
  for (const std::string& label : labels) {
    if (std::find(layers.begin(), layers.end(), layer_of(label)) == layers.end()) {
      layers.push_back(layer_of(label));
    }
  }
  TextTable table({"layer and instruction", "us", "share", "GFLOP/s", "GB/s", "of its bound"},
                  {1, 2, 3, 4, 5});
  for (const std::string& layer : layers) {
    double sum = 0;
    const bool has_kernels = std::any_of(
        labels.begin(), labels.end(),
        [&](const std::string& label) { return label != layer && layer_of(label) == layer; });
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (layer_of(labels[i]) != layer) continue;
      const double seconds = measured.seconds[i] / static_cast<double>(measured.runs);
      sum += seconds;
      const bool unnamed = labels[i] == layer;
      if (unnamed && !has_kernels) continue;  // it stands for itself, as often as it comes
      std::vector<std::string> row{"  " + (unnamed ? "collective" : kernel_of(labels[i]))};
      Rates of_row;
      if (const std::optional<KernelWork>& work = program.works()[i]) {
        of_row.add(seconds, *work, rates);
      } else {
        of_row.seconds = seconds;
      }
      of_row.append_to(row, step);
      rows.push_back(std::move(row));
    }
    table.add({layer, in_microseconds(sum), percent(sum / step), "", "", ""});
    for (std::vector<std::string>& row : rows) table.add(std::move(row));
  }
  return table.text(2, width);
}

// Kernels of equal text share a row, whatever their layers. The longest come first.
std::string table_of_kernels(const Program& program, const DeviceRates& rates, double step,
                             std::size_t width) {
  constexpr std::size_t most_rows = 40;
  struct Same {
    int times = 0;
    Rates rates;
  };
  std::map<std::string, Same> by_text;
  const MeasuredTimes& measured = program.measured();
  for (std::size_t i = 0; i < program.works().size(); ++i) {
    const std::optional<KernelWork>& work = program.works()[i];
    if (!work) continue;
    Same& same = by_text[kernel_of(program.labels()[i])];
    same.rates.add(measured.seconds[i] / static_cast<double>(measured.runs), *work, rates);
    ++same.times;
  }
  std::vector<std::pair<std::string, Same>> all(by_text.begin(), by_text.end());
  std::ranges::stable_sort(all, std::greater(),
                           [](const auto& one) { return one.second.rates.seconds; });
  TextTable table({"kernel", "times", "us", "share", "GFLOP/s", "GB/s", "of its bound"},
                  {1, 2, 3, 4, 5, 6});
  const auto add = [&](const std::string& text, const Same& same) {
    std::vector<std::string> row{text, std::to_string(same.times)};
    same.rates.append_to(row, step);
    table.add(std::move(row));
  };
  Same rest;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [text, same] = all[i];
    if (i < most_rows) {
      add(text, same);
    } else {
      rest.rates.seconds += same.rates.seconds, rest.times += same.times;
    }
  }
  if (rest.times > 0) add("others", rest);
  return table.text(2, width);
}

}  // namespace

std::optional<double> DeviceRates::bound(const KernelWork& work) const {
  const double arithmetic = work.flops / flops_per_second[static_cast<std::size_t>(work.precision)];
  if (work.bytes < bandwidths.front().bytes) {
    const bool decides = arithmetic >= work.bytes / bandwidths.front().bytes_per_second;
    return decides ? std::optional(arithmetic) : std::nullopt;
  }
  const auto above =
      std::find_if(bandwidths.begin() + 1, bandwidths.end(),
                   [&](const Bandwidth& bandwidth) { return work.bytes < bandwidth.bytes; });
  double rate = bandwidths.back().bytes_per_second;
  if (above != bandwidths.end()) {
    const Bandwidth& below = *(above - 1);
    const double part = std::log(work.bytes / below.bytes) / std::log(above->bytes / below.bytes);
    rate =
        below.bytes_per_second * std::pow(above->bytes_per_second / below.bytes_per_second, part);
  }
  return std::max(arithmetic, work.bytes / rate);
}

DeviceRates measure_rates(Device& device) {
  DeviceRates rates;
  constexpr std::int64_t n = 512;
  const Memory a = device.allocate(n * n * float32_bytes),
               b = device.allocate(n * n * float32_bytes),
               c = device.allocate(n * n * float32_bytes);
  for (const Precision precision : all_precisions) {
    // In a precision that gains nothing, or is not to be had, the bound is that of float32.
    const bool gains = precision == Precision::float32 || device.is_faster_in(precision);
    const MatmulSpec product{
        .m = n, .n = n, .k = n, .precision = gains ? precision : Precision::float32};
    rates.flops_per_second[static_cast<std::size_t>(precision)] =
        product.work().flops /
        shortest_run(device, *device.compile(product), {a.data(), b.data(), c.data()});
  }
  constexpr std::array<std::int64_t, 3> sizes{std::int64_t{256} << 10, std::int64_t{4} << 20,
                                              std::int64_t{64} << 20};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t count = sizes[i] / 2 / 4;  // half of it is read, half written
    const CopySpec copy{ElementType::float32,
                        {{.extents = {count}, .source_strides = {1}, .destination_strides = {1}}}};
    const Memory from = device.allocate(count * float32_bytes),
                 to = device.allocate(count * float32_bytes);
    const double seconds = shortest_run(device, *device.compile(copy), {from.data(), to.data()});
    rates.bandwidths[i] = {static_cast<double>(sizes[i]), static_cast<double>(sizes[i]) / seconds};
  }
  return rates;
}

void StepProfile::end_step(Step& step) {
  spent_on(Part::between);
  if (step_ == nullptr && step.rows() == rows_) step_ = &step;
  if (&step == step_ && ++seen_ > warm_up) {
    ++counted_;
    for (std::size_t i = 0; i < part_count; ++i) total_[i] += present_[i];
    if (counted_ <= compared_steps) remember_collectives();
  } else if (seen_ == warm_up && &step == step_) {
    step.measure();
    find_collectives();
  }
  present_ = {};
}

void StepProfile::find_collectives() {
  const Program& program = step_->program();
  for (std::size_t i = 0; i < program.works().size(); ++i) {
    if (program.works()[i]) continue;
    const auto start = std::ranges::find(exposed_, program.beginning_of(i), &Exposed::instruction);
    exposed_.push_back({i, static_cast<std::size_t>(start - exposed_.begin()), 0});
  }
  collective_seconds_.reserve(exposed_.size() * compared_steps);
}

void StepProfile::remember_collectives() {
  const MeasuredTimes& measured = step_->program().measured();
  const std::size_t step = collective_seconds_.size();
  collective_seconds_.resize(step + exposed_.size());
  for (Exposed& exposed : exposed_) {
    const double seconds = measured.seconds[exposed.instruction];
    collective_seconds_[step + exposed.start] += static_cast<float>(seconds - exposed.so_far);
    exposed.so_far = seconds;
  }
}

void StepProfile::compare(Transport& transport, const Communicator& all, const TracePoint& at,
                          const Plan& plan, const StepWalk& walk) {
  const TracedCollective inside(at);
  waits_alike_ = plan.placing.empty();
  if (plan.staged && step_ != nullptr) {
    pipeline_ = plan.pipeline(std::ssize(walk.of(rows_)));
    pipeline_name_ =
        fmt::format("over {}, {}", plan.mesh.name(plan.staged->axis), walk.schedule.name);
    actions_ = actions_of(walk.schedule, *pipeline_);
    for (std::int64_t rank = 0; rank < plan.mesh.rank_count(); ++rank) {
      coordinates_.push_back(plan.mesh.coordinate(rank, plan.staged->axis));
    }
  }
  std::vector<float> least = collective_seconds_;
  if (waits_alike_) {
    transport.run(all, AllReduce{ElementType::float32, Reduction::minimum, std::ssize(least)},
                  least.data());
  }
  double waited = 0;
  for (std::size_t i = 0; i < least.size(); ++i) waited += collective_seconds_[i] - least[i];
  waiting_ = waited / static_cast<double>(std::clamp<std::int64_t>(counted_, 1, compared_steps));
  for (const std::string& text : gather_texts(all, packed(parts().value_or(StepParts())))) {
    ranks_.push_back(unpacked(text));
  }
}

std::optional<StepParts> StepProfile::parts() const {
  if (counted_ == 0) return std::nullopt;
  const auto mean = [&](Part part) {
    return total_[static_cast<std::size_t>(part)] / static_cast<double>(counted_);
  };
  StepParts parts{.waiting = waiting_,
                  .reading = mean(Part::reading),
                  .feeding = mean(Part::feeding),
                  .between = mean(Part::between),
                  .scheduled = scheduled()};
  const MeasuredTimes& measured = step_->program().measured();
  for (std::size_t i = 0; i < measured.seconds.size(); ++i) {
    (step_->program().works()[i] ? parts.kernels : parts.collectives) +=
        measured.seconds[i] / static_cast<double>(measured.runs);
  }
  // What it takes to start and to end a program is between as well.
  parts.between += mean(Part::program) - parts.kernels - parts.collectives;
  parts.step = parts.kernels + parts.collectives + parts.reading + parts.feeding + parts.between;
  return parts;
}

double StepProfile::scheduled() const {
  if (!pipeline_ || ranks_.empty()) return 0;
  // What the ranks at a coordinate take, which its stages and micro-batches share evenly.
  std::vector<double> kernels(actions_.size(), 0);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    double& longest = kernels[static_cast<std::size_t>(coordinates_[rank])];
    longest = std::max(longest, ranks_[rank].kernels);
  }
  std::vector<double> seconds;
  for (std::int64_t stage = 0; stage < pipeline_->stages(); ++stage) {
    seconds.push_back(kernels[static_cast<std::size_t>(stage % pipeline_->ranks)] /
                      static_cast<double>(pipeline_->micro_batches * pipeline_->chunks));
  }
  return duration_of(actions_, seconds);
}

std::string StepProfile::of_pipeline() const {
  const double kernels = scheduled();
  if (kernels == 0) return "";
  double worked = 0, passed = 0;
  for (const StepParts& rank : ranks_) {
    worked += rank.kernels;
    passed += rank.step;
  }
  const auto ranks = static_cast<double>(ranks_.size());
  return fmt::format(
      "pipeline {}: kernels in the order of the schedule would take {} ms a step, of which a rank "
      "is "
      "idle for {}; a step took {} ms, and a rank was in no kernel for {} of it\n",
      pipeline_name_, in_milliseconds(kernels), percent(1 - worked / (ranks * kernels)),
      in_milliseconds(passed / ranks), percent(1 - worked / passed));
}

std::string StepProfile::report(std::size_t width) const {
  if (ranks_.empty()) return "";
  if (counted_ == 0) {
    return fmt::format("profile: no steps to report; the first {} steps do not count\n", warm_up);
  }
  std::string text =
      fmt::format("profile: {} steps of {} rows on {} rank{}, after {} that do not count; means\n",
                  counted_, step_->rows(), ranks_.size(), ranks_.size() == 1 ? "" : "s", warm_up);
  text = wrapped(text, width) + table_of_parts(ranks_, waits_alike_, width) +
         wrapped(of_pipeline(), width);
  std::string bounds = "rank 0 by instruction; a bound is what ";
  for (const Precision precision : all_precisions) {
    const bool used = std::any_of(
        step_->program().works().begin(), step_->program().works().end(),
        [&](const auto& work) { return work && work->flops > 0 && work->precision == precision; });
    if (used) {
      bounds += fmt::format("{:.0f} GFLOP/s in {}, or",
                            rates_.flops_per_second[static_cast<std::size_t>(precision)] * 1e-9,
                            name_of(precision));
    }
  }
  std::vector<std::string> bandwidths;
  for (const DeviceRates::Bandwidth& bandwidth : rates_.bandwidths) {
    bandwidths.push_back(fmt::format("{:.0f} GB/s in {}", bandwidth.bytes_per_second * 1e-9,
                                     readable_bytes(static_cast<std::int64_t>(bandwidth.bytes))));
  }
  bounds += fmt::format(" {}, would take; where fewer bytes decide, none is known\n",
                        joined_text(bandwidths, ", "));
  return text + wrapped(bounds, width) +
         table_of_instructions(step_->program(), rates_, ranks_.front().step, width) +
         "rank 0 by kernel\n" +
         table_of_kernels(step_->program(), rates_, ranks_.front().step, width);
}

}  // namespace meshwork
