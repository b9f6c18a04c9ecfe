// What a launcher such as torchrun tells a worker.

#ifndef CPFEED_CLIENT_WORKER_WORKER_ENVIRONMENT_H_
#define CPFEED_CLIENT_WORKER_WORKER_ENVIRONMENT_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/worker/job_place.h"
#include "core/comm/communicator.h"

namespace cpfeed {

struct WorkerEnvironment {
  int rank = 0;                           // RANK
  int world_size = 1;                     // WORLD_SIZE
  std::string master_addr = "127.0.0.1";  // MASTER_ADDR
  int master_port = 29500;                // MASTER_PORT
  // TORCHELASTIC_USE_AGENT_STORE: the launcher serves the store; else rank 0
  // does.
  bool agent_store = false;
  int restart = 0;             // TORCHELASTIC_RESTART_COUNT
  std::string interface_name;  // GLOO_SOCKET_IFNAME
  // With CPFEED_MESH: where in the job's mesh this rank is.
  std::optional<JobPlace> place;

  // Within the context-parallel group; it is the world where there is no mesh.
  int cp_rank() const { return place ? place->cp_rank : rank; }
  int cp_size() const { return place ? place->cp_size : world_size; }
};

// Variables that are not set keep the defaults above: one rank.
//
// Errors:
//   INVALID_ARGUMENT  A number is none or out of range, or the mesh does not
//   fit;
//                     the message names the variable.
absl::StatusOr<WorkerEnvironment> ReadWorkerEnvironment(
    const Environment& environment);

// Joins the context-parallel group: over Gloo, or over NCCL for ranks that
// compute on a GPU each, this one on `cuda_device`; a single rank needs
// neither. Groups of different restarts have different names. Where rank 0
// serves the store, it returns there when all ranks of the world have joined
// their groups.
//
// Errors: those of RendezvousStore::Open, JoinGlooGroup and JoinNcclGroup.
absl::StatusOr<std::unique_ptr<Communicator>> JoinWorkers(
    const WorkerEnvironment& environment, absl::Duration timeout,
    std::optional<int> cuda_device = std::nullopt);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_WORKER_ENVIRONMENT_H_
