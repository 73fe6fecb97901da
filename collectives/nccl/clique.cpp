#include "collectives/nccl/clique.h"

#include <chrono>
#include <exception>
#include <future>

#include "collectives/error.h"
#include "collectives/hosted.h"
#include "collectives/thread_without_signals.h"

namespace meshwork::nccl {

namespace {

constexpr std::chrono::milliseconds between_looks{250};
/// Longer than a rank that reports an error waits for the others.
constexpr std::chrono::seconds for_reports{8};
/// For NCCL's own threads; what runs on the GPU ends at once.
constexpr std::chrono::seconds for_aborting{2};

/// NCCL's name for the failure, and the line that it left of it.
std::string words_of(ncclResult_t code) {
  const char* const more = ncclGetLastError(nullptr);
  const std::string text = ncclGetErrorString(code);
  return more == nullptr || *more == '\0' ? text : text + ", " + more;
}

ncclConfig_t configuration() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.splitShare = 1;
  return config;
}

}  // namespace

void check_nccl(ncclResult_t code, std::string_view call, std::source_location where) {
  if (code == ncclSuccess) return;
  std::string_view file = where.file_name();
  file.remove_prefix(file.find_last_of('/') + 1);  // npos + 1 is 0
  fail("{} failed: {} ({}:{}); NCCL_DEBUG=WARN in the environment makes NCCL say more", call,
       words_of(code), file, where.line());
}

ncclDataType_t native_type(ElementType type) {
  switch (type) {
    case ElementType::uint8:
      return ncclUint8;
    case ElementType::int32:
      return ncclInt32;
    case ElementType::int64:
      return ncclInt64;
    case ElementType::float32:
      return ncclFloat32;
    case ElementType::float64:
      return ncclFloat64;
  }
  internal_error("an element type that NCCL was not told of");
}

Clique::Clique(const Communicator& ranks, const ncclUniqueId& identifier) : size_(ranks.size()) {
  ncclConfig_t config = configuration();
  check_nccl(ncclCommInitRankConfig(&native_, size_, identifier, ranks.rank(), &config),
             fmt::format("ncclCommInitRankConfig for {} ranks", size_));
}

Clique::Clique(const Clique& whole, const Communicator& part, int number) : size_(part.size()) {
  ncclConfig_t config = configuration();
  check_nccl(ncclCommSplit(whole.native(), size_ > 1 ? number : NCCL_SPLIT_NOCOLOR, part.rank(),
                           &native_, &config),
             fmt::format("ncclCommSplit of {} ranks for {}", whole.size(), size_));
}

Clique::~Clique() {
  if (!exists()) return;
  if (std::uncaught_exceptions() > 0) {
    abort_all({release()});
  } else {
    // What goes wrong here was wrong before, and has been said.
    static_cast<void>(ncclCommDestroy(native_));
  }
}

std::string Clique::failure() const {
  ncclResult_t state = ncclSuccess;
  if (const ncclResult_t code = ncclCommGetAsyncError(native_, &state); code != ncclSuccess) {
    state = code;
  }
  if (state == ncclSuccess || state == ncclInProgress) return {};
  return fmt::format("NCCL failed over {} ranks, the last operation of which is {}: {}", size_,
                     last_.load(std::memory_order_relaxed), words_of(state));
}

void abort_all(const std::vector<ncclComm_t>& cliques) {
  if (cliques.empty()) return;
  const auto over = std::make_shared<std::promise<void>>();
  const std::future<void> is_over = over->get_future();
  const auto work = [cliques, over] {
    // What goes wrong here was wrong before, and has been said.
    for (ncclComm_t const clique : cliques) static_cast<void>(ncclCommAbort(clique));
    over->set_value();
  };
  try {
    thread_without_signals(work).detach();
  } catch (const Error&) {
    return work();
  }
  is_over.wait_for(for_aborting);
}

Watch::Watch() : thread_(thread_without_signals([this] { look(); })) {}

Watch::~Watch() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Watch::add(const Clique& clique) {
  const std::scoped_lock lock(mutex_);
  cliques_.push_back(&clique);
}

void Watch::look() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, between_looks, [this] { return over_; })) {
    for (const Clique* const clique : cliques_) {
      const std::string failure = clique->failure();
      if (failure.empty()) continue;
      if (wake_.wait_for(lock, for_reports, [this] { return over_; })) return;
      abort_or_break(failure);
      return;
    }
  }
}

}  // namespace meshwork::nccl
