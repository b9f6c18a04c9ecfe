#include "client/cli/inspect_command.h"

#include <google/protobuf/util/json_util.h>

#include <iostream>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/channel.h"
#include "client/cli/command_status.h"
#include "client/cli/security_flags.h"
#include "client/cli/text_table.h"
#include "client/session_client.h"
#include "core/base/status_macros.h"
#include "cpfeed/v1/plan.pb.h"
#include "cpfeed/v1/session.pb.h"

namespace cpfeed {
namespace {

std::string StateName(const v1::Session& session) {
  return std::string(absl::StripPrefix(v1::SessionState_Name(session.state()),
                                       "SESSION_STATE_"));
}

std::string LayoutNameOf(const v1::Session& session) {
  const v1::Layout layout = session.sharding().layout();
  if (layout == v1::LAYOUT_UNSPECIFIED) return "default";
  return std::string(absl::StripPrefix(v1::Layout_Name(layout), "LAYOUT_"));
}

std::string ListText(const std::vector<v1::Session>& sessions) {
  if (sessions.empty()) return "no sessions\n";
  TextTable table({"session", "state", "cp_size", "layout", "next step",
                   "held from", "bytes held"});
  for (const v1::Session& session : sessions) {
    table.AddRow({std::string(absl::StripPrefix(session.name(), "sessions/")),
                  StateName(session),
                  absl::StrCat(session.topology().cp_size()),
                  LayoutNameOf(session), absl::StrCat(session.next_step()),
                  absl::StrCat(session.first_held_step()),
                  absl::StrCat(session.memory_bytes())});
  }
  return table.ToString();
}

std::string SessionText(const v1::Session& session) {
  std::string text = absl::StrCat(
      session.name(), ": ", StateName(session), ", cp_size ",
      session.topology().cp_size(), ", layout ", LayoutNameOf(session),
      ", generation ", session.generation(), "\nsteps ",
      session.first_held_step(), " to ", session.next_step() - 1,
      " are held in ", session.memory_bytes(), " of ",
      session.limits().memory_budget_bytes(), " bytes; committed up to ",
      session.committed_step(), "\n");
  if (!session.state_detail().empty()) {
    absl::StrAppend(&text, session.state_detail(), "\n");
  }
  TextTable producers({"producer", "next batch", "connected", "finished"});
  for (const v1::ProducerPosition& producer : session.producer_positions()) {
    producers.AddRow({producer.producer(),
                      absl::StrCat(producer.next_sequence()),
                      producer.connected() ? "yes" : "no",
                      producer.finished() ? "yes" : "no"});
  }
  TextTable consumers({"rank.consumer", "sent", "acknowledged", "connected"});
  for (const v1::ConsumerPosition& consumer : session.consumer_positions()) {
    consumers.AddRow(
        {absl::StrCat(consumer.cp_rank(), ".", consumer.consumer()),
         absl::StrCat(consumer.sent_step()),
         absl::StrCat(consumer.acknowledged_step()),
         consumer.connected() ? "yes" : "no"});
  }
  return absl::StrCat(text, "\n", producers.ToString(), "\n",
                      consumers.ToString());
}

absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) return absl::InternalError(status.ToString());
  return json + "\n";
}

absl::StatusOr<std::string> Inspect(const InspectOptions& options) {
  CF_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                      OpenChannel(options.server, options.security));
  if (options.session.empty()) {
    CF_ASSIGN_OR_RETURN(const std::vector<v1::Session> sessions,
                        ListSessions(channel));
    if (!options.json) return ListText(sessions);
    v1::ListSessionsResponse all;
    *all.mutable_sessions() = {sessions.begin(), sessions.end()};
    return ToJson(all);
  }
  CF_ASSIGN_OR_RETURN(
      const v1::Session session,
      GetSession(channel, absl::StrCat("sessions/", options.session)));
  if (!options.json) return SessionText(session);
  return ToJson(session);
}

}  // namespace

int RunInspect(const InspectOptions& options, std::ostream& out,
               std::ostream& err) {
  const absl::StatusOr<std::string> text = Inspect(options);
  if (!text.ok()) {
    return ReportError("cpfeed inspect", text.status(), options.json, out, err);
  }
  out << *text;
  return kExitOk;
}

void RegisterInspect(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App& command = *app.add_subcommand(
      "inspect", "Show the sessions of a server, or one of them");
  command.add_option("session", options->session,
                     "The session's id; without it all are listed");
  command.add_option("--server", options->server,
                     "The server, such as 127.0.0.1:8470");
  AddSecurityFlags(command, options->security);
  command.add_flag("--json", options->json, "Print JSON");
  command.footer(
      "Example:\n"
      "  cpfeed inspect train --server 127.0.0.1:8470\n"
      "Exit status: 0; 2 there is no such session; 1 the server does not "
      "answer.");
  command.callback([options, &run] {
    run = [options] { return RunInspect(*options, std::cout, std::cerr); };
  });
}

}  // namespace cpfeed
