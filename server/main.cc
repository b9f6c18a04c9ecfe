// cpfeed_server: the service. All its flags are here.

#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <thread>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/shard/cuda/shard_device.h"
#include "server/server.h"
#include "server/version.h"
#include "transport/channel_settings.h"
#include "transport/fault_point.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:8470",
          "Address and port to serve on; port 0 picks a free one. Example: "
          "--listen=unix:/run/cpfeed.sock");
ABSL_FLAG(bool, insecure_listen, false,
          "Allow a routable address on which nobody is asked who they are: "
          "anybody who reaches it may read and write all data.");
ABSL_FLAG(std::string, tls_cert, "",
          "PEM file with the server's certificate chain: serve with TLS.");
ABSL_FLAG(std::string, tls_key, "", "PEM file with its key.");
ABSL_FLAG(std::string, tls_client_ca, "",
          "PEM file with who signs clients' certificates. Without "
          "--auth_file a client must have one and may do everything.");
ABSL_FLAG(std::string, auth_file, "",
          "JSON file that maps certificates and tokens to roles; see "
          "docs/operations.md. Needs --tls_cert.");
ABSL_FLAG(absl::Duration, credentials_refresh, absl::Seconds(10),
          "How often certificates and the auth file are looked at; changed "
          "ones are taken up without a restart.");
ABSL_FLAG(std::string, probe_listen, "",
          "Address and port of plain gRPC that serves grpc.health.v1.Health "
          "and nothing else; empty serves none. Example: "
          "--probe_listen=0.0.0.0:8471");
ABSL_FLAG(
    std::string, channelz_listen, "",
    "Loopback address and port, or unix socket, of plain gRPC that serves "
    "grpc.channelz.v1.Channelz: connections, streams and calls as gRPC "
    "sees them; empty serves none. Example: "
    "--channelz_listen=unix:/run/cpfeed-channelz.sock");
ABSL_FLAG(std::string, port_file, "",
          "Write the bound port to this file once the server is ready.");
ABSL_FLAG(int64_t, memory_budget, int64_t{4} << 30,
          "Bytes that all sessions together may reserve.");
ABSL_FLAG(int64_t, session_memory_budget, int64_t{1} << 30,
          "Bytes of a session that does not ask for a budget of its own.");
ABSL_FLAG(int64_t, max_batch_bytes, int64_t{64} << 20,
          "Largest payload of one batch, where the session does not say.");
ABSL_FLAG(int64_t, max_message_bytes, int64_t{1} << 20,
          "Payload bytes of one stream message, where the session does not "
          "say; at most 4 MiB.");
ABSL_FLAG(int, max_step_skew, 8,
          "Steps that the fastest consumer may be ahead of the slowest, where "
          "the session does not say.");
ABSL_FLAG(
    absl::Duration, stall_timeout, absl::Minutes(1),
    "Without progress for so long a session is STALLED, where it does not "
    "say.");
ABSL_FLAG(int, max_sessions, 256, "Sessions at the same time.");
ABSL_FLAG(int, max_streams, 1024,
          "Streams of loaders, and of consumers, at the same time.");
ABSL_FLAG(
    int, stream_window_bytes, cpfeed::kLookaheadBytes,
    "Bytes of a stream that gRPC takes before the server asks for them. 0 "
    "leaves it to gRPC's estimate of the link: faster over long distances, "
    "and memory has no cap any more.");
ABSL_FLAG(int64_t, plan_cache_bytes, int64_t{64} << 20,
          "Bytes of the last plans that are remembered: batches of the same "
          "lengths are planned once. 0 remembers none.");
ABSL_FLAG(int64_t, verify_max_segments, int64_t{1} << 22,
          "Plans of at most so many segments are verified by another code "
          "path before anything is cut by them. 0 verifies none.");
ABSL_FLAG(int64_t, explain_history, 256,
          "Steps of a session whose lengths and plans' figures are remembered "
          "for ExplainStep.");
ABSL_FLAG(int64_t, explain_history_bytes, int64_t{4} << 20,
          "Bytes of a session that they may take; the newest step is always "
          "remembered.");
ABSL_FLAG(std::string, metrics_listen, "",
          "Numeric address and port of HTTP for Prometheus, which serves "
          "/metrics and nothing else; empty serves none. Example: "
          "--metrics_listen=127.0.0.1:9470");
ABSL_FLAG(int, metrics_max_sessions, 64,
          "Sessions with metrics of their own; the others are in the sums.");
ABSL_FLAG(std::string, status_listen, "",
          "Loopback address and port of HTTP for people: /statusz; empty "
          "serves none. Example: --status_listen=127.0.0.1:9471");
ABSL_FLAG(std::string, device, "auto",
          "What cuts batches: cpu, cuda (a GPU; needs a build with "
          "--config=cuda), or auto: a GPU where there is one and it is "
          "measured to be faster at start.");
ABSL_FLAG(int, cuda_device, 0, "Number of the GPU.");
ABSL_FLAG(int64_t, pinned_memory, int64_t{1} << 30,
          "Bytes of host memory that a GPU may copy from and to.");
ABSL_FLAG(bool, reflection, true,
          "Let grpcurl and the like list and describe the services.");
ABSL_FLAG(absl::Duration, drain_budget, absl::Seconds(30),
          "How long stopping may take: streams that have not delivered what "
          "is complete by then are cut. Example: --drain_budget=2m");
ABSL_FLAG(absl::Duration, drain_delay, absl::ZeroDuration(),
          "How long a stopping server is not ready before it tells its "
          "streams; the time that a load balancer takes to notice.");
ABSL_FLAG(std::string, log_level, "info",
          "What is logged: debug, info, warning or error.");
ABSL_FLAG(std::string, fault_point, "",
          "For tests, on loopback alone: the server kills itself at a point. "
          "Example: --fault_point=publish:3");
ABSL_FLAG(bool, version, false, "Print the version and exit.");

namespace cpfeed {
namespace {

constexpr char kUsage[] =
    "cpfeed_server: takes packed sequence batches from data loaders and "
    "streams each context-parallel rank its shard.\n\n"
    "  cpfeed_server --listen=127.0.0.1:8470\n\n"
    "SIGTERM or SIGINT drains it: streams deliver what is complete and end "
    "with UNAVAILABLE; exit status 0. A second signal ends it at once. A GPU "
    "that is lost drains it too; exit status 1.";

constexpr int kMostStreamWindow = 64 << 20;

// Sent to the process by itself where the GPU is lost.
constexpr int kDeviceLostSignal = SIGUSR1;

bool IsLocal(const std::string& listen) {
  return absl::StartsWith(listen, "127.") ||
         absl::StartsWith(listen, "localhost:") ||
         absl::StartsWith(listen, "[::1]:") ||
         absl::StartsWith(listen, "unix:");
}

// For what anybody who reaches it may read.
absl::Status CheckLocal(absl::string_view flag, const std::string& listen) {
  if (listen.empty() || IsLocal(listen)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, "=", listen,
                   " can be reached from other machines; must be a loopback "
                   "address"));
}

absl::StatusOr<ServerOptions> OptionsFromFlags() {
  ServerOptions options;
  options.listen = absl::GetFlag(FLAGS_listen);
  options.tls = {.certificate = absl::GetFlag(FLAGS_tls_cert),
                 .key = absl::GetFlag(FLAGS_tls_key),
                 .client_ca = absl::GetFlag(FLAGS_tls_client_ca),
                 .refresh = absl::GetFlag(FLAGS_credentials_refresh)};
  options.auth_file = absl::GetFlag(FLAGS_auth_file);
  options.probe_listen = absl::GetFlag(FLAGS_probe_listen);
  const bool asks = options.tls.enabled() && (!options.auth_file.empty() ||
                                              !options.tls.client_ca.empty());
  if (!asks && !IsLocal(options.listen) &&
      !absl::GetFlag(FLAGS_insecure_listen)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--listen=", options.listen, " can be reached from other machines and ",
        options.tls.enabled() ? "asks nobody who they are" : "has no TLS",
        "; must be a loopback address or unix socket, or have --tls_cert and "
        "--auth_file or --tls_client_ca, or --insecure_listen must be set"));
  }
  options.registry.memory_budget_bytes = absl::GetFlag(FLAGS_memory_budget);
  options.registry.max_sessions = absl::GetFlag(FLAGS_max_sessions);
  options.registry.max_streams = absl::GetFlag(FLAGS_max_streams);
  SessionDefaults& defaults = options.registry.defaults;
  defaults.memory_budget_bytes = absl::GetFlag(FLAGS_session_memory_budget);
  defaults.max_batch_bytes = absl::GetFlag(FLAGS_max_batch_bytes);
  defaults.max_message_bytes = absl::GetFlag(FLAGS_max_message_bytes);
  defaults.max_step_skew = absl::GetFlag(FLAGS_max_step_skew);
  defaults.stall_timeout = absl::GetFlag(FLAGS_stall_timeout);
  defaults.history = {.max_steps = absl::GetFlag(FLAGS_explain_history),
                      .max_bytes = absl::GetFlag(FLAGS_explain_history_bytes)};
  options.plans = {
      .max_bytes = absl::GetFlag(FLAGS_plan_cache_bytes),
      .max_verified_segments = absl::GetFlag(FLAGS_verify_max_segments)};
  options.metrics_listen = absl::GetFlag(FLAGS_metrics_listen);
  options.max_labelled_sessions = absl::GetFlag(FLAGS_metrics_max_sessions);
  options.status_listen = absl::GetFlag(FLAGS_status_listen);
  CF_RETURN_IF_ERROR(CheckLocal("--status_listen", options.status_listen));
  options.channelz_listen = absl::GetFlag(FLAGS_channelz_listen);
  CF_RETURN_IF_ERROR(CheckLocal("--channelz_listen", options.channelz_listen));
  ShardDeviceOptions& device = options.shard_device;
  const absl::StatusOr<DeviceChoice> choice =
      ParseDeviceChoice(absl::GetFlag(FLAGS_device));
  CF_RETURN_IF_ERROR(Annotate(choice.status(), "--device"));
  device.choice = *choice;
  device.cuda_device = absl::GetFlag(FLAGS_cuda_device);
  device.cuda.pinned_bytes = absl::GetFlag(FLAGS_pinned_memory);
  device.cuda.on_lost = [](const absl::Status& why) {
    spdlog::error("event=device_lost message=\"{}\"",
                  std::string(why.message()));
    kill(getpid(), kDeviceLostSignal);
  };
  options.reflection = absl::GetFlag(FLAGS_reflection);
  options.stream_window_bytes = absl::GetFlag(FLAGS_stream_window_bytes);
  if (options.stream_window_bytes != 0 &&
      (options.stream_window_bytes < kMaxChunkBytes ||
       options.stream_window_bytes > kMostStreamWindow)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--stream_window_bytes=", options.stream_window_bytes,
        " must be 0, or ", kMaxChunkBytes, " to ", kMostStreamWindow));
  }
  options.drain_budget = absl::GetFlag(FLAGS_drain_budget);
  options.drain_delay = absl::GetFlag(FLAGS_drain_delay);
  return options;
}

// Where somebody else might be served there are no such points.
absl::Status ArmFault(const ServerOptions& options) {
  const std::string point = absl::GetFlag(FLAGS_fault_point);
  if (point.empty()) return absl::OkStatus();
  if (!IsLocal(options.listen)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--fault_point is for tests; --listen=", options.listen,
                     " must be a loopback address with it"));
  }
  return Annotate(ArmFaultPoint(point), "--fault_point");
}

// Written whole and then renamed, so that a reader sees all or nothing.
absl::Status WritePort(const std::string& path, int port) {
  const std::string partial = path + ".part";
  std::FILE* file = std::fopen(partial.c_str(), "w");
  if (file == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot write ", partial));
  }
  std::fprintf(file, "%d\n", port);
  std::fclose(file);
  if (std::rename(partial.c_str(), path.c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path));
  }
  return absl::OkStatus();
}

// Stops; a signal meanwhile makes it hurry.
void StopOrHurry(Server& server, const sigset_t& signals) {
  absl::Notification stopped;
  std::thread stopper([&] {
    server.Stop();
    stopped.Notify();
  });
  while (!stopped.HasBeenNotified()) {
    constexpr timespec kPoll = {.tv_sec = 0, .tv_nsec = 20'000'000};
    if (sigtimedwait(&signals, nullptr, &kPoll) > 0) {
      spdlog::info("event=drain_cut");
      server.Hurry();
    }
  }
  stopper.join();
}

absl::Status Run() {
  // Blocked before any thread starts, so that only sigwait gets them.
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGTERM);
  sigaddset(&stop_signals, SIGINT);
  sigset_t end_signals = stop_signals;
  sigaddset(&end_signals, kDeviceLostSignal);
  pthread_sigmask(SIG_BLOCK, &end_signals, nullptr);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("cpfeed_server"));
  const std::string level = absl::GetFlag(FLAGS_log_level);
  if (level != "debug" && level != "info" && level != "warning" &&
      level != "error") {
    return absl::InvalidArgumentError(
        absl::StrCat("--log_level=", level,
                     " is none; must be debug, info, warning or error"));
  }
  spdlog::set_level(spdlog::level::from_str(level));
  TuneAllocator();
  CF_ASSIGN_OR_RETURN(ServerOptions options, OptionsFromFlags());
  CF_RETURN_IF_ERROR(ArmFault(options));
  CF_ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Server::Start(options));
  spdlog::info("event=device_chosen device=\"{}\"", server->shard_device());
  spdlog::info(
      "serving on {}: data port {}, probe port {}, metrics port {}, status "
      "port {}, channelz port {}",
      options.listen, server->port(), server->probe_port(),
      server->metrics_port(), server->status_port(), server->channelz_port());
  const std::string port_file = absl::GetFlag(FLAGS_port_file);
  if (!port_file.empty()) {
    CF_RETURN_IF_ERROR(WritePort(port_file, server->port()));
  }
  int signal = 0;
  sigwait(&end_signals, &signal);
  if (signal == kDeviceLostSignal) server->Fail();
  spdlog::info("event=drain_begun signal={}", signal);
  StopOrHurry(*server, stop_signals);
  spdlog::info("event=stopped");
  if (signal == kDeviceLostSignal) {
    return absl::InternalError(
        "the GPU is lost; a new process must replace "
        "this one");
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace cpfeed

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(cpfeed::kUsage);
  absl::FlagsUsageConfig usage;
  // Flags of libraries are for --helpfull.
  usage.contains_help_flags = [](absl::string_view file) {
    return absl::EndsWith(file, "server/main.cc");
  };
  absl::SetFlagsUsageConfig(usage);
  absl::ParseCommandLine(argc, argv);
  if (absl::GetFlag(FLAGS_version)) {
    std::printf("cpfeed_server %s\n", cpfeed::kVersion);
    return 0;
  }
  const absl::Status status = cpfeed::Run();
  if (!status.ok()) {
    std::fprintf(stderr, "cpfeed_server: %s\n",
                 std::string(status.message()).c_str());
    return 1;
  }
  return 0;
}
