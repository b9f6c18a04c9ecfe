// IngestService: the stream goes through a StreamAcceptor, the small put is
// here.

#ifndef CPFEED_SERVER_INGEST_SERVICE_H_
#define CPFEED_SERVER_INGEST_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/statusor.h"
#include "cpfeed/v1/ingest.grpc.pb.h"
#include "server/auth/authenticator.h"
#include "server/batch_converter.h"
#include "server/metrics/server_metrics.h"
#include "server/session_registry.h"

namespace cpfeed {

class IngestServiceImpl final
    : public v1::IngestService::WithRawMethod_PutBatches<
          v1::IngestService::Service> {
 public:
  IngestServiceImpl(SessionRegistry& registry, const ConversionBackend& backend,
                    ServerMetrics& metrics, Authenticator* authenticator)
      : registry_(registry),
        backend_(backend),
        metrics_(metrics),
        authenticator_(authenticator) {}

  grpc::Status PutBatch(grpc::ServerContext* context,
                        const v1::PutBatchRequest* request,
                        v1::PutBatchResponse* response) override;

 private:
  absl::StatusOr<v1::BatchReceipt> Put(const grpc::ServerContext& context,
                                       const v1::PutBatchRequest& request);
  absl::StatusOr<v1::BatchReceipt> PutOn(const grpc::ServerContext& context,
                                         SessionHost& host, int64_t connection,
                                         int64_t next_sequence,
                                         const v1::PutBatchRequest& request);

  SessionRegistry& registry_;
  const ConversionBackend backend_;
  ServerMetrics& metrics_;
  Authenticator* const authenticator_;
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_INGEST_SERVICE_H_
