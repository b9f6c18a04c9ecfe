#include "client/cli/explain_command.h"

#include <grpcpp/client_context.h>

#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/channel.h"
#include "client/cli/command_status.h"
#include "client/cli/json_values.h"
#include "client/cli/metrics_json.h"
#include "client/cli/plan_page.h"
#include "client/cli/plan_report.h"
#include "client/cli/security_flags.h"
#include "client/session_client.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/packed_lengths.h"
#include "core/plan/layout_spec.h"
#include "core/plan/shard_plan.h"
#include "core/plan/transfer_table.h"
#include "core/wire/sharding_codec.h"
#include "cpfeed/v1/plan.grpc.pb.h"
#include "transport/grpc_status.h"

namespace cpfeed {
namespace {

absl::StatusOr<v1::ExplainStepResponse> Ask(const ExplainOptions& options) {
  CF_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                      OpenChannel(options.server, options.security));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  v1::ExplainStepRequest request;
  request.set_session(absl::StrCat("sessions/", options.session));
  if (options.step.has_value()) request.set_step(*options.step);
  request.set_include_lengths(true);
  v1::ExplainStepResponse response;
  const grpc::Status status = v1::PlanService::NewStub(channel)->ExplainStep(
      &context, request, &response);
  if (!status.ok()) return FromGrpcStatus(status);
  return response;
}

PackedLengths LengthsOf(const v1::ChunkExplanation& chunk) {
  PackedLengths lengths;
  lengths.real.assign(chunk.seq_lens().begin(), chunk.seq_lens().end());
  lengths.padded.assign(chunk.seq_lens_padded().begin(),
                        chunk.seq_lens_padded().end());
  lengths.row_splits = {0};
  for (const int64_t sequences : chunk.sequences_per_row()) {
    lengths.row_splits.push_back(lengths.row_splits.back() + sequences);
  }
  return lengths;
}

// Plans the chunk here: the same code at the same version gives the same plan.
absl::StatusOr<PlanReport> ReportOf(const v1::ChunkExplanation& chunk,
                                    int cp_size) {
  CF_ASSIGN_OR_RETURN(const Sharding sharding,
                      ShardingFromProto(chunk.plan().sharding()));
  PlanReport report{.spec = sharding.layout};
  CF_ASSIGN_OR_RETURN(report.plan,
                      PlanShards(LengthsOf(chunk), report.spec, cp_size));
  if (report.plan.digest != chunk.plan().plan_digest()) {
    return MakeError(
        absl::StatusCode::kInternal, kPlanMismatch,
        absl::StrCat("the plan made here has digest ",
                     DigestText(report.plan.digest), "; the ranks have ",
                     DigestText(chunk.plan().plan_digest())));
  }
  MeasurePlan(TransferTable(report.plan, report.spec.mask), report);
  return report;
}

absl::StatusOr<std::vector<PlanReport>> ReportsOf(
    const ExplainOptions& options, const v1::ExplainStepResponse& response) {
  if (options.rank.has_value() &&
      (*options.rank < 0 || *options.rank >= response.cp_size())) {
    return InvalidArgument(
        kBadOption,
        absl::StrCat("rank is ", *options.rank,
                     "; must be in [0, cp_size = ", response.cp_size(), ")"));
  }
  std::vector<PlanReport> reports;
  for (const v1::ChunkExplanation& chunk : response.chunks()) {
    CF_ASSIGN_OR_RETURN(PlanReport report, ReportOf(chunk, response.cp_size()));
    reports.push_back(std::move(report));
  }
  return reports;
}

std::string Origin(const v1::ExplainStepResponse& response) {
  std::string text = absl::StrCat(
      "step ", response.step(), " is batch ", response.sequence(), " of ",
      response.producer(), ", epoch ", response.data_epoch());
  if (!response.batch_id().empty()) {
    absl::StrAppend(&text, ", id ", response.batch_id());
  }
  return absl::StrCat(text, response.held() ? "; its bytes are held\n"
                                            : "; its bytes are freed\n");
}

std::string ReportText(const ExplainOptions& options,
                       const v1::ExplainStepResponse& response,
                       const std::vector<PlanReport>& reports) {
  std::string text = Origin(response);
  if (response.cp_size() == 0) return text + "it is a tombstone\n";
  for (size_t i = 0; i < reports.size(); ++i) {
    if (reports.size() > 1) absl::StrAppend(&text, "\nchunk ", i, "\n");
    const PackedLengths& lengths = reports[i].plan.lengths;
    absl::StrAppend(&text, lengths.num_sequences(), " sequences in ",
                    lengths.num_rows(), " rows\n\n", LayoutTable({reports[i]}),
                    "\n", RankTable(reports[i]));
    if (!options.rank.has_value()) continue;
    absl::StrAppend(
        &text, "\n",
        RankLine(*options.rank, reports[i].plan.ranks[*options.rank]));
  }
  return text;
}

Json ReportJson(const v1::ExplainStepResponse& response,
                const std::vector<PlanReport>& reports) {
  Json chunks = Json::array();
  for (size_t i = 0; i < reports.size(); ++i) {
    Json chunk = PlanReportJson(reports[i], /*with_segments=*/true);
    chunk.erase("plan_ms");
    const PackedLengths& lengths = reports[i].plan.lengths;
    chunk["seq_lens"] = lengths.real;
    chunk["seq_lens_padded"] = lengths.padded;
    const auto& rows = response.chunks(static_cast<int>(i)).sequences_per_row();
    chunk["sequences_per_row"] = std::vector<int64_t>(rows.begin(), rows.end());
    chunks.push_back(std::move(chunk));
  }
  return {{"step", response.step()},
          {"producer", response.producer()},
          {"sequence", response.sequence()},
          {"batch_id", response.batch_id()},
          {"data_epoch", response.data_epoch()},
          {"held", response.held()},
          {"cp_size", response.cp_size()},
          {"chunks", std::move(chunks)}};
}

absl::StatusOr<std::string> Explain(const ExplainOptions& options) {
  CF_ASSIGN_OR_RETURN(const v1::ExplainStepResponse response, Ask(options));
  CF_ASSIGN_OR_RETURN(const std::vector<PlanReport> reports,
                      ReportsOf(options, response));
  if (!options.html.empty() && !reports.empty()) {
    const std::string page =
        PlanPage(absl::StrCat(options.session, ", step ", response.step(),
                              " on ", response.cp_size(), " ranks"),
                 reports.front().plan.lengths, reports);
    CF_RETURN_IF_ERROR(WritePage(options.html, page));
  }
  if (!options.json) return ReportText(options, response, reports);
  return ReportJson(response, reports).dump() + "\n";
}

}  // namespace

int RunExplain(const ExplainOptions& options, std::ostream& out,
               std::ostream& err) {
  const absl::StatusOr<std::string> text = Explain(options);
  if (!text.ok()) {
    return ReportError("cpfeed explain", text.status(), options.json, out, err);
  }
  out << *text;
  return kExitOk;
}

void RegisterExplain(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App& command = *app.add_subcommand(
      "explain", "What did each rank get at a step, and why?");
  command.add_option("session", options->session, "The session's id")
      ->required();
  command.add_option("--step", options->step,
                     "The step; without it the newest one");
  command.add_option("--rank", options->rank,
                     "Also print what this rank holds: sequence[begin,end)");
  command.add_option("--server", options->server,
                     "The server, such as 127.0.0.1:8470");
  AddSecurityFlags(command, options->security);
  command
      .add_option("--html", options->html, "Also write a page with pictures")
      ->type_name("FILE");
  command.add_flag("--json", options->json, "Print JSON");
  command.footer(
      "Examples:\n"
      "  cpfeed explain train --step 412 --rank 5\n"
      "  cpfeed explain train --html step.html\n"
      "Exit status: 0; 2 there is no such session, step or rank, or the step "
      "is\nforgotten; 1 the server does not answer.");
  command.callback([options, &run] {
    run = [options] { return RunExplain(*options, std::cout, std::cerr); };
  });
}

}  // namespace cpfeed
