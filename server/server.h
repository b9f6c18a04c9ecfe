// The whole server: services, streams, start and stop.

#ifndef CPFEED_SERVER_SERVER_H_
#define CPFEED_SERVER_SERVER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "core/plan/plan_cache.h"
#include "core/shard/cuda/shard_device.h"
#include "server/admin_service.h"
#include "server/auth/authenticator.h"
#include "server/auth/tls.h"
#include "server/auth/use_counter.h"
#include "server/batch_converter.h"
#include "server/health_service.h"
#include "server/ingest_service.h"
#include "server/metrics/http_listener.h"
#include "server/metrics/server_metrics.h"
#include "server/metrics/session_metrics.h"
#include "server/plan_service.h"
#include "server/session_registry.h"
#include "server/session_service.h"
#include "server/shard_service.h"
#include "transport/channel_settings.h"
#include "transport/stream_acceptor.h"

namespace cpfeed {

struct ServerOptions {
  std::string listen = "127.0.0.1:8470";  // Port 0 picks a free one.
  RegistryOptions registry;
  PlanCacheOptions plans;
  // Cuts the shards; null takes the one of shard_device.
  std::shared_ptr<const ShardExecutor> executor;
  int max_unary_threads = 64;
  // Bytes of a stream that gRPC takes before they are asked for; 0: as it sees
  // fit, without a bound.
  int stream_window_bytes = kLookaheadBytes;
  bool reflection = true;
  TlsFiles tls;
  // Who may do what; empty asks nobody. Needs TLS.
  std::string auth_file;
  // A second, plain address for health checks alone; empty serves none.
  std::string probe_listen;
  // Another plain address, for gRPC's channelz alone; empty serves none.
  std::string channelz_listen;
  // "host:port" with a numeric host; empty serves none.
  std::string metrics_listen;
  std::string status_listen;
  // Sessions with metrics of their own.
  int max_labelled_sessions = 64;
  // What cuts batches. A lost GPU is told of by its on_lost, from any thread:
  // the owner then calls Fail() and Stop().
  ShardDeviceOptions shard_device;
  // How long stopping may take. Streams that have not delivered what is
  // complete by then are cut.
  absl::Duration drain_budget = absl::Seconds(30);
  // How long readiness is off before streams are told, so that nobody is sent
  // here any more.
  absl::Duration drain_delay;
};

class Server {
 public:
  // Starts serving.
  //
  // Errors:
  //   UNAVAILABLE       An address cannot be bound, or a file not read; the
  //                     message has it.
  //   INVALID_ARGUMENT  The auth file is wrong, or there without TLS.
  //   others            Of OpenShardDevice.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);

  // As Stop().
  ~Server();

  // The bound port.
  int port() const { return port_; }
  // Of the other listeners; 0 where there is none.
  int probe_port() const { return probe_port_; }
  int channelz_port() const { return channelz_port_; }
  int metrics_port() const;
  int status_port() const;
  SessionRegistry& registry() { return registry_; }

  // Refuses new sessions and streams; tells the open ones, which end with
  // UNAVAILABLE and reason DRAINING when they have delivered what is complete.
  void Drain();

  // The reverse.
  //
  // Errors:
  //   FAILED_PRECONDITION  The server stops.
  absl::Status Undrain();

  // What cuts batches, and why it was chosen.
  const std::string& shard_device() const { return device_.why; }

  // Turns liveness off: this process must be replaced. Goes on serving.
  void Fail();

  // Drains, waits for the streams, and ends. Liveness stays as it is.
  void Stop();

  // Makes Stop end at once. From any thread.
  void Hurry();

 private:
  Server(ServerOptions options, std::unique_ptr<Authenticator> authenticator,
         ShardDevice device);
  void SetState(ServingState state);
  absl::Status Build();
  void WaitForStreams(absl::Time deadline);
  AdminHooks MakeAdminHooks();
  absl::Status OpenDoors(grpc::ServerBuilder& builder);
  absl::Status StartProbe();
  absl::Status StartChannelz();
  absl::Status StartHttp();
  void StartStreams(grpc::ServerBuilder& builder);
  absl::Status RunStream(absl::string_view path, ServerCall& call,
                         absl::FunctionRef<absl::Status(const Caller&)> run);
  ServerGauges Gauges() const;
  ConversionBackend Backend() {
    return {
        options_.executor != nullptr ? *options_.executor : *device_.executor,
        plans_};
  }
  std::string RenderMetrics() const;
  void SweepLoop();

  const ServerOptions options_;
  const std::string instance_;                    // Differs after each start.
  std::unique_ptr<Authenticator> authenticator_;  // Null: nobody is asked.
  UseCounter streams_{"streams"};
  SessionRegistry registry_;
  ServerMetrics metrics_;
  SessionMetrics session_metrics_;
  PlanCache plans_;
  const ShardDevice device_;
  SessionServiceImpl session_service_;
  IngestServiceImpl ingest_service_;
  ShardServiceImpl shard_service_;
  PlanServiceImpl plan_service_;
  AdminServiceImpl admin_service_;
  HealthServiceImpl health_service_;
  HealthServiceImpl probe_service_;
  int port_ = 0;
  int probe_port_ = 0;
  std::unique_ptr<grpc::Server> probe_server_;
  int channelz_port_ = 0;
  std::unique_ptr<grpc::Server> channelz_server_;
  std::atomic<bool> failing_ = false;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> hurried_ = false;
  absl::Notification hurry_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<StreamAcceptor> ingest_streams_;
  std::unique_ptr<StreamAcceptor> shard_streams_;
  std::unique_ptr<HttpListener> metrics_listener_;
  std::unique_ptr<HttpListener> status_listener_;
  absl::Notification swept_;
  std::thread sweeper_;
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_SERVER_H_
