#include "client/worker/rank_setup.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/channel.h"
#include "client/resuming_reader.h"
#include "client/worker/worker_device.h"
#include "core/attention/make_kv_exchange.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {

absl::StatusOr<RankSetup> SetUpRank(const WorkerFlags& flags,
                                    const WorkerEnvironment& environment) {
  RankSetup setup;
  CF_ASSIGN_OR_RETURN(setup.fault, ParseFault(flags.inject));
  CF_RETURN_IF_ERROR(
      CheckWorkerFlags(flags, setup.fault, environment.cp_rank()));
  CF_ASSIGN_OR_RETURN(setup.exchange,
                      MakeKvExchange(flags.exchange, flags.exchange_options));
  if (!flags.check.empty() && environment.cp_rank() == 0) {
    CF_ASSIGN_OR_RETURN(setup.expected, ExpectedBatches::Open(flags.check));
  }
  const absl::Duration timeout = absl::Seconds(flags.timeout_seconds);
  CF_ASSIGN_OR_RETURN(setup.device,
                      ChooseWorkerDevice(flags.device, flags.cuda_device));
  if (flags.job == "model" && !setup.device.is_cpu()) {
    return MakeError(absl::StatusCode::kUnimplemented, kNotSupported,
                     "the model job runs on the CPU; must be --device=cpu");
  }
  std::optional<int> cuda_device;
  if (setup.device.is_cuda()) cuda_device = flags.cuda_device;
  CF_ASSIGN_OR_RETURN(setup.group,
                      JoinWorkers(environment, timeout, cuda_device));
  CF_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                      OpenChannel(flags.server, flags.security));
  ResumingReaderOptions options;
  options.reader = {.session = absl::StartsWith(flags.session, "sessions/")
                                   ? flags.session
                                   : absl::StrCat("sessions/", flags.session),
                    .cp_rank = environment.cp_rank(),
                    .consumer = flags.consumer,
                    .cp_size = environment.cp_size(),
                    .session_wait = timeout};
  options.retry.give_up_after = absl::Seconds(flags.server_wait_seconds);
  CF_ASSIGN_OR_RETURN(auto reader,
                      ResumingReader::Attach(channel, std::move(options)));
  setup.steps = StepsOf(std::move(reader));
  return setup;
}

}  // namespace cpfeed
