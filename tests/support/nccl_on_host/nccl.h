// The few functions of NCCL that the NCCL transport calls, for hosts without GPUs: as nccl.h
// declares them, made of MPI (nccl.cpp). A stream is one of a device that is apart
// (apart_queues.h): an operation is done when something waits for it, and on that device's memory.
//
// It is the transport that is tested with it; NCCL is not.
#pragma once

#include <climits>
#include <cstddef>

extern "C" {

typedef struct CUstream_st* cudaStream_t;
typedef struct ncclComm* ncclComm_t;
typedef struct {
  char internal[128];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
} ncclResult_t;
typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3 } ncclRedOp_t;
typedef enum {
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt64 = 4,
  ncclFloat32 = 7,
  ncclFloat64 = 8
} ncclDataType_t;

typedef struct {
  int blocking;
  int splitShare;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER \
  { INT_MIN, INT_MIN }
#define NCCL_SPLIT_NOCOLOR -1

ncclResult_t ncclGetVersion(int* version);
ncclResult_t ncclGetUniqueId(ncclUniqueId* identifier);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId identifier, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommSplit(ncclComm_t of, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config);
ncclResult_t ncclCommDestroy(ncclComm_t of);
ncclResult_t ncclCommAbort(ncclComm_t of);
ncclResult_t ncclCommGetAsyncError(ncclComm_t of, ncclResult_t* error);
const char* ncclGetErrorString(ncclResult_t code);
const char* ncclGetLastError(ncclComm_t of);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t over, cudaStream_t stream);
ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t reduction, int root, ncclComm_t over, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t over, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t over, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t over, cudaStream_t stream);
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t over, cudaStream_t stream);
ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t over,
                      cudaStream_t stream);
}
