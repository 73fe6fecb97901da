#include "collectives/exchange.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <set>
#include <span>

#include "collectives/error.h"
#include "collectives/failed_write.h"
#include "collectives/fnv1a.h"
#include "collectives/hosted.h"
#include "collectives/joined_text.h"
#include "collectives/joint_failure.h"
#include "collectives/rank_names.h"
#include "collectives/text_list.h"
#include "collectives/wrong_input.h"

namespace meshwork {

namespace {

// How long a rank that failed waits for the others to come and hear of it. They may be inside a
// collective that waits for this rank; they would never come.
constexpr std::chrono::seconds patience_after_failure{5};

constexpr std::int64_t largest_count = std::numeric_limits<int>::max();

/// The number by which messages name this rank.
int named_rank() {
  return name_of_rank(Communicator::world().rank());
}

template <class Value>
Value reduce(const Communicator& communicator, Value value, MPI_Datatype type, MPI_Op operation) {
  Value result = value;
  await_ranks(communicator);
  check_mpi(MPI_Allreduce(&value, &result, 1, type, operation, communicator.native()),
            "MPI_Allreduce");
  return result;
}

bool same_on_all(const Communicator& communicator, const std::string& list) {
  // The smallest complement is that of the largest hash.
  const std::uint64_t hash = fnv1a(list);
  const std::array<std::uint64_t, 2> own{hash, ~hash};
  std::array<std::uint64_t, 2> least{};
  await_ranks(communicator);
  check_mpi(
      MPI_Allreduce(own.data(), least.data(), 2, MPI_UINT64_T, MPI_MIN, communicator.native()),
      "MPI_Allreduce");
  return least[0] == ~least[1];
}

/// "rank 3", "ranks 0, 2", and of many the first few.
std::string ranks_in_words(const std::vector<int>& ranks) {
  constexpr std::size_t most = 8;
  const std::size_t shown = std::min(ranks.size(), most);
  const std::span first(ranks.data(), shown);
  return fmt::format("rank{} {}{}", ranks.size() == 1 ? "" : "s", joined_text(first, ", "),
                     ranks.size() > shown ? fmt::format(" and {} more", ranks.size() - shown) : "");
}

/// How two lists of settings that are not the same differ first, in words.
std::string first_difference(const Settings& one, int one_rank, const Settings& other,
                             int other_rank) {
  const auto [a, b] = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
  const auto value_in = [](const Settings& settings, const std::string& name) {
    const auto found = std::find_if(settings.begin(), settings.end(),
                                    [&](const auto& setting) { return setting.first == name; });
    return found == settings.end() ? "no such entry" : found->second;
  };
  const auto difference_in = [&](const std::string& name) {
    const std::string first = value_in(one, name), second = value_in(other, name);
    return first == second ? ""
                           : fmt::format("{}: rank {} has {}, rank {} has {}", name, one_rank,
                                         first, other_rank, second);
  };
  std::string difference;
  if (a != one.end()) difference = difference_in(a->first);
  if (difference.empty() && b != other.end()) difference = difference_in(b->first);
  if (!difference.empty()) return difference;
  return fmt::format("entry {} is {} on rank {}, {} on rank {}", a - one.begin() + 1, a->first,
                     one_rank, b->first, other_rank);
}

}  // namespace

std::string broadcast_text(const Communicator& communicator, std::string text, int root) {
  // The length and the beginning, which most texts end with.
  struct Opening {
    std::int64_t length = 0;
    std::array<char, 248> text{};
  };
  constexpr std::int64_t opened = std::int64_t{sizeof(Opening::text)};
  Opening opening{.length = static_cast<std::int64_t>(text.size())};
  const auto begin_of_text = [&] {
    return static_cast<std::size_t>(std::min(opening.length, opened));
  };
  std::copy_n(text.data(), begin_of_text(), opening.text.data());
  await_ranks(communicator);
  check_mpi(MPI_Bcast(&opening, sizeof opening, MPI_BYTE, root, communicator.native()),
            "MPI_Bcast");
  const std::int64_t length = opening.length;
  text.resize(static_cast<std::size_t>(length));
  std::copy_n(opening.text.data(), begin_of_text(), text.data());
  for (std::int64_t begin = opened; begin < length; begin += largest_count) {
    const int count = static_cast<int>(std::min(largest_count, length - begin));
    await_ranks(communicator);
    check_mpi(MPI_Bcast(text.data() + begin, count, MPI_CHAR, root, communicator.native()),
              "MPI_Bcast");
  }
  return text;
}

std::vector<std::string> gather_texts(const Communicator& communicator, const std::string& text,
                                      int root) {
  const std::size_t ranks = static_cast<std::size_t>(communicator.size());
  const bool here = communicator.rank() == root;
  const std::int64_t length = static_cast<std::int64_t>(text.size());
  const std::int64_t longest = reduce(communicator, length, MPI_INT64_T, MPI_MAX);
  std::vector<std::int64_t> lengths(here ? ranks : 0);
  await_ranks(communicator);
  check_mpi(MPI_Gather(&length, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, root,
                       communicator.native()),
            "MPI_Gather");

  // In rounds, each so small that the pieces of all ranks together have a count that MPI can take.
  const std::int64_t piece = std::max<std::int64_t>(1, largest_count / communicator.size());
  std::vector<std::string> texts(here ? ranks : 0);
  std::vector<int> counts(texts.size());
  std::vector<int> offsets(texts.size());
  std::string together;
  for (std::int64_t begin = 0; begin < longest; begin += piece) {
    const auto part = [&](std::int64_t whole) {
      return static_cast<int>(std::clamp<std::int64_t>(whole - begin, 0, piece));
    };
    int total = 0;
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      counts[rank] = part(lengths[rank]);
      offsets[rank] = total;
      total += counts[rank];
    }
    together.resize(static_cast<std::size_t>(total));
    const std::int64_t first = std::min(begin, length);
    await_ranks(communicator);
    check_mpi(MPI_Gatherv(text.data() + first, part(length), MPI_CHAR, together.data(),
                          counts.data(), offsets.data(), MPI_CHAR, root, communicator.native()),
              "MPI_Gatherv");
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      texts[rank].append(together, static_cast<std::size_t>(offsets[rank]),
                         static_cast<std::size_t>(counts[rank]));
    }
  }
  return texts;
}

std::vector<DistinctText> distinct_texts(const Communicator& communicator,
                                         const std::string& text) {
  const std::uint64_t own = fnv1a(text);
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(communicator.size()));
  await_ranks(communicator);
  check_mpi(
      MPI_Allgather(&own, 1, MPI_UINT64_T, hashes.data(), 1, MPI_UINT64_T, communicator.native()),
      "MPI_Allgather");
  if (std::ranges::count(hashes, own) == communicator.size()) return {{text, 0}};
  std::vector<DistinctText> texts;
  std::set<std::uint64_t> seen;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    if (!seen.insert(hashes[static_cast<std::size_t>(rank)]).second) continue;
    texts.push_back(
        {broadcast_text(communicator, rank == communicator.rank() ? text : "", rank), rank});
  }
  return texts;
}

bool on_all(const Communicator& communicator, bool here) {
  return reduce(communicator, here ? 1 : 0, MPI_INT, MPI_MIN) != 0;
}

void together(const Communicator& communicator, const std::function<void()>& action,
              const TracePoint& at) {
  // What is thrown here, as a bit; all of them where nothing is.
  constexpr int failed_write = 1, wrong_input = 2, anything_else = 4;
  int thrown = failed_write | wrong_input | anything_else;
  Failures failures;
  failures.attempt([&] {
    try {
      action();
    } catch (const FailedWrite&) {
      thrown = failed_write;
      throw;
    } catch (const WrongInput&) {
      thrown = wrong_input;
      throw;
    } catch (...) {
      thrown = anything_else;
      throw;
    }
  });
  const std::string failure =
      joint_failure(communicator, failures.first(), at, patience_after_failure);
  if (failure.empty()) return;
  const int by_all = reduce(communicator, thrown, MPI_INT, MPI_BAND);
  if ((by_all & failed_write) != 0) throw FailedWrite(failure);
  if ((by_all & wrong_input) != 0) throw WrongInput(failure);
  throw Error(failure);
}

void require_agreement(const Communicator& communicator, const std::vector<std::string>& entries,
                       const std::string& what) {
  Settings numbered;
  for (const std::string& entry : entries) {
    numbered.emplace_back(fmt::format("entry {}", numbered.size() + 1),
                          fmt::format("\"{}\"", entry));
  }
  require_same_settings(communicator, numbered, what);
}

void require_same_call(const Communicator& communicator, const std::string& call) {
  if (same_on_all(communicator, call)) return;
  const std::vector<DistinctText> calls = distinct_texts(communicator, call);
  const auto mine = std::find_if(calls.begin(), calls.end(),
                                 [&](const DistinctText& other) { return other.text == call; });
  // Which of the calls a rank makes, and its number in the job.
  const std::array<int, 2> own{static_cast<int>(mine - calls.begin()), named_rank()};
  std::vector<std::array<int, 2>> all(static_cast<std::size_t>(communicator.size()));
  await_ranks(communicator);
  check_mpi(MPI_Allgather(own.data(), 2, MPI_INT, all.data(), 2, MPI_INT, communicator.native()),
            "MPI_Allgather");
  std::string text;
  for (std::size_t c = 0; c < calls.size(); ++c) {
    std::vector<int> ranks;
    for (const auto& [which, rank] : all) {
      if (which == static_cast<int>(c)) ranks.push_back(rank);
    }
    text += fmt::format("{}{} call{} {}", c == 0 ? "" : "; ", ranks_in_words(ranks),
                        ranks.size() == 1 ? "s" : "", calls[c].text);
  }
  fail("the ranks make different calls: {}. Every rank has to make the same calls in one order",
       text);
}

void require_same_settings(const Communicator& communicator, const Settings& settings,
                           const std::string& what) {
  std::string list;
  for (const auto& [name, value] : settings) {
    append_entry(list, name);
    append_entry(list, value);
  }
  if (same_on_all(communicator, list)) return;

  // Every rank compares its settings with those of rank 0; the lowest that differs says how.
  const std::vector<std::string> texts = entries_of(broadcast_text(communicator, list));
  Settings reference;
  for (std::size_t i = 0; i + 1 < texts.size(); i += 2) {
    reference.emplace_back(texts[i], texts[i + 1]);
  }
  const int own = settings != reference ? communicator.rank() : communicator.size();
  const int shower = reduce(communicator, own, MPI_INT, MPI_MIN);
  int reference_rank = named_rank();
  await_ranks(communicator);
  check_mpi(MPI_Bcast(&reference_rank, 1, MPI_INT, 0, communicator.native()), "MPI_Bcast");
  std::string difference;
  if (communicator.rank() == shower) {
    difference = first_difference(reference, reference_rank, settings, named_rank());
  }
  fail("the ranks do not agree on {}: {}", what, broadcast_text(communicator, difference, shower));
}

}  // namespace meshwork
