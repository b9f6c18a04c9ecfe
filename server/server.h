// The whole server: services, streams, start and stop.

#ifndef CPFEED_SERVER_SERVER_H_
#define CPFEED_SERVER_SERVER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/shard/shard_executor.h"
#include "server/health_service.h"
#include "server/ingest_service.h"
#include "server/metrics/http_listener.h"
#include "server/metrics/server_metrics.h"
#include "server/metrics/session_metrics.h"
#include "server/plan_service.h"
#include "server/session_registry.h"
#include "server/session_service.h"
#include "server/shard_service.h"
#include "transport/stream_acceptor.h"

namespace cpfeed {

struct ServerOptions {
  std::string listen = "127.0.0.1:8470";  // Port 0 picks a free one.
  RegistryOptions registry;
  int max_unary_threads = 64;
  bool reflection = true;
  // "host:port" with a numeric host; empty serves none.
  std::string metrics_listen;
  std::string status_listen;
  // Sessions with metrics of their own.
  int max_labelled_sessions = 64;
  // How long open streams may take to end when the server stops.
  absl::Duration drain_timeout = absl::Seconds(30);
};

class Server {
 public:
  // Starts serving.
  //
  // Errors:
  //   UNAVAILABLE  The address cannot be bound; the message has it.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);

  // As Stop().
  ~Server();

  // The bound port.
  int port() const { return port_; }
  // Of the HTTP listeners; 0 where there is none.
  int metrics_port() const;
  int status_port() const;
  SessionRegistry& registry() { return registry_; }

  // Refuses new sessions and streams, ends the open ones with UNAVAILABLE and
  // reason DRAINING, and waits for them.
  void Stop();

 private:
  explicit Server(ServerOptions options);
  absl::Status Build();
  absl::Status StartHttp();
  void StartStreams(grpc::ServerBuilder& builder);
  absl::Status CountStream(absl::string_view path,
                           absl::FunctionRef<absl::Status()> run);
  ServerGauges Gauges() const;
  std::string RenderMetrics() const;

  const ServerOptions options_;
  const std::string instance_;  // Differs after each start.
  SessionRegistry registry_;
  ServerMetrics metrics_;
  SessionMetrics session_metrics_;
  std::unique_ptr<ShardExecutor> executor_;
  SessionServiceImpl session_service_;
  IngestServiceImpl ingest_service_;
  ShardServiceImpl shard_service_;
  PlanServiceImpl plan_service_;
  HealthServiceImpl health_service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<StreamAcceptor> ingest_streams_;
  std::unique_ptr<StreamAcceptor> shard_streams_;
  std::unique_ptr<HttpListener> metrics_listener_;
  std::unique_ptr<HttpListener> status_listener_;
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_SERVER_H_
