// Counts unary calls, whichever service they are of.

#ifndef CPFEED_SERVER_METRICS_CALL_COUNTER_H_
#define CPFEED_SERVER_METRICS_CALL_COUNTER_H_

#include <grpcpp/support/server_interceptor.h>

#include "server/metrics/server_metrics.h"

namespace cpfeed {

// Streams are left out: an interceptor would be called for each of their
// messages. Who handles them counts them.
class CallCounterFactory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // `metrics` outlives the server.
  explicit CallCounterFactory(ServerMetrics& metrics) : metrics_(metrics) {}

  // Null for streams, and for methods that the server does not have: callers
  // could make up names without end.
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override;

 private:
  ServerMetrics& metrics_;
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_METRICS_CALL_COUNTER_H_
