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

std::string every_epochs(std::int64_t epochs) {
  return epochs == 1 ? "every epoch" : fmt::format("every {} epochs", epochs);
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
      const std::string when = every_epochs(epochs);
      const auto ranges = static_cast<std::int64_t>(values_of_range) * variables;
      const auto counts = static_cast<std::int64_t>(WeightHistogram::buckets) * variables;
      found.push_back(reduction_of(when, ranges, ranks, "histograms: ranges of weights"));
      found.push_back(reduction_of(when, counts, ranks, "histograms: counts of weights"));
    }
  }
  return found;
}

std::vector<CollectiveBetweenSteps> weights_for_evaluators(const Plan& plan, std::int64_t rank,
                                                           std::int64_t epochs) {
  constexpr ElementType type = ElementType::float32;
  std::int64_t all = 0, gathered = 0, sent = 0;  // elements
  for (const Variable& variable : plan.graph->variables) {
    const Layout& layout = plan.tensors[variable.tensor].layout;
    const Shape& shape = variable.options.shape;
    all += element_count(shape);
    if (plan.mesh.size_over(layout.splitting_axes()) == 1 && layout.places.empty()) continue;
    gathered += element_count(shape);
    if (rank != 0 && owns_block(layout, plan.mesh, rank)) {
      sent += element_count(shape_of(block_of(layout, shape, plan.mesh, rank)));
    }
  }
  std::vector<CollectiveBetweenSteps> found;
  if (gathered > 0) {
    found.push_back({.when = every_epochs(epochs),
                     .collective = "all_to_all",
                     .type = type,
                     .elements = gathered,
                     .bytes_sent = sent * element_bytes(type),
                     .what = "split weights, to rank 0"});
  }
  found.push_back({.when = every_epochs(epochs),
                   .collective = "call",
                   .type = type,
                   .elements = all,
                   .bytes_sent = rank == 0 ? all * element_bytes(type) : 0,
                   .what = "weights, from rank 0 to the evaluators"});
  return found;
}

}  // namespace meshwork
