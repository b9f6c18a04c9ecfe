// A group of processes with a GPU each, by NCCL.

#ifndef CPFEED_CORE_COMM_NCCL_COMMUNICATOR_H_
#define CPFEED_CORE_COMM_NCCL_COMMUNICATOR_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/comm/communicator.h"
#include "core/comm/device_memory.h"
#include "core/comm/rendezvous_store.h"

namespace cpfeed {

// The stream (a cudaStream_t) on which the caller computes at this moment.
using ComputeStream = std::function<void*()>;

struct NcclOptions {
  int rank = 0;
  int size = 1;
  int cuda_device = 0;  // Of those that the process sees; no other rank's.
  // The name must be new in the store: rank 0 puts the group's id there.
  CommOptions comm;
  // How long to wait for the others to join.
  absl::Duration join_timeout = absl::Minutes(5);
  // The default stream where it is empty.
  ComputeStream compute_stream;
};

// Joins the group and returns when all ranks have done so. Binds the calling
// thread, which is to use the group, to the device.
//
// Parts of exchanges may be in the device's or in the host's memory:
//   device  An exchange runs on a stream of the group's own, behind what is
//           queued on the compute stream when it starts. Wait() makes the
//           compute stream wait and returns at once, so that a step never
//           stops the host; an exchange is complete when the compute stream
//           has passed.
//   host    Staged in device memory; Wait() waits. For small things, such as
//           agreements.
// All sends and receives of an exchange are one NCCL group, so that no order of
// ranks hangs.
//
// A thread asks NCCL for errors that come up meanwhile. Where there is one, or
// an exchange takes longer than the timeout, it aborts the group: kernels that
// wait for a peer end, and the next call on the group returns the error.
//
// Errors:
//   UNIMPLEMENTED      Built without --config=cuda (reason NOT_SUPPORTED).
//   UNAVAILABLE        No such device (NOT_SUPPORTED), or the store's host is
//                      gone, or NCCL failed (reason PEER_LOST).
//   DEADLINE_EXCEEDED  Ranks did not join within join_timeout (PEER_LATE).
//   INVALID_ARGUMENT   The rank is not in [0, size).
absl::StatusOr<std::unique_ptr<Communicator>> JoinNcclGroup(
    const std::shared_ptr<RendezvousStore>& store, const NcclOptions& options);

// The memory of CUDA devices, for StageOnHost. In a build without CUDA no
// address is a device's.
DeviceMemory CudaDeviceMemory(ComputeStream compute_stream);

}  // namespace cpfeed

#endif  // CPFEED_CORE_COMM_NCCL_COMMUNICATOR_H_
