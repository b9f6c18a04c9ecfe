#include "client/worker/worker_environment.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/comm/gloo_communicator.h"
#include "core/comm/loopback_communicator.h"
#include "core/comm/nccl_communicator.h"
#include "core/comm/rendezvous_store.h"
#include "core/comm/staged_communicator.h"

namespace cpfeed {
namespace {

// Reads the variable into `number` if it is set.
absl::Status ReadNumber(const Environment& environment, const std::string& name,
                        int least, int most, int& number) {
  const std::optional<std::string> text = environment(name);
  if (!text) return absl::OkStatus();
  if (absl::SimpleAtoi(*text, &number) && number >= least && number <= most) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      kBadOption, absl::StrCat(name, " is \"", *text, "\"; must be in [", least,
                               ", ", most, "]"));
}

// Says that this rank has joined its group. The one that serves the store waits
// until all have, as they need the store for it.
absl::Status HaveJoined(RendezvousStore& store,
                        const WorkerEnvironment& environment, bool hosts,
                        absl::Duration timeout) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < environment.world_size; ++rank) {
    keys.push_back(absl::StrCat("joined.", environment.restart, ".", rank));
  }
  CF_RETURN_IF_ERROR(store.Set(keys[environment.rank], "1"));
  return hosts ? store.Wait(keys, timeout) : absl::OkStatus();
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || absl::StartsWith(host, "127.");
}

}  // namespace

absl::StatusOr<WorkerEnvironment> ReadWorkerEnvironment(
    const Environment& environment) {
  WorkerEnvironment read;
  const auto number = [&](const std::string& name, int least, int most,
                          int& into) {
    return ReadNumber(environment, name, least, most, into);
  };
  CF_RETURN_IF_ERROR(number("WORLD_SIZE", 1, INT16_MAX, read.world_size));
  CF_RETURN_IF_ERROR(number("RANK", 0, read.world_size - 1, read.rank));
  CF_RETURN_IF_ERROR(number("MASTER_PORT", 1, UINT16_MAX, read.master_port));
  CF_RETURN_IF_ERROR(
      number("TORCHELASTIC_RESTART_COUNT", 0, INT32_MAX, read.restart));
  read.master_addr = environment("MASTER_ADDR").value_or(read.master_addr);
  read.interface_name = environment("GLOO_SOCKET_IFNAME").value_or("");
  read.agent_store =
      environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  CF_ASSIGN_OR_RETURN(read.place,
                      ReadJobPlace(environment, read.rank, read.world_size));
  return read;
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinWorkers(
    const WorkerEnvironment& environment, absl::Duration timeout,
    std::optional<int> cuda_device) {
  if (environment.cp_size() == 1) {
    return StageOnHost(std::move(MakeLoopbackGroup(1, {.timeout = timeout})[0]),
                       CudaDeviceMemory({}));
  }
  const bool hosts = environment.rank == 0 && !environment.agent_store;
  CF_ASSIGN_OR_RETURN(const auto store,
                      RendezvousStore::Open({.address = environment.master_addr,
                                             .port = environment.master_port,
                                             .host = hosts,
                                             .timeout = timeout}));
  std::string name = absl::StrCat("cp.", environment.restart);
  if (environment.place) absl::StrAppend(&name, ".", environment.place->group);
  GlooOptions options{.rank = environment.cp_rank(),
                      .size = environment.cp_size(),
                      .comm = {.group_name = name, .timeout = timeout},
                      .join_timeout = timeout,
                      .interface_name = environment.interface_name};
  // All on one machine: its own name need not resolve.
  if (IsLoopback(environment.master_addr)) options.host_name = "127.0.0.1";
  std::unique_ptr<Communicator> joined;
  if (cuda_device) {
    CF_ASSIGN_OR_RETURN(joined,
                        JoinNcclGroup(store, {.rank = options.rank,
                                              .size = options.size,
                                              .cuda_device = *cuda_device,
                                              .comm = options.comm,
                                              .join_timeout = timeout}));
  } else {
    CF_ASSIGN_OR_RETURN(joined, JoinGlooGroup(store, options));
  }
  if (environment.cp_size() < environment.world_size) {
    CF_RETURN_IF_ERROR(HaveJoined(*store, environment, hosts, timeout));
  }
  return joined;
}

}  // namespace cpfeed
