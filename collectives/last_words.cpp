#include "collectives/last_words.h"

#include <fmt/format.h>

#include <atomic>

#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "collectives/nodes.h"

namespace meshwork {

namespace {

constexpr std::int64_t last_words_bytes = 64;

std::atomic<const LastWords*> current_words{nullptr};

}  // namespace

LastWords::LastWords(const Communicator& ranks, const std::vector<std::string>& titles) {
  const Communicator node = Nodes(ranks).split(ranks);
  own_ = node.rank();
  for (const int rank : job_ranks_of(node)) {
    names_.push_back(titles.empty()
                         ? std::to_string(rank)
                         : fmt::format("{} ({})", rank, titles.at(static_cast<std::size_t>(rank))));
  }
  try {
    memory_.emplace(node, last_words_bytes);
    current_words = this;
  } catch (const RanksParted&) {
    throw;
  } catch (const Error&) {
    memory_.reset();  // on all ranks of the node
  }
}

LastWords::~LastWords() {
  current_words = nullptr;
}

std::uint32_t& LastWords::word() const {
  return *reinterpret_cast<std::uint32_t*>(memory_->all().data());
}

bool LastWords::are_kept() noexcept {
  return current_words != nullptr;
}

bool LastWords::claim() noexcept {
  const LastWords* const words = current_words;
  return words == nullptr || std::atomic_ref<std::uint32_t>(words->word()).exchange(1) == 0;
}

bool LastWords::are_said() noexcept {
  const LastWords* const words = current_words;
  return words != nullptr && std::atomic_ref<std::uint32_t>(words->word()).load() != 0;
}

std::string LastWords::missing() {
  const LastWords* const words = current_words;
  if (words == nullptr) return "";
  std::vector<std::string> missing;
  for (int rank = 0; rank < static_cast<int>(words->names_.size()); ++rank) {
    if (rank != words->own_ && !words->memory_->is_mapped_by(rank)) {
      missing.push_back(words->names_[static_cast<std::size_t>(rank)]);
    }
  }
  if (missing.empty()) return "";
  const bool is_one = missing.size() == 1;
  return fmt::format("{} {} {} died or left", is_one ? "rank" : "ranks", joined_text(missing, ", "),
                     is_one ? "has" : "have");
}

}  // namespace meshwork
