// cpfeed_worker: one rank of a context-parallel group. Sub-commands, which are
// no rank of a group, bring flags of their own.

#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/command_status.h"
#include "client/worker/attend_command.h"
#include "client/worker/attention_job.h"
#include "client/worker/delta_command.h"
#include "client/worker/model/model_job.h"
#include "client/worker/model/model_report.h"
#include "client/worker/rank_allocator.h"
#include "client/worker/rank_setup.h"
#include "client/worker/step_report.h"
#include "client/worker/worker_environment.h"
#include "client/worker/worker_flags.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

std::optional<std::string> Getenv(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

// Prints lines of a table, or of JSON, at rank 0.
void PrintLine(int rank, const std::string& line) {
  if (rank == 0) std::cout << line << std::endl;
}

absl::Status RunAttention(const WorkerFlags& flags, RankSetup& setup) {
  AttentionJobOptions options;
  options.shape = flags.shape;
  options.device = setup.device;
  options.num_steps = flags.steps;
  options.tolerance = flags.tolerance;
  options.fault = setup.fault;
  options.expected = setup.expected ? &*setup.expected : nullptr;
  const int rank = setup.group->rank();
  options.on_step = [&](const StepReport& report) {
    PrintLine(rank,
              flags.json ? StepReportJson(report) : StepReportText(report));
  };
  if (!flags.json) PrintLine(rank, StepReportHeadings());
  CF_ASSIGN_OR_RETURN(const JobSummary summary,
                      RunAttentionJob(options, *setup.exchange,
                                      std::move(setup.steps), *setup.group));
  const int ranks = setup.group->size();
  PrintLine(rank, flags.json ? JobSummaryJson(summary, ranks)
                             : JobSummaryText(summary, ranks));
  return absl::OkStatus();
}

absl::Status RunModel(const WorkerFlags& flags, RankSetup& setup) {
  ModelJobOptions options;
  options.shape.num_heads = flags.shape.num_heads;
  options.shape.num_kv_heads = flags.shape.num_kv_heads;
  options.shape.head_dim = flags.shape.head_dim;
  options.seed = flags.seed;
  options.learning_rate = flags.learning_rate;
  options.num_steps = flags.steps;
  options.tolerance = flags.tolerance;
  options.fault = setup.fault;
  options.expected = setup.expected ? &*setup.expected : nullptr;
  const int rank = setup.group->rank();
  options.on_step = [&](const ModelStepReport& report) {
    PrintLine(rank, flags.json ? ModelStepJson(report) : ModelStepText(report));
  };
  if (!flags.json) PrintLine(rank, ModelStepHeadings());
  CF_ASSIGN_OR_RETURN(const ModelSummary summary,
                      RunModelJob(options, *setup.exchange,
                                  std::move(setup.steps), setup.group));
  const int ranks = setup.group->size();
  PrintLine(rank, flags.json ? ModelSummaryJson(summary, ranks)
                             : ModelSummaryText(summary, ranks));
  return absl::OkStatus();
}

absl::Status Run(const WorkerFlags& flags,
                 const WorkerEnvironment& environment) {
  at::set_num_threads(flags.threads);
  CF_ASSIGN_OR_RETURN(RankSetup setup, SetUpRank(flags, environment));
  return flags.job == "model" ? RunModel(flags, setup)
                              : RunAttention(flags, setup);
}

int Main(int argc, char** argv) {
  KeepFreedMemory();
  WorkerFlags flags;
  CLI::App app(
      "Runs a job on one rank's shards of every step. A sub-command "
      "needs no server.",
      "cpfeed_worker");
  AddWorkerFlags(app, flags);
  std::function<int()> run;
  RegisterAttend(app, run);
  RegisterGatedDelta(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitRefused;
  }
  if (run) return run();
  const auto environment = ReadWorkerEnvironment([&](const std::string& name) {
    return name == "CPFEED_SERVER" ? flags.server : Getenv(name);
  });
  if (environment.ok() && environment->place) {
    const JobPlace& place = *environment->place;
    flags.server = place.server;
    flags.consumer = place.consumer;
    if (flags.session.empty()) flags.session = place.session;
  }
  const absl::Status status =
      environment.ok() ? Run(flags, *environment) : environment.status();
  if (status.ok()) return kExitOk;
  const int rank = environment.ok() ? environment->cp_rank() : 0;
  if (flags.json && rank == 0) {
    ReportError("cpfeed_worker", status, /*json=*/true, std::cout, std::cerr);
  }
  // In one piece: several ranks may share the stream.
  std::cerr << absl::StrCat("cpfeed_worker: rank ", rank, ": ",
                            status.message(), "\n")
            << std::flush;
  return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status)
             ? kExitRefused
             : kExitFailure;
}

}  // namespace
}  // namespace cpfeed

int main(int argc, char** argv) { return cpfeed::Main(argc, argv); }
