#include "server/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
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
#include "server/drain_notice.h"
#include "server/event_log.h"
#include "server/ingest_stream.h"
#include "server/metrics/call_counter.h"
#include "server/metrics/device_metrics.h"
#include "server/metrics/status_page.h"
#include "server/protocol.h"
#include "server/server_plugins.h"
#include "server/shard_stream.h"
#include "server/version.h"
#include "transport/channel_settings.h"

namespace cpfeed {
namespace {

constexpr int kMostSideThreads = 8;
constexpr absl::Duration kStreamsPoll = absl::Milliseconds(20);
constexpr absl::Duration kSweepInterval = absl::Milliseconds(500);

std::string MakeInstanceId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

// A small server without TLS, beside the one for data. `service` may be null.
absl::StatusOr<std::unique_ptr<grpc::Server>> StartPlainServer(
    const std::string& listen, ServerPlugins plugins, grpc::Service* service,
    int& port) {
  grpc::ServerBuilder builder;
  ApplyServerArguments(builder, kLookaheadBytes);
  SetPlugins(builder, plugins);
  grpc::ResourceQuota quota("cpfeed-side");
  quota.SetMaxThreads(kMostSideThreads);
  builder.SetResourceQuota(quota);
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
  if (service != nullptr) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", listen));
  }
  return server;
}

}  // namespace

Server::Server(ServerOptions options,
               std::unique_ptr<Authenticator> authenticator, ShardDevice device)
    : options_(std::move(options)),
      instance_(MakeInstanceId()),
      authenticator_(std::move(authenticator)),
      registry_(options_.registry),
      session_metrics_(registry_, options_.max_labelled_sessions,
                       [this] { return Gauges(); }),
      plans_(options_.plans),
      device_(std::move(device)),
      session_service_(registry_, authenticator_.get()),
      ingest_service_(registry_, Backend(), metrics_, authenticator_.get()),
      shard_service_(registry_, authenticator_.get()),
      plan_service_(registry_, authenticator_.get()),
      admin_service_(registry_, metrics_, authenticator_.get(),
                     MakeAdminHooks()) {}

Server::~Server() { Stop(); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  std::unique_ptr<Authenticator> authenticator;
  if (!options.auth_file.empty()) {
    if (!options.tls.enabled()) {
      return InvalidArgument(kBadOption,
                             "an auth file needs TLS: tokens would be read by "
                             "everybody on the way");
    }
    CF_ASSIGN_OR_RETURN(
        authenticator,
        Authenticator::Open(options.auth_file, options.tls.refresh));
  }
  CF_ASSIGN_OR_RETURN(ShardDevice device,
                      OpenShardDevice(options.shard_device));
  std::unique_ptr<Server> server(new Server(
      std::move(options), std::move(authenticator), std::move(device)));
  CF_RETURN_IF_ERROR(server->Build());
  server->SetState(ServingState::kReady);
  return server;
}

absl::Status Server::Build() {
  grpc::ServerBuilder builder;
  ApplyServerArguments(builder, options_.stream_window_bytes);
  SetPlugins(builder, {.reflection = options_.reflection});
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      interceptors;
  interceptors.push_back(std::make_unique<CallCounterFactory>(metrics_));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  grpc::ResourceQuota quota("cpfeed");
  quota.SetMaxThreads(options_.max_unary_threads);
  builder.SetResourceQuota(quota);
  CF_RETURN_IF_ERROR(OpenDoors(builder));
  builder.RegisterService(&session_service_);
  builder.RegisterService(&ingest_service_);
  builder.RegisterService(&shard_service_);
  builder.RegisterService(&plan_service_);
  builder.RegisterService(&admin_service_);
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
  sweeper_ = std::thread([this] { SweepLoop(); });
  CF_RETURN_IF_ERROR(StartProbe());
  CF_RETURN_IF_ERROR(StartChannelz());
  return StartHttp();
}

// Without an auth file a certificate is all that is asked for.
absl::Status Server::OpenDoors(grpc::ServerBuilder& builder) {
  CF_ASSIGN_OR_RETURN(
      const std::shared_ptr<grpc::ServerCredentials> credentials,
      MakeServerCredentials(options_.tls, authenticator_ == nullptr));
  if (authenticator_ != nullptr) {
    credentials->SetAuthMetadataProcessor(MakeCallCheck(
        *authenticator_,
        [this](const absl::Status& why) { metrics_.CountRefused(why); }));
  }
  builder.AddListeningPort(options_.listen, credentials, &port_);
  return absl::OkStatus();
}

absl::Status Server::StartProbe() {
  if (options_.probe_listen.empty()) return absl::OkStatus();
  CF_ASSIGN_OR_RETURN(probe_server_,
                      StartPlainServer(options_.probe_listen, {},
                                       &probe_service_, probe_port_));
  return absl::OkStatus();
}

absl::Status Server::StartChannelz() {
  if (options_.channelz_listen.empty()) return absl::OkStatus();
  PrepareChannelz();
  CF_ASSIGN_OR_RETURN(channelz_server_,
                      StartPlainServer(options_.channelz_listen,
                                       {.reflection = true, .channelz = true},
                                       nullptr, channelz_port_));
  return absl::OkStatus();
}

void Server::SetState(ServingState state) {
  if (failing_) state = ServingState::kFailing;
  health_service_.SetState(state);
  probe_service_.SetState(state);
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
        return RunStream("/cpfeed.v1.IngestService/PutBatches", call,
                         [&](const Caller& caller) {
                           return IngestStream(registry_, Backend(), metrics_,
                                               instance_, caller, call)
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
        return RunStream("/cpfeed.v1.ShardService/StreamShards", call,
                         [&](const Caller& caller) {
                           return ShardStream(registry_, metrics_, instance_,
                                              caller, call)
                               .Run();
                         });
      });
}

absl::Status Server::RunStream(
    absl::string_view path, ServerCall& call,
    absl::FunctionRef<absl::Status(const Caller&)> run) {
  metrics_.CountCallStart("bidi_stream", path);
  const auto run_within_quota = [&]() -> absl::Status {
    CF_ASSIGN_OR_RETURN(const Caller caller,
                        CallerOf(authenticator_.get(), call.context()));
    CF_ASSIGN_OR_RETURN(const UseCounter::Lease lease,
                        streams_.Take(caller.name(), caller.quota().streams));
    return run(caller);
  };
  absl::Status status = run_within_quota();
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
          .consumer_streams = shard_streams_->num_calls(),
          .draining = registry_.draining(),
          .plans = plans_.counts()};
}

std::string Server::RenderMetrics() const {
  std::vector<prometheus::MetricFamily> all = session_metrics_.Collect();
  for (prometheus::MetricFamily& family : metrics_.Collect()) {
    all.push_back(std::move(family));
  }
  if (device_.cuda != nullptr) {
    for (prometheus::MetricFamily& family :
         DeviceMetrics(device_.cuda->counts())) {
      all.push_back(std::move(family));
    }
  }
  return prometheus::TextSerializer().Serialize(all);
}

int Server::metrics_port() const {
  return metrics_listener_ == nullptr ? 0 : metrics_listener_->port();
}

int Server::status_port() const {
  return status_listener_ == nullptr ? 0 : status_listener_->port();
}

AdminHooks Server::MakeAdminHooks() {
  AdminHooks hooks;
  hooks.drain = [this] { Drain(); };
  hooks.undrain = [this] { return Undrain(); };
  hooks.gauges = [this] { return Gauges(); };
  hooks.info.set_version(kVersion);
  hooks.info.set_server_instance(instance_);
  hooks.info.set_grpc_version(grpc::Version());
  hooks.info.set_min_protocol_version(kProtocolVersion);
  hooks.info.set_max_protocol_version(kProtocolVersion);
  hooks.info.set_memory_budget_bytes(options_.registry.memory_budget_bytes);
  hooks.info.set_max_sessions(options_.registry.max_sessions);
  hooks.info.set_max_streams(options_.registry.max_streams);
  hooks.info.set_max_grpc_message_bytes(kMaxGrpcMessageBytes);
  return hooks;
}

void Server::Drain() {
  SetState(ServingState::kDraining);
  registry_.BeginDrain(absl::InfiniteFuture());
}

absl::Status Server::Undrain() {
  if (stopping_) {
    return MakeError(absl::StatusCode::kFailedPrecondition, kDraining,
                     "the server stops");
  }
  registry_.EndDrain();
  SetState(ServingState::kReady);
  return absl::OkStatus();
}

void Server::Fail() {
  failing_ = true;
  SetState(ServingState::kFailing);
}

void Server::SweepLoop() {
  while (!swept_.WaitForNotificationWithTimeout(kSweepInterval)) {
    for (const std::string& name : registry_.Sweep()) {
      EventLog("session_expired").Add("session", name).Info();
    }
  }
}

void Server::Hurry() {
  if (!hurried_.exchange(true)) hurry_.Notify();
}

void Server::WaitForStreams(absl::Time deadline) {
  while (absl::Now() < deadline && !hurried_ &&
         ingest_streams_->num_calls() + shard_streams_->num_calls() > 0) {
    hurry_.WaitForNotificationWithTimeout(kStreamsPoll);
  }
}

void Server::Stop() {
  if (server_ == nullptr) return;
  stopping_ = true;
  const absl::Time end = absl::Now() + options_.drain_budget;
  // What is left for cutting streams that do not end by themselves.
  const absl::Time cut =
      end - std::min(options_.drain_budget / 10, absl::Seconds(2));
  SetState(ServingState::kDraining);
  if (options_.drain_delay > absl::ZeroDuration()) {
    hurry_.WaitForNotificationWithTimeout(
        std::min(options_.drain_delay, options_.drain_budget / 2));
  }
  registry_.BeginDrain(cut);
  WaitForStreams(cut);
  registry_.Shutdown(DrainedStatus());
  health_service_.Stop();
  server_->Shutdown(absl::ToChronoTime(hurried_ ? absl::Now() : end));
  ingest_streams_->Stop();
  shard_streams_->Stop();
  if (sweeper_.joinable()) {
    swept_.Notify();
    sweeper_.join();
  }
  probe_service_.Stop();
  if (probe_server_ != nullptr) probe_server_->Shutdown();
  if (channelz_server_ != nullptr) channelz_server_->Shutdown();
  // They read what is about to go.
  metrics_listener_.reset();
  status_listener_.reset();
  server_.reset();
}

}  // namespace cpfeed
