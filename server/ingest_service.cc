#include "server/ingest_service.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/wire/batch_codec.h"
#include "core/wire/status_codec.h"
#include "server/admitted_batch.h"
#include "server/batch_digest.h"
#include "server/protocol.h"
#include "server/tensor_fields.h"
#include "server/wakeup.h"
#include "transport/grpc_status.h"

namespace cpfeed {
namespace {

// One incarnation for all small puts: they may follow one another, but not a
// loader that counts its own.
constexpr int64_t kUnaryIncarnation = 0;

absl::Status MemoryPressure(absl::string_view what) {
  return WithRetryDelay(
      MakeError(absl::StatusCode::kResourceExhausted, kMemoryPressure, what),
      absl::Milliseconds(500));
}

}  // namespace

grpc::Status IngestServiceImpl::PutBatch(grpc::ServerContext* context,
                                         const v1::PutBatchRequest* request,
                                         v1::PutBatchResponse* response) {
  auto receipt = Put(*context, *request);
  if (!receipt.ok()) {
    metrics_.CountRejected(receipt.status());
    return ToGrpcStatus(receipt.status());
  }
  *response->mutable_receipt() = *std::move(receipt);
  return grpc::Status::OK;
}

absl::StatusOr<v1::BatchReceipt> IngestServiceImpl::Put(
    const grpc::ServerContext& context, const v1::PutBatchRequest& request) {
  CF_ASSIGN_OR_RETURN(const Caller caller, CallerOf(authenticator_, context));
  CF_ASSIGN_OR_RETURN(const std::shared_ptr<SessionHost> host,
                      registry_.FindToOpen(request.session(), caller));
  Wakeup wakeup;
  auto opened = host->OpenProducer(ProducerOrDefault(request.producer()),
                                   kUnaryIncarnation, &wakeup);
  if (!opened.ok()) {
    if (ReasonOf(opened.status()) != kFenced) return opened.status();
    return MakeError(
        absl::StatusCode::kFailedPrecondition, kFenced,
        absl::StrCat("producer ", ProducerOrDefault(request.producer()),
                     " has a stream, or had one; PutBatch is for "
                     "producers without"));
  }
  const auto close =
      absl::MakeCleanup([&] { host->CloseProducer(opened->connection); });
  v1::BatchReceipt receipt;
  if (!request.rows().empty() || !request.tensors().empty() ||
      !request.finish()) {
    CF_ASSIGN_OR_RETURN(receipt, PutOn(context, *host, opened->connection,
                                       opened->next_sequence, request));
  }
  if (request.finish()) {
    const bool accepted =
        receipt.outcome() == v1::BatchReceipt::OUTCOME_ACCEPTED ||
        receipt.outcome() == v1::BatchReceipt::OUTCOME_SKIPPED;
    CF_RETURN_IF_ERROR(host->Finish(
        opened->connection, opened->next_sequence + (accepted ? 1 : 0)));
  }
  return receipt;
}

absl::StatusOr<v1::BatchReceipt> IngestServiceImpl::PutOn(
    const grpc::ServerContext& context, SessionHost& host, int64_t connection,
    int64_t next_sequence, const v1::PutBatchRequest& request) {
  CF_ASSIGN_OR_RETURN(WireBatch batch, DecodeSmallBatch(request));
  EncodedBatch encoded = EncodeBatch(batch.batch, batch.producer_state);
  encoded.header.set_data_epoch(request.data_epoch());
  CF_ASSIGN_OR_RETURN(
      const int64_t bytes,
      CheckBatchHeader(encoded.header, host.spec().config.max_batch_bytes));
  CF_RETURN_IF_ERROR(CheckFieldsOfBatch(host.spec().session, encoded.header));
  CF_ASSIGN_OR_RETURN(const uint64_t digest, BatchDigest(encoded.header));
  v1::BatchReceipt receipt;
  receipt.set_sequence(request.has_sequence() ? request.sequence()
                                              : next_sequence);
  absl::StatusOr<Admission> admission =
      host.Admit(connection, receipt.sequence(), digest, bytes,
                 bytes * kCostPerPayloadByte);
  if (!admission.ok() && ReasonOf(admission.status()) == kProtocolError) {
    return MemoryPressure(
        absl::StrCat("session memory is full: ", admission.status().message(),
                     "; retry when consumers have read"));
  }
  CF_RETURN_IF_ERROR(admission.status());
  if (admission->duplicate) {
    metrics_.CountDuplicate();
    receipt.set_outcome(v1::BatchReceipt::OUTCOME_DUPLICATE);
    receipt.set_step(admission->step);
    return receipt;
  }
  // Asked before each stage: the place to end where nobody waits any more.
  const auto charge = [&](int64_t cost) -> absl::Status {
    if (context.IsCancelled())
      return absl::CancelledError("the caller is gone");
    CF_ASSIGN_OR_RETURN(const bool charged,
                        host.Recharge(connection, receipt.sequence(), cost));
    if (charged) return absl::OkStatus();
    return MemoryPressure(
        absl::StrCat("session memory cannot take ", cost,
                     " bytes now; retry when consumers have read"));
  };
  CF_RETURN_IF_ERROR(ConvertAndComplete(host,
                                        {.connection = connection,
                                         .sequence = receipt.sequence(),
                                         .batch_id = request.batch_id(),
                                         .data_epoch = request.data_epoch(),
                                         .batch = std::move(batch),
                                         .payload = std::move(encoded.payload)},
                                        backend_, metrics_, charge));
  receipt.set_outcome(v1::BatchReceipt::OUTCOME_ACCEPTED);
  receipt.set_step(-1);  // It waits for its turn.
  for (const auto& settled : host.TakePublished(connection)) {
    if (settled.sequence != receipt.sequence()) continue;
    receipt.set_step(settled.step);
    if (settled.poison.ok()) continue;
    receipt.set_outcome(v1::BatchReceipt::OUTCOME_SKIPPED);
    *receipt.mutable_status() = StatusToProto(settled.poison);
  }
  return receipt;
}

}  // namespace cpfeed
