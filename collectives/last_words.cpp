#include "collectives/last_words.h"

#include <atomic>

#include "collectives/error.h"
#include "collectives/nodes.h"

namespace meshwork {

namespace {

constexpr std::int64_t last_words_bytes = 64;

std::atomic<const LastWords*> current_words{nullptr};

}  // namespace

LastWords::LastWords(const Communicator& ranks) {
  const Communicator node = Nodes(ranks).split(ranks);
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

}  // namespace meshwork
