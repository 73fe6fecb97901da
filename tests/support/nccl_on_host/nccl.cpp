#include <nccl.h>

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/apart_queues.h"
#include "tests/support/nccl_on_host/control.h"

struct ncclComm {
  MPI_Comm ranks = MPI_COMM_NULL;
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
};

namespace meshwork::test {

namespace {

std::atomic<bool> failed_later{false};

/// What a group consists of, until its end; in the order of the calls.
struct Group {
  int depth = 0;
  std::vector<std::function<void(std::vector<MPI_Request>&)>> work;
  cudaStream_t stream = nullptr;
};
Group& group() {
  static Group one;
  return one;
}

void check(int code) {
  if (code != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, code);
}

bool fails(const char* function) {
  if (nccl_on_host().failing != function) return false;
  if (nccl_on_host().before_failing-- > 0) return false;
  nccl_on_host().before_failing = 0;
  nccl_on_host().failing.clear();
  return true;
}

/// Puts the group, if it is at its end, into its stream.
void flush() {
  Group& all = group();
  if (all.depth > 0 || all.work.empty()) return;
  ++nccl_on_host().operations;
  auto* const stream = static_cast<ApartStream*>(reinterpret_cast<void*>(all.stream));
  stream->start([work = std::move(all.work)] {
    std::vector<MPI_Request> requests;
    for (const auto& one : work) one(requests);
    check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
  });
  all.work.clear();
}

/// Operations of a communicator that is aborted end, whatever they were at.
ncclResult_t enqueue(const char* function, ncclComm_t over, cudaStream_t stream,
                     std::function<void(std::vector<MPI_Request>&)> work) {
  if (fails(function)) return ncclInvalidArgument;
  if (stream == nullptr) return ncclInvalidUsage;
  group().stream = stream;
  group().work.push_back([work = std::move(work), aborted = over->aborted](auto& requests) {
    if (!*aborted) work(requests);
  });
  flush();
  return ncclSuccess;
}

MPI_Datatype native(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return MPI_UINT8_T;
    case ncclInt32:
      return MPI_INT32_T;
    case ncclInt64:
      return MPI_INT64_T;
    case ncclFloat32:
      return MPI_FLOAT;
    case ncclFloat64:
      return MPI_DOUBLE;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op native(ncclRedOp_t operation) {
  switch (operation) {
    case ncclSum:
      return MPI_SUM;
    case ncclProd:
      return MPI_PROD;
    case ncclMax:
      return MPI_MAX;
    case ncclMin:
      return MPI_MIN;
  }
  return MPI_OP_NULL;
}

const void* or_in_place(const void* send, const void* receive) {
  return send == receive ? MPI_IN_PLACE : send;
}

/// The sum from the last rank to the first.
template <class Number>
void sum_backwards(const void* send, void* receive, std::size_t length, MPI_Comm ranks) {
  const MPI_Datatype type = sizeof(Number) == sizeof(float) ? MPI_FLOAT : MPI_DOUBLE;
  const auto count = static_cast<int>(length);
  int size = 0;
  check(MPI_Comm_size(ranks, &size));
  std::vector<Number> all(length * static_cast<std::size_t>(size));
  check(MPI_Allgather(send, count, type, all.data(), count, type, ranks));
  for (std::size_t i = 0; i < length; ++i) {
    Number sum = 0;
    for (auto rank = static_cast<std::size_t>(size); rank > 0; --rank) {
      sum += all[(rank - 1) * length + i];
    }
    static_cast<Number*>(receive)[i] = sum;
  }
}

/// Whether it was added here, from the last rank to the first.
bool added_backwards(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                     ncclRedOp_t reduction, MPI_Comm ranks) {
  if (!nccl_on_host().adds_backwards || reduction != ncclSum) return false;
  if (type == ncclFloat32) sum_backwards<float>(send, receive, count, ranks);
  if (type == ncclFloat64) sum_backwards<double>(send, receive, count, ranks);
  return type == ncclFloat32 || type == ncclFloat64;
}

}  // namespace

NcclOnHost& nccl_on_host() {
  static NcclOnHost one;
  return one;
}

void fail_nccl_later() {
  failed_later = true;
}

}  // namespace meshwork::test

using namespace meshwork::test;

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

// The identifier is the rank, in the job, of who asks for it, and a number. The other ranks report
// to that one, which tells them who is there.
ncclResult_t ncclGetUniqueId(ncclUniqueId* identifier) {
  if (fails("ncclGetUniqueId")) return ncclSystemError;
  static int number = 0;
  int root = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &root));
  const int content[2] = {root, ++number % 1000 + 1000};
  std::memcpy(identifier->internal, content, sizeof content);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId identifier, int rank,
                                    ncclConfig_t* config) {
  if (fails("ncclCommInitRankConfig")) return ncclSystemError;
  if (config->blocking != 1) return ncclInvalidArgument;
  int content[2];
  std::memcpy(content, identifier.internal, sizeof content);
  const auto [root, tag] = std::pair(content[0], content[1]);
  int own[2] = {rank, 0};
  check(MPI_Comm_rank(MPI_COMM_WORLD, &own[1]));
  std::vector<int> members(static_cast<std::size_t>(ranks));
  if (own[1] == root) {
    members[static_cast<std::size_t>(rank)] = root;
    for (int i = 1; i < ranks; ++i) {
      int other[2];
      check(MPI_Recv(other, 2, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      members[static_cast<std::size_t>(other[0])] = other[1];
    }
    for (const int member : members) {
      if (member == root) continue;
      check(MPI_Send(members.data(), ranks, MPI_INT, member, tag, MPI_COMM_WORLD));
    }
  } else {
    check(MPI_Send(own, 2, MPI_INT, root, tag, MPI_COMM_WORLD));
    check(MPI_Recv(members.data(), ranks, MPI_INT, root, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  }
  MPI_Group world = MPI_GROUP_NULL, chosen = MPI_GROUP_NULL;
  check(MPI_Comm_group(MPI_COMM_WORLD, &world));
  check(MPI_Group_incl(world, ranks, members.data(), &chosen));
  *made = new ncclComm;
  check(MPI_Comm_create_group(MPI_COMM_WORLD, chosen, tag, &(*made)->ranks));
  check(MPI_Group_free(&chosen));
  check(MPI_Group_free(&world));
  ++nccl_on_host().communicators;
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t of, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config) {
  const bool failed = fails("ncclCommSplit");
  if (config->blocking != 1 || config->splitShare != 1) return ncclInvalidArgument;
  MPI_Comm ranks = MPI_COMM_NULL;
  check(
      MPI_Comm_split(of->ranks, color == NCCL_SPLIT_NOCOLOR ? MPI_UNDEFINED : color, key, &ranks));
  *made = nullptr;
  if (failed) return ncclSystemError;
  if (ranks == MPI_COMM_NULL) return ncclSuccess;
  *made = new ncclComm;
  (*made)->ranks = ranks;
  ++nccl_on_host().communicators;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t of) {
  check(MPI_Comm_free(&of->ranks));
  delete of;
  ++nccl_on_host().destroyed;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t of) {
  *of->aborted = true;
  note_given_back("a communicator");
  delete of;  // its communicator stays: freeing it could wait for others
  ++nccl_on_host().aborted;
  // Who tests this has no others that do.
  if (nccl_on_host().aborts_together) std::this_thread::sleep_for(std::chrono::hours(1));
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t /*of*/, ncclResult_t* error) {
  *error = failed_later ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "an error";
  }
}

const char* ncclGetLastError(ncclComm_t /*of*/) {
  return "of a library that is none";
}

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  --group().depth;
  if (fails("ncclGroupEnd")) return ncclInvalidUsage;
  flush();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t over, cudaStream_t stream) {
  return enqueue("ncclAllReduce", over, stream, [=, ranks = over->ranks](auto&) {
    if (added_backwards(send, receive, count, type, reduction, ranks)) return;
    check(MPI_Allreduce(or_in_place(send, receive), receive, static_cast<int>(count), native(type),
                        native(reduction), ranks));
  });
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t reduction, int root, ncclComm_t over, cudaStream_t stream) {
  return enqueue("ncclReduce", over, stream, [=, ranks = over->ranks](auto&) {
    std::vector<double> sum(count);  // large enough for either type
    if (added_backwards(send, sum.data(), count, type, reduction, ranks)) {
      int rank = 0;
      check(MPI_Comm_rank(ranks, &rank));
      if (rank == root) std::memcpy(receive, sum.data(), count * (type == ncclFloat32 ? 4 : 8));
      return;
    }
    check(MPI_Reduce(send, receive, static_cast<int>(count), native(type), native(reduction), root,
                     ranks));
  });
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t over, cudaStream_t stream) {
  return enqueue("ncclReduceScatter", over, stream, [=, ranks = over->ranks](auto&) {
    check(MPI_Reduce_scatter_block(send, receive, static_cast<int>(count), native(type),
                                   native(reduction), ranks));
  });
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t over, cudaStream_t stream) {
  return enqueue("ncclAllGather", over, stream, [=, ranks = over->ranks](auto&) {
    int rank = 0, bytes = 0;
    check(MPI_Comm_rank(ranks, &rank));
    check(MPI_Type_size(native(type), &bytes));
    const std::size_t own =
        static_cast<std::size_t>(rank) * count * static_cast<std::size_t>(bytes);
    const void* const place = static_cast<const char*>(receive) + own;
    check(MPI_Allgather(or_in_place(send, place), static_cast<int>(count), native(type), receive,
                        static_cast<int>(count), native(type), ranks));
  });
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t over, cudaStream_t stream) {
  return enqueue("ncclBroadcast", over, stream, [=, ranks = over->ranks](auto&) {
    int rank = 0, bytes = 0;
    check(MPI_Comm_rank(ranks, &rank));
    check(MPI_Type_size(native(type), &bytes));
    if (rank == root && send != receive) {
      std::memcpy(receive, send, count * static_cast<std::size_t>(bytes));
    }
    check(MPI_Bcast(receive, static_cast<int>(count), native(type), root, ranks));
  });
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t over, cudaStream_t stream) {
  return enqueue("ncclSend", over, stream,
                 [=, ranks = over->ranks](std::vector<MPI_Request>& requests) {
                   check(MPI_Isend(send, static_cast<int>(count), native(type), peer, 0, ranks,
                                   &requests.emplace_back(MPI_REQUEST_NULL)));
                 });
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t over,
                      cudaStream_t stream) {
  return enqueue("ncclRecv", over, stream,
                 [=, ranks = over->ranks](std::vector<MPI_Request>& requests) {
                   check(MPI_Irecv(receive, static_cast<int>(count), native(type), peer, 0, ranks,
                                   &requests.emplace_back(MPI_REQUEST_NULL)));
                 });
}
