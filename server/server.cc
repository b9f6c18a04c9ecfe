#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "server/ingest_stream.h"
#include "server/metrics/call_counter.h"
#include "server/metrics/status_page.h"
#include "server/shard_stream.h"
#include "server/version.h"
#include "transport/channel_settings.h"

namespace cpfeed {
namespace {

std::string MakeInstanceId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

// Which plugins a server has. The reflection library puts itself into every
// server of the process, asked or not.
class OnlyReflection final : public grpc::ServerBuilderOption {
 public:
  explicit OnlyReflection(bool reflection) : reflection_(reflection) {}
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*
                         plugins) override {
    plugins->clear();
    if (!reflection_) return;
    plugins->push_back(
        std::make_unique<grpc::reflection::ProtoServerReflectionPlugin>());
  }

 private:
  const bool reflection_;
};

}  // namespace

Server::Server(ServerOptions options)
    : options_(std::move(options)),
      instance_(MakeInstanceId()),
      registry_(options_.registry),
      session_metrics_(registry_, options_.max_labelled_sessions,
                       [this] { return Gauges(); }),
      executor_(MakeCpuShardExecutor()),
      session_service_(registry_),
      ingest_service_(registry_, *executor_, metrics_),
      shard_service_(registry_) {}

Server::~Server() { Stop(); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  std::unique_ptr<Server> server(new Server(std::move(options)));
  CF_RETURN_IF_ERROR(server->Build());
  server->health_service_.SetState(ServingState::kReady);
  return server;
}

absl::Status Server::Build() {
  grpc::ServerBuilder builder;
  ApplyServerArguments(builder);
  builder.SetOption(std::make_unique<OnlyReflection>(options_.reflection));
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      interceptors;
  interceptors.push_back(std::make_unique<CallCounterFactory>(metrics_));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  grpc::ResourceQuota quota("cpfeed");
  quota.SetMaxThreads(options_.max_unary_threads);
  builder.SetResourceQuota(quota);
  builder.AddListeningPort(options_.listen, grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterService(&session_service_);
  builder.RegisterService(&ingest_service_);
  builder.RegisterService(&shard_service_);
  builder.RegisterService(&plan_service_);
  builder.RegisterService(&health_service_);
  StartStreams(builder);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port_ == 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", options_.listen,
        "; the port may be taken, or the address not this machine's"));
  }
  ingest_streams_->Start();
  shard_streams_->Start();
  return StartHttp();
}

void Server::StartStreams(grpc::ServerBuilder& builder) {
  const int max_streams = options_.registry.max_streams;
  ingest_streams_ = std::make_unique<StreamAcceptor>(
      builder.AddCompletionQueue(), max_streams,
      [this](ServerCall& call, grpc::ServerCompletionQueue& queue, void* tag) {
        ingest_service_.RequestPutBatches(&call.context(), &call.stream(),
                                          &call.queue(), &queue, tag);
      },
      [this](ServerCall& call) {
        return CountStream("/cpfeed.v1.IngestService/PutBatches", [&] {
          return IngestStream(registry_, *executor_, metrics_, instance_, call)
              .Run();
        });
      });
  shard_streams_ = std::make_unique<StreamAcceptor>(
      builder.AddCompletionQueue(), max_streams,
      [this](ServerCall& call, grpc::ServerCompletionQueue& queue, void* tag) {
        shard_service_.RequestStreamShards(&call.context(), &call.stream(),
                                           &call.queue(), &queue, tag);
      },
      [this](ServerCall& call) {
        return CountStream("/cpfeed.v1.ShardService/StreamShards", [&] {
          return ShardStream(registry_, metrics_, instance_, call).Run();
        });
      });
}

absl::Status Server::CountStream(absl::string_view path,
                                 absl::FunctionRef<absl::Status()> run) {
  metrics_.CountCallStart("bidi_stream", path);
  absl::Status status = run();
  metrics_.CountCallEnd("bidi_stream", path, status);
  return status;
}

absl::Status Server::StartHttp() {
  if (!options_.metrics_listen.empty()) {
    CF_ASSIGN_OR_RETURN(
        metrics_listener_,
        HttpListener::Start(options_.metrics_listen,
                            {{"/metrics", {"text/plain; version=0.0.4", [this] {
                                             return RenderMetrics();
                                           }}}}));
  }
  if (!options_.status_listen.empty()) {
    const std::string line =
        absl::StrCat("cpfeed_server ", kVersion, ", instance ", instance_);
    CF_ASSIGN_OR_RETURN(
        status_listener_,
        HttpListener::Start(
            options_.status_listen,
            {{"/statusz", {"text/plain; charset=utf-8", [this, line] {
                             return StatusPage(registry_, line);
                           }}}}));
  }
  return absl::OkStatus();
}

ServerGauges Server::Gauges() const {
  return {.producer_streams = ingest_streams_->num_calls(),
          .consumer_streams = shard_streams_->num_calls()};
}

std::string Server::RenderMetrics() const {
  std::vector<prometheus::MetricFamily> all = session_metrics_.Collect();
  for (prometheus::MetricFamily& family : metrics_.Collect()) {
    all.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(all);
}

int Server::metrics_port() const {
  return metrics_listener_ == nullptr ? 0 : metrics_listener_->port();
}

int Server::status_port() const {
  return status_listener_ == nullptr ? 0 : status_listener_->port();
}

void Server::Stop() {
  if (server_ == nullptr) return;
  health_service_.SetState(ServingState::kDraining);
  registry_.Shutdown(MakeError(absl::StatusCode::kUnavailable, kDraining,
                               "the server stops; open again when it is back"));
  health_service_.Stop();
  server_->Shutdown(absl::ToChronoTime(absl::Now() + options_.drain_timeout));
  ingest_streams_->Stop();
  shard_streams_->Stop();
  // They read what is about to go.
  metrics_listener_.reset();
  status_listener_.reset();
  server_.reset();
}

}  // namespace cpfeed
