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

}  // namespace

std::vector<CollectiveBetweenSteps> collectives_between_steps(
    Mode mode, std::int64_t ranks, std::int64_t rank,
    const std::vector<SharedCallback>& callbacks) {
  if (ranks == 1) {
    return {};
  }
  constexpr auto agreed = static_cast<std::int64_t>(StepAgreement::values);
  const std::int64_t sent = elements_sent_by_all_reduce(agreed, ranks);
  std::vector<CollectiveBetweenSteps> found;
  found.push_back({.when = fmt::format("about every {:g} s", StepAgreement::interval_seconds),
                   .collective = "all_reduce",
                   .type = ElementType::float64,
                   .elements = agreed,
                   .bytes_sent = sent * element_bytes(ElementType::float64),
                   .what = mode == Mode::train ? "whether to stop or to save" : "whether to stop"});
  if (mode == Mode::train) {
    found.push_back(
        word("every epoch", values_after_epoch, rank, "rank 0's word: to stop, learning rate"));
  }
  for (const SharedCallback& callback : callbacks) {
    if (callback->agreed_values() > 0) {
      found.push_back(word("every epoch", callback->agreed_values(), rank,
                           callback->class_name() + ": rank 0's value"));
    }
  }
  return found;
}

}  // namespace meshwork
