#include "collectives/thread_trace.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace meshwork {

namespace {

/// In the order in which they were made.
struct TracesOfThreads {
  std::mutex mutex;
  std::vector<std::pair<std::thread::id, CollectiveTrace*>> entries;
};
TracesOfThreads& traces_of_threads() {
  static TracesOfThreads traces;
  return traces;
}

}  // namespace

ThreadTrace::ThreadTrace(CollectiveTrace& trace) : trace_(&trace) {
  TracesOfThreads& traces = traces_of_threads();
  const std::scoped_lock lock(traces.mutex);
  traces.entries.emplace_back(std::this_thread::get_id(), trace_);
}

ThreadTrace::~ThreadTrace() {
  TracesOfThreads& traces = traces_of_threads();
  const std::scoped_lock lock(traces.mutex);
  std::erase_if(traces.entries, [this](const auto& entry) { return entry.second == trace_; });
}

CollectiveTrace* ThreadTrace::current() {
  TracesOfThreads& traces = traces_of_threads();
  const std::scoped_lock lock(traces.mutex);
  const auto found =
      std::find_if(traces.entries.rbegin(), traces.entries.rend(),
                   [](const auto& entry) { return entry.first == std::this_thread::get_id(); });
  return found == traces.entries.rend() ? nullptr : found->second;
}

}  // namespace meshwork
