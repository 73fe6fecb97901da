#include "runtime/device/cuda/queues.h"

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/cuda/check.h"
#include "runtime/device/cuda/count.h"

namespace meshwork::cuda {

namespace {

using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExecution = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

class CudaMark final : public Mark {
 public:
  CudaMark(bool timed, bool sleeps, std::shared_ptr<const Activity> activity)
      : activity_(std::move(activity)) {
    const unsigned timing = timed ? cudaEventDefault : cudaEventDisableTiming;
    const unsigned waiting = sleeps ? cudaEventBlockingSync : cudaEventDefault;
    check_cuda(cudaEventCreateWithFlags(event_.out(), timing | waiting),
               "cudaEventCreateWithFlags");
  }
  // An event that was never recorded is complete.
  void wait() override {
    check_cuda(cudaEventSynchronize(event_.native()), "cudaEventSynchronize",
               started_last(*activity_));
  }
  [[nodiscard]] bool reached() override {
    const cudaError_t code = cudaEventQuery(event_.native());
    if (code == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // an answer, not an error of the next launch
      return false;
    }
    check_cuda(code, "cudaEventQuery", started_last(*activity_));
    return true;
  }
  [[nodiscard]] double seconds_since(const Mark& earlier) const override {
    float milliseconds = 0;
    check_cuda(
        cudaEventElapsedTime(&milliseconds, dynamic_cast<const CudaMark&>(earlier).event_.native(),
                             event_.native()),
        "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }
  [[nodiscard]] cudaEvent_t event() const { return event_.native(); }

 private:
  Event event_;
  std::shared_ptr<const Activity> activity_;
};

class GraphWork final : public CapturedWork {
 public:
  GraphWork(GraphExecution graph, cudaStream_t stream, std::shared_ptr<Activity> activity)
      : graph_(std::move(graph)),
        stream_(stream),
        activity_(std::move(activity)),
        last_(activity_->last) {}
  void start() override {
    check_cuda(cudaGraphLaunch(graph_.native(), stream_), "cudaGraphLaunch",
               started_last(*activity_));
    activity_->last = last_;
  }

 private:
  GraphExecution graph_;
  cudaStream_t stream_;
  std::shared_ptr<Activity> activity_;
  std::shared_ptr<const std::string> last_;  // the kernel that the graph ends with
};

bool wants_graphs() {
  const char* const word = std::getenv("MESHWORK_GRAPHS");
  if (word == nullptr || std::string_view(word) == "on") return true;
  if (std::string_view(word) == "off") return false;
  fail("MESHWORK_GRAPHS is \"{}\"; it can be on or off", word);
}

}  // namespace

bool Allocations::hold(const void* address) const {
  auto behind = ends_.upper_bound(address);
  if (behind == ends_.begin()) return false;
  --behind;
  return static_cast<const std::byte*>(address) <
         static_cast<const std::byte*>(behind->first) + behind->second;
}

CudaQueue::CudaQueue(std::shared_ptr<const Activity> activity, Urgency urgency)
    : activity_(std::move(activity)) {
  int least = 0, greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
             "cudaDeviceGetStreamPriorityRange");
  check_cuda(cudaStreamCreateWithPriority(stream_.out(), cudaStreamNonBlocking,
                                          urgency == Urgency::first ? greatest : least),
             "cudaStreamCreateWithPriority");
  counting_ = {.stream = stream_.native(),
               .processors = 1,
               .name = std::make_shared<const std::string>("a count"),
               .activity = std::make_shared<Activity>()};
}

void CudaQueue::start_copy(void* destination, const void* source, std::int64_t bytes) {
  if (bytes <= 0) return;
  check_cuda(cudaMemcpyAsync(destination, source, static_cast<std::size_t>(bytes),
                             cudaMemcpyDefault, stream_.native()),
             "cudaMemcpyAsync", started_last(*activity_));
}

void CudaQueue::record(Mark& mark) {
  check_cuda(cudaEventRecord(dynamic_cast<CudaMark&>(mark).event(), stream_.native()),
             "cudaEventRecord", started_last(*activity_));
}

void CudaQueue::wait_for(Mark& mark) {
  check_cuda(cudaStreamWaitEvent(stream_.native(), dynamic_cast<CudaMark&>(mark).event()),
             "cudaStreamWaitEvent", started_last(*activity_));
}

void CudaQueue::start_count(std::uint64_t& count) {
  cuda::start_count(counting_, &count);
}

void CudaQueue::synchronize() {
  check_cuda(cudaStreamSynchronize(stream_.native()), "cudaStreamSynchronize",
             started_last(*activity_));
}

CudaQueues::CudaQueues(std::shared_ptr<const Allocations> allocations,
                       std::shared_ptr<Activity> activity, bool sleeps)
    : allocations_(std::move(allocations)),
      activity_(std::move(activity)),
      kernels_(activity_, Urgency::behind),
      transfers_(activity_, Urgency::first),
      feeds_(activity_, Urgency::behind),
      joined_(std::make_unique<CudaMark>(false, sleeps, activity_)),
      graphs_(wants_graphs()),
      sleeps_(sleeps) {}

Memory CudaQueues::allocate_pinned(std::int64_t bytes) {
  if (bytes <= 0) return {};
  void* data = nullptr;
  const cudaError_t code =
      cudaHostAlloc(&data, static_cast<std::size_t>(bytes), cudaHostAllocDefault);
  if (code == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    fail("{} bytes of the host's memory cannot be pinned for the GPU", bytes);
  }
  check_cuda(code, "cudaHostAlloc", started_last(*activity_));
  std::memset(data, 0, static_cast<std::size_t>(bytes));
  // What goes wrong there was wrong before, and has been said.
  return {data, bytes, [](void* owned) { static_cast<void>(cudaFreeHost(owned)); }};
}

std::unique_ptr<Mark> CudaQueues::make_mark(bool timed) {
  return std::make_unique<CudaMark>(timed, sleeps_, activity_);
}

void CudaQueues::synchronize() {
  for (CudaQueue* queue : {&kernels_, &transfers_, &feeds_}) queue->synchronize();
}

void CudaQueues::join(CudaQueue& queue) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(queue.stream(), &status), "cudaStreamIsCapturing");
  if (status == cudaStreamCaptureStatusNone) return;
  queue.record(*joined_);
  kernels_.wait_for(*joined_);
}

std::unique_ptr<CapturedWork> CudaQueues::capture(const std::function<void()>& start) {
  if (!graphs_) return nullptr;
  // Who cannot capture goes on without: the next kernel is not to find this error.
  const auto check = [](cudaError_t code, const char* call) {
    if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
    check_cuda(code, call);
  };
  check(cudaStreamBeginCapture(kernels_.stream(), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  Graph graph;
  capturing_ = true;
  try {
    start();
    join(transfers_);
    join(feeds_);
    capturing_ = false;
  } catch (...) {
    // The streams have to leave the capture; the error that is on its way says what was wrong.
    capturing_ = false;
    static_cast<void>(cudaStreamEndCapture(kernels_.stream(), graph.out()));
    static_cast<void>(cudaGetLastError());
    throw;
  }
  check(cudaStreamEndCapture(kernels_.stream(), graph.out()), "cudaStreamEndCapture");
  GraphExecution execution;
  // Else all of it would run at the priority of the queue that it is started in.
  check(cudaGraphInstantiate(execution.out(), graph.native(),
                             cudaGraphInstantiateFlagUseNodePriority),
        "cudaGraphInstantiate");
  return std::make_unique<GraphWork>(std::move(execution), kernels_.stream(), activity_);
}

}  // namespace meshwork::cuda
