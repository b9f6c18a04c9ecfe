#include "server/admitted_batch.h"

#include <exception>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "server/event_log.h"

namespace cpfeed {
namespace {

// What a library throws is the batch's fault, not the server's end.
absl::StatusOr<Conversion> ConvertGuarded(const SessionHost& host,
                                          AdmittedBatch& admitted,
                                          const ConversionBackend& backend,
                                          const ChargeMemory& charge) {
  try {
    return ConvertBatch(std::move(admitted.batch), std::move(admitted.payload),
                        host.spec().sharding, host.spec().config.cp_size,
                        backend, charge);
  } catch (const std::exception& error) {
    return absl::InternalError(
        absl::StrCat("conversion failed: ", error.what()));
  }
}

}  // namespace

absl::Status ConvertAndComplete(SessionHost& host, AdmittedBatch admitted,
                                const ConversionBackend& backend,
                                ServerMetrics& metrics,
                                const ChargeMemory& charge) {
  ConvertedBatch poisoned{.batch_id = admitted.batch_id,
                          .data_epoch = admitted.data_epoch,
                          .producer_state = admitted.batch.producer_state};
  absl::StatusOr<Conversion> converted =
      ConvertGuarded(host, admitted, backend, charge);
  if (absl::IsInternal(converted.status())) {
    const absl::Status why = MakeError(absl::StatusCode::kInternal, kPoisoned,
                                       converted.status().message());
    EventLog("batch_quarantined")
        .Add("session", host.spec().name)
        .Add("sequence", admitted.sequence)
        .Add(why)
        .Info();
    return host.Quarantine(admitted.connection, admitted.sequence,
                           std::move(poisoned), why);
  }
  CF_RETURN_IF_ERROR(converted.status());
  Conversion& conversion = *converted;
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
