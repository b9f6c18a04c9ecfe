// Which session, server, rank and consumer a process of a job is, out of its
// rank in the job and the job's mesh.

#ifndef CPFEED_CLIENT_WORKER_JOB_PLACE_H_
#define CPFEED_CLIENT_WORKER_JOB_PLACE_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace cpfeed {

// The value of an environment variable, if it is set.
using Environment =
    std::function<std::optional<std::string>(const std::string& name)>;

struct JobPlace {
  int cp_rank = 0;
  int cp_size = 1;
  int consumer = 0;
  // Ranks that read one session as one consumer number form a group; groups are
  // numbered by dp_rank, then by consumer.
  int group = 0;
  int num_groups = 1;
  std::string session;
  std::string server;
};

// Of CPFEED_MESH, CPFEED_SERVER, CPFEED_REPLICAS (1) and CPFEED_JOB (train);
// nothing where CPFEED_MESH is not set.
//
// A mesh names its dimensions, outer to inner. All whose names begin with "dp"
// together give dp_rank; "cp" is the context-parallel rank; those that are left
// hold consumers, which read the same shards. The session is {job}-dp{dp_rank}.
// It lives on the server whose number, dp_rank modulo the replicas, takes the
// place of "{ordinal}" in CPFEED_SERVER.
//
// Example: mesh "dp=2,cp=4,tp=2", rank 11, job "train", 2 replicas of
// "dns:///cpfeed-{ordinal}.cpfeed:8470"
//   dp_rank 1, cp_rank 1, consumer 1; session train-dp1 on
//   dns:///cpfeed-1.cpfeed:8470
//
// Errors:
//   INVALID_ARGUMENT  A variable is wrong; the message names it.
absl::StatusOr<std::optional<JobPlace>> ReadJobPlace(
    const Environment& environment, int rank, int world_size);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_JOB_PLACE_H_
