// A group whose ranks are threads of this process.

#ifndef CPFEED_CLIENT_WORKER_RANK_THREADS_H_
#define CPFEED_CLIENT_WORKER_RANK_THREADS_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/comm/communicator.h"

namespace cpfeed {

// How they reach each other.
enum class RankTransport { kLoopback, kGloo };

struct RankThreadsOptions {
  int num_ranks = 1;
  RankTransport transport = RankTransport::kLoopback;
  absl::Duration timeout = absl::Minutes(1);  // Of each wait for a rank.
};

// Runs `rank` on a thread for each end of a new group, one compute thread each.
// A rank that fails aborts all ends. Returns the first error by rank that is
// not merely that another rank failed.
//
// Errors: those of `rank`, and of joining a Gloo group on 127.0.0.1.
absl::Status RunRankThreads(
    const RankThreadsOptions& options,
    const std::function<absl::Status(std::shared_ptr<Communicator>)>& rank);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_RANK_THREADS_H_
