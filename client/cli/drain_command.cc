#include "client/cli/drain_command.h"

#include <grpcpp/client_context.h>

#include <iostream>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/channel.h"
#include "client/cli/command_status.h"
#include "client/cli/security_flags.h"
#include "client/session_client.h"
#include "core/base/status_macros.h"
#include "cpfeed/v1/admin.grpc.pb.h"
#include "transport/grpc_status.h"

namespace cpfeed {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(100);

using Stub = v1::AdminService::Stub;

template <class Request, class Response>
absl::StatusOr<Response> Call(Stub& stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                           const Request&,
                                                           Response*)) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  Response response;
  const grpc::Status status = (stub.*method)(&context, Request(), &response);
  if (!status.ok()) return FromGrpcStatus(status);
  return response;
}

// The streams that are left when all have ended, or time is up.
absl::StatusOr<int> WaitForStreams(Stub& stub, absl::Duration wait) {
  const absl::Time deadline = absl::Now() + wait;
  while (true) {
    CF_ASSIGN_OR_RETURN(const v1::GetStatisticsResponse statistics,
                        Call(stub, &Stub::GetStatistics));
    const int left =
        statistics.producer_streams() + statistics.consumer_streams();
    if (left == 0 || absl::Now() + kPoll > deadline) return left;
    absl::SleepFor(kPoll);
  }
}

absl::StatusOr<std::string> Drain(const DrainOptions& options) {
  CF_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                      OpenChannel(options.server, options.security));
  const std::unique_ptr<Stub> stub = v1::AdminService::NewStub(channel);
  if (options.undo) {
    CF_RETURN_IF_ERROR(Call(*stub, &Stub::Undrain).status());
    return absl::StrCat(options.server, " is in service");
  }
  CF_RETURN_IF_ERROR(Call(*stub, &Stub::Drain).status());
  const absl::Duration wait = absl::Seconds(options.wait_seconds);
  CF_ASSIGN_OR_RETURN(const int left, WaitForStreams(*stub, wait));
  if (left > 0 && wait > absl::ZeroDuration()) {
    return absl::DeadlineExceededError(
        absl::StrCat(options.server, " drains and has ", left,
                     " streams after ", absl::FormatDuration(wait)));
  }
  return absl::StrCat(options.server, " drains and has ", left, " streams");
}

}  // namespace

int RunDrain(const DrainOptions& options, std::ostream& out,
             std::ostream& err) {
  const absl::StatusOr<std::string> text = Drain(options);
  if (!text.ok()) {
    return ReportError("cpfeed drain", text.status(), /*json=*/false, out, err);
  }
  out << *text << std::endl;
  return kExitOk;
}

void RegisterDrain(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<DrainOptions>();
  CLI::App& command = *app.add_subcommand(
      "drain", "Take a server out of service, with its streams, or back");
  command.add_option("--server", options->server,
                     "The server, such as 127.0.0.1:8470");
  AddSecurityFlags(command, options->security);
  command.add_flag("--undo", options->undo, "Take it back into service");
  command.add_option("--wait", options->wait_seconds,
                     "Seconds to wait for its streams to end; 0 does not wait");
  command.footer(
      "Streams deliver what is complete and end; sessions stay.\n"
      "Example:\n"
      "  cpfeed drain --server 127.0.0.1:8470\n"
      "Exit status: 0; 2 the server refuses; 1 it does not answer, or has "
      "streams still.");
  command.callback([options, &run] {
    run = [options] { return RunDrain(*options, std::cout, std::cerr); };
  });
}

}  // namespace cpfeed
