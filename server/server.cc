#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "server/ingest_stream.h"
#include "server/shard_stream.h"
#include "transport/channel_settings.h"

namespace cpfeed {
namespace {

std::string MakeInstanceId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

}  // namespace

Server::Server(ServerOptions options)
    : options_(std::move(options)),
      instance_(MakeInstanceId()),
      registry_(options_.registry),
      executor_(MakeCpuShardExecutor()),
      session_service_(registry_),
      ingest_service_(registry_, *executor_),
      shard_service_(registry_) {}

Server::~Server() { Stop(); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  std::unique_ptr<Server> server(new Server(std::move(options)));
  CF_RETURN_IF_ERROR(server->Build());
  server->health_service_.SetState(ServingState::kReady);
  return server;
}

absl::Status Server::Build() {
  if (options_.reflection) {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  }
  grpc::ServerBuilder builder;
  ApplyServerArguments(builder);
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
  const int max_streams = options_.registry.max_streams;
  ingest_streams_ = std::make_unique<StreamAcceptor>(
      builder.AddCompletionQueue(), max_streams,
      [this](ServerCall& call, grpc::ServerCompletionQueue& queue, void* tag) {
        ingest_service_.RequestPutBatches(&call.context(), &call.stream(),
                                          &call.queue(), &queue, tag);
      },
      [this](ServerCall& call) {
        return IngestStream(registry_, *executor_, instance_, call).Run();
      });
  shard_streams_ = std::make_unique<StreamAcceptor>(
      builder.AddCompletionQueue(), max_streams,
      [this](ServerCall& call, grpc::ServerCompletionQueue& queue, void* tag) {
        shard_service_.RequestStreamShards(&call.context(), &call.stream(),
                                           &call.queue(), &queue, tag);
      },
      [this](ServerCall& call) {
        return ShardStream(registry_, instance_, call).Run();
      });
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port_ == 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", options_.listen,
        "; the port may be taken, or the address not this machine's"));
  }
  ingest_streams_->Start();
  shard_streams_->Start();
  return absl::OkStatus();
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
  server_.reset();
}

}  // namespace cpfeed
