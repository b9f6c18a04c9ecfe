#include "server/admitted_batch.h"

#include <utility>

#include "core/base/status_macros.h"

namespace cpfeed {

absl::Status ConvertAndComplete(SessionHost& host, AdmittedBatch admitted,
                                const ConversionBackend& backend,
                                ServerMetrics& metrics,
                                const ChargeMemory& charge) {
  CF_ASSIGN_OR_RETURN(
      Conversion conversion,
      ConvertBatch(std::move(admitted.batch), std::move(admitted.payload),
                   host.spec().sharding, host.spec().config.cp_size, backend,
                   charge));
  conversion.batch.batch_id = std::move(admitted.batch_id);
  conversion.batch.data_epoch = admitted.data_epoch;
  metrics.Observe(Stage::kPlan, conversion.facts.planning);
  metrics.Observe(Stage::kShard, conversion.facts.sharding);
  CF_RETURN_IF_ERROR(host.Complete(admitted.connection, admitted.sequence,
                                   conversion.cost_bytes,
                                   std::move(conversion.batch)));
  metrics.CountAccepted(conversion.facts);
  return absl::OkStatus();
}

}  // namespace cpfeed
