#include "server/metrics/call_counter.h"

#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "transport/grpc_status.h"

namespace cpfeed {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

class CallCounter final : public grpc::experimental::Interceptor {
 public:
  CallCounter(ServerMetrics& metrics, std::string path)
      : metrics_(metrics), path_(std::move(path)), begin_(absl::Now()) {
    metrics_.CountCallStart("unary", path_);
  }

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_STATUS)) {
      metrics_.CountCallEnd("unary", path_,
                            FromGrpcStatus(methods->GetSendStatus()));
      metrics_.ObserveCall(path_, absl::Now() - begin_);
    }
    methods->Proceed();
  }

 private:
  ServerMetrics& metrics_;
  const std::string path_;
  const absl::Time begin_;
};

}  // namespace

grpc::experimental::Interceptor* CallCounterFactory::CreateServerInterceptor(
    ServerRpcInfo* info) {
  if (info->type() != ServerRpcInfo::Type::UNARY) return nullptr;
  if (info->method() == nullptr) return nullptr;
  return new CallCounter(metrics_, info->method());
}

}  // namespace cpfeed
