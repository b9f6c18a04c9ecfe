#include "client/worker/rank_threads.h"

#include <ATen/Parallel.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/comm/gloo_communicator.h"
#include "core/comm/loopback_communicator.h"
#include "core/comm/rendezvous_store.h"

namespace cpfeed {
namespace {

using Group = std::vector<std::unique_ptr<Communicator>>;

// The ends of a Gloo group; every rank has a connection of its own, as
// processes have.
absl::StatusOr<Group> MakeGlooGroup(int size, absl::Duration timeout) {
  CF_ASSIGN_OR_RETURN(const auto host, RendezvousStore::Open(
                                           {.host = true, .timeout = timeout}));
  Group ends(size);
  std::vector<absl::Status> statuses(size);
  const auto join = [&](int rank) -> absl::Status {
    CF_ASSIGN_OR_RETURN(
        const auto store,
        RendezvousStore::Open({.port = host->port(), .timeout = timeout}));
    CF_ASSIGN_OR_RETURN(ends[rank],
                        JoinGlooGroup(store, {.rank = rank,
                                              .size = size,
                                              .comm = {.timeout = timeout},
                                              .join_timeout = timeout,
                                              .host_name = "127.0.0.1"}));
    return absl::OkStatus();
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] { statuses[rank] = join(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) CF_RETURN_IF_ERROR(status);
  return ends;
}

absl::StatusOr<Group> MakeGroup(const RankThreadsOptions& options) {
  if (options.transport == RankTransport::kGloo) {
    return MakeGlooGroup(options.num_ranks, options.timeout);
  }
  return MakeLoopbackGroup(options.num_ranks, {.timeout = options.timeout});
}

// Of a rank that another one let down.
bool IsEcho(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return reason == kPeerLate || reason == kPeerLost || reason == kGroupFailed;
}

}  // namespace

absl::Status RunRankThreads(
    const RankThreadsOptions& options,
    const std::function<absl::Status(std::shared_ptr<Communicator>)>& rank) {
  CF_ASSIGN_OR_RETURN(Group group, MakeGroup(options));
  // The ends live until all ranks are done: one that ends first has not left.
  std::vector<std::shared_ptr<Communicator>> ends;
  for (auto& end : group) ends.push_back(std::move(end));
  std::vector<absl::Status> statuses(options.num_ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < options.num_ranks; ++r) {
    threads.emplace_back([&, r] {
      at::set_num_threads(1);
      statuses[r] = rank(ends[r]);
      if (statuses[r].ok()) return;
      // The others need not wait for their timeout.
      for (const auto& end : ends) end->Abort(statuses[r].message());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    if (!IsEcho(status)) CF_RETURN_IF_ERROR(status);
  }
  for (const absl::Status& status : statuses) CF_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace cpfeed
