// What a job of the worker runs on: its group, its steps, its exchange.

#ifndef CPFEED_CLIENT_WORKER_RANK_SETUP_H_
#define CPFEED_CLIENT_WORKER_RANK_SETUP_H_

#include <c10/core/Device.h>

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "client/worker/expected_batches.h"
#include "client/worker/fault.h"
#include "client/worker/step_source.h"
#include "client/worker/worker_environment.h"
#include "client/worker/worker_flags.h"
#include "core/attention/kv_exchange.h"
#include "core/comm/communicator.h"

namespace cpfeed {

struct RankSetup {
  std::shared_ptr<const KvExchange> exchange;
  Fault fault = Fault::kNone;
  c10::Device device = c10::kCPU;
  std::optional<ExpectedBatches> expected;  // Of rank 0.
  std::shared_ptr<Communicator> group;
  StepSource steps;
};

// Checks the flags, joins the group and attaches to the session.
//
// Errors: those of CheckWorkerFlags, MakeKvExchange, ExpectedBatches::Open,
// ChooseWorkerDevice, JoinWorkers and ResumingReader::Attach; and
//   UNIMPLEMENTED  The job cannot run on the device.
absl::StatusOr<RankSetup> SetUpRank(const WorkerFlags& flags,
                                    const WorkerEnvironment& environment);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_RANK_SETUP_H_
