#include "runtime/train/loop/between_steps.h"

#include <fmt/format.h>

#include "collectives/blocks.h"
#include "runtime/train/loop/step_agreement.h"

namespace meshwork {
namespace {

// Rank 0's word to all others; the others send nothing.
CollectiveBetweenSteps word(std::string when, std::int64_t values, std::int64_t rank,
                            std::string what) {
  return {.when = std::move(when),
          .collective = "broadcast",
          .type = ElementType::float64,
          .elements = values,
          .bytes_sent = rank == 0 ? values * element_bytes(ElementType::float64) : 0,
          .what = std::move(what)};
}

CollectiveBetweenSteps reduction_of(std::string when, std::int64_t values, std::int64_t ranks,
                                    std::string what) {
  return {.when = std::move(when),
          .collective = "all_reduce",
          .type = ElementType::float64,
          .elements = values,
          .bytes_sent =
              elements_sent_by_all_reduce(values, ranks) * element_bytes(ElementType::float64),
          .what = std::move(what)};
}

}  // namespace

std::vector<CollectiveBetweenSteps> collectives_between_steps(
    Mode mode, std::int64_t ranks, std::int64_t rank, const std::vector<SharedCallback>& callbacks,
    std::int64_t variables, const std::vector<std::int64_t>& adapted) {
  if (ranks == 1) {
    return {};
  }
  constexpr auto agreed = static_cast<std::int64_t>(StepAgreement::values);
  std::vector<CollectiveBetweenSteps> found;
  for (const std::int64_t values : mode == Mode::train ? adapted : std::vector<std::int64_t>()) {
    found.push_back(
        reduction_of("before the first", values, ranks, "statistics of the training data"));
  }
  found.push_back(
      reduction_of(fmt::format("about every {:g} s", StepAgreement::interval_seconds), agreed,
                   ranks, mode == Mode::train ? "whether to stop or to save" : "whether to stop"));
  if (mode == Mode::train) {
    found.push_back(
        word("every epoch", values_after_epoch, rank, "rank 0's word: to stop, learning rate"));
  }
  for (const SharedCallback& callback : callbacks) {
    if (callback->agreed_values() > 0) {
      found.push_back(word("every epoch", callback->agreed_values(), rank,
                           callback->class_name() + ": rank 0's value"));
    }
    if (const std::int64_t epochs = callback->histogram_freq(); epochs > 0) {
      const std::string when = epochs == 1 ? "every epoch" : fmt::format("every {} epochs", epochs);
      const auto ranges = static_cast<std::int64_t>(values_of_range) * variables;
      const auto counts = static_cast<std::int64_t>(WeightHistogram::buckets) * variables;
      found.push_back(reduction_of(when, ranges, ranks, "histograms: ranges of weights"));
      found.push_back(reduction_of(when, counts, ranks, "histograms: counts of weights"));
    }
  }
  return found;
}

}  // namespace meshwork
