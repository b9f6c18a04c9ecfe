// The flags of the worker's jobs.

#ifndef CPFEED_CLIENT_WORKER_WORKER_FLAGS_H_
#define CPFEED_CLIENT_WORKER_WORKER_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/channel_security.h"
#include "client/worker/attention_shape.h"
#include "client/worker/fault.h"
#include "client/worker/model/model_job.h"
#include "core/attention/make_kv_exchange.h"

namespace cpfeed {

struct WorkerFlags {
  std::string job = "attention";
  std::string server = "127.0.0.1:8470";
  ChannelSecurity security;
  std::string session;
  int consumer = 0;
  std::string exchange = "ring";
  KvExchangeOptions exchange_options;
  std::optional<int64_t> steps;
  std::string check;
  std::string inject;
  AttentionShape shape;
  double learning_rate = ModelJobOptions().learning_rate;
  uint64_t seed = ModelJobOptions().seed;
  double tolerance = 1e-5;
  double timeout_seconds = 60;
  double server_wait_seconds = 600;
  int threads = 1;
  std::string device = "cpu";
  int cuda_device = 0;
  bool json = false;
};

// Adds options, environment variables and help of all of them; `flags` outlives
// the parsing.
void AddWorkerFlags(CLI::App& app, WorkerFlags& flags);

// What no single option can be wrong about.
//
// Errors:
//   INVALID_ARGUMENT  The flags do not fit each other (BAD_OPTION); the message
//                     names them.
absl::Status CheckWorkerFlags(const WorkerFlags& flags, Fault fault, int rank);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_WORKER_FLAGS_H_
