// Small exchanges of control data between all ranks of a communicator, outside the step: texts,
// verdicts, agreement. Every function here is collective.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/trace.h"

namespace meshwork {

/// `text` of rank `root`, on every rank.
[[nodiscard]] std::string broadcast_text(const Communicator& communicator, std::string text,
                                         int root = 0);

/// The texts of all ranks by rank number on rank `root`; empty elsewhere.
[[nodiscard]] std::vector<std::string> gather_texts(const Communicator& communicator,
                                                    const std::string& text, int root = 0);

/// A text, and the lowest of the ranks that have it.
struct DistinctText {
  std::string text;
  int rank = 0;
};
/// The texts of all ranks on every rank, equal ones once, by rising rank. What travels is the hash
/// of every rank's text, and each distinct text.
[[nodiscard]] std::vector<DistinctText> distinct_texts(const Communicator& communicator,
                                                       const std::string& text);

/// Whether it is so on all ranks.
[[nodiscard]] bool on_all(const Communicator& communicator, bool here);

/// Runs `action` on every rank. If it threw on any of them, throws on all of them the `Error` of
/// the lowest such rank, its text prefixed by "rank R: " (its number in the job) unless all ranks
/// failed with one and the same text: a `FailedWrite`, or a `WrongInput`, if no rank threw anything
/// else. Nobody waits for a rank that has given up: where the others are inside a collective of
/// `action` that waits for it and do not come within 5 s, the rank that failed ends the job with its
/// message. `at` records the waiting for the others, but not `action`, so that a rank which hangs in
/// it is told from those that wait.
void together(const Communicator& communicator, const std::function<void()>& action,
              const TracePoint& at = {});

/// Compares, entry by entry, what the ranks are about to do. `entries` are one-line descriptions.
/// If the lists differ between ranks, throws on all ranks an `Error` that shows the first entry
/// that differs, as two ranks have it; `what` says what is compared ("the program's collectives").
/// Equal lists cost one reduction of two numbers.
void require_agreement(const Communicator& communicator, const std::vector<std::string>& entries,
                       const std::string& what);

/// Compares what the ranks call: `call` is a line, such as "fit". If it differs between ranks,
/// throws on all of them an `Error` that says which rank calls what. Equal calls cost one reduction
/// of two numbers.
void require_same_call(const Communicator& communicator, const std::string& call);

/// Options by their names, in their order.
using Settings = std::vector<std::pair<std::string, std::string>>;
/// One of them, with a value that fmt writes.
template <class Value>
[[nodiscard]] std::pair<std::string, std::string> setting(std::string name, const Value& value) {
  return {std::move(name), fmt::format("{}", value)};
}
/// The same of options: the `Error` names the first that differs between the lowest rank that has
/// any otherwise and rank 0 of the communicator, with both values.
void require_same_settings(const Communicator& communicator, const Settings& settings,
                           const std::string& what);

}  // namespace meshwork
