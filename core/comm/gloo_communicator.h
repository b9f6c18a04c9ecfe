// A group of processes on CPUs, over TCP: c10d's Gloo process group.

#ifndef CPFEED_CORE_COMM_GLOO_COMMUNICATOR_H_
#define CPFEED_CORE_COMM_GLOO_COMMUNICATOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/comm/communicator.h"
#include "core/comm/rendezvous_store.h"

namespace cpfeed {

struct GlooOptions {
  int rank = 0;
  int size = 1;
  // The name must be new in the store: a group that failed leaves its traces
  // there.
  CommOptions comm;
  // How long to wait for the others to join: start-up takes longer than a step.
  absl::Duration join_timeout = absl::Minutes(5);
  // What the peers reach this process by: a network interface, else a host
  // name or address, else what the machine's own name resolves to.
  std::string interface_name;
  std::string host_name;
};

// Joins the group and returns when all ranks have done so.
//
// Errors:
//   DEADLINE_EXCEEDED  Ranks did not join within join_timeout (reason
//   PEER_LATE);
//                      the message lists them.
//   UNAVAILABLE        The store's host is gone, or a connection to a peer
//                      failed (reason PEER_LOST).
//   INVALID_ARGUMENT   The rank is not in [0, size).
absl::StatusOr<std::unique_ptr<Communicator>> JoinGlooGroup(
    const std::shared_ptr<RendezvousStore>& store, const GlooOptions& options);

}  // namespace cpfeed

#endif  // CPFEED_CORE_COMM_GLOO_COMMUNICATOR_H_
