#include "collectives/shared_windows.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <utility>

#include "collectives/error.h"
#include "collectives/hosted.h"
#include "collectives/huge_pages.h"
#include "collectives/shared_memory.h"

namespace meshwork {

namespace {

/// Of the parts: each rank has pages of its own.
std::int64_t alignment_of(std::span<const std::int64_t> bytes) {
  return std::ranges::max(bytes) < least_bytes_for_huge_pages ? 4096 : huge_page_bytes;
}

}  // namespace

class SharedWindows::Window final : public TransportMemory::Owner {
 public:
  /// `bytes` are the sizes of the parts by rank.
  Window(std::shared_ptr<SharedWindows> windows, const Communicator& node,
         std::span<const std::int64_t> bytes, std::uint64_t made_by_first)
      : windows_(std::move(windows)), memory_(node, aligned_sum(bytes, alignment_of(bytes))) {
    const std::vector<int> job_ranks = job_ranks_of(node);
    by_job_rank.resize(static_cast<std::size_t>(*std::ranges::max_element(job_ranks)) + 1);
    for (std::size_t rank = 0; rank < bytes.size(); ++rank) {
      const std::int64_t begin = aligned_sum(bytes.first(rank), alignment_of(bytes));
      parts.push_back(memory_.all().subspan(static_cast<std::size_t>(begin),
                                            static_cast<std::size_t>(bytes[rank])));
      by_job_rank[static_cast<std::size_t>(job_ranks[rank])] = parts.back().data();
    }
    own = parts[static_cast<std::size_t>(node.rank())];
    ++windows_->made_;
    number = (static_cast<std::uint64_t>(job_ranks.front()) + 1) << 32 | made_by_first;
    // Each its own, near its processor.
    make_huge_pages(own.data(), aligned_sum({{std::ssize(own)}}, alignment_of(bytes)));
    windows_->windows_.push_back(this);
  }
  ~Window() override { std::erase(windows_->windows_, this); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  std::uint64_t number = 0;
  std::vector<std::span<std::byte>> parts;  // by rank of the communicator
  std::vector<std::byte*> by_job_rank;      // null for ranks that are not part of it
  std::span<std::byte> own;
  [[nodiscard]] std::span<const std::byte> all() const { return memory_.all(); }

 private:
  /// The sum of sizes that are each rounded up to multiples of `alignment`.
  static std::int64_t aligned_sum(std::span<const std::int64_t> bytes, std::int64_t alignment) {
    std::int64_t sum = 0;
    for (const std::int64_t size : bytes) sum += (size + alignment - 1) / alignment * alignment;
    return sum;
  }

  std::shared_ptr<SharedWindows> windows_;
  SharedMemory memory_;
};

TransportMemory SharedWindows::allocate(const std::shared_ptr<SharedWindows>& windows,
                                        const Communicator& node, std::int64_t bytes) {
  // How large each rank's part is, and how many windows it has made.
  const std::array<std::int64_t, 2> own{bytes, static_cast<std::int64_t>(windows->made_)};
  std::vector<std::array<std::int64_t, 2>> all(static_cast<std::size_t>(node.size()));
  await_ranks(node);
  check_mpi(MPI_Allgather(own.data(), 2, MPI_INT64_T, all.data(), 2, MPI_INT64_T, node.native()),
            "MPI_Allgather");
  std::vector<std::int64_t> sizes;
  for (const auto& [size, made] : all) sizes.push_back(size);
  auto window = std::make_unique<Window>(windows, node, sizes,
                                         static_cast<std::uint64_t>(all.front()[1]) + 1);
  std::vector<std::span<std::byte>> parts = window->parts;
  return {std::move(window), std::move(parts), node.rank()};
}

SharedPlace SharedWindows::place_of(const void* data, std::int64_t bytes, JobRanks ranks) const {
  const auto* begin = static_cast<const std::byte*>(data);
  for (const Window* window : windows_) {
    const std::span<const std::byte> all = window->all();
    if (begin < all.data() || begin + bytes > all.data() + all.size()) continue;
    for (const int rank : ranks) {
      const auto at = static_cast<std::size_t>(rank);
      if (at >= window->by_job_rank.size() || window->by_job_rank[at] == nullptr) return {};
    }
    return {window->number, begin - window->own.data()};
  }
  return {};
}

std::byte* SharedWindows::address(const SharedPlace& place, int job_rank) const {
  for (const Window* window : windows_) {
    if (window->number == place.window) {
      return window->by_job_rank[static_cast<std::size_t>(job_rank)] + place.offset;
    }
  }
  internal_error("a rank has a buffer in memory that this one has given back");
}

}  // namespace meshwork
