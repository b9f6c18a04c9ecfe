// cpfeed_worker: one rank of a context-parallel group. The flags of its jobs
// are here; sub-commands, which are no rank of a group, bring their own.

#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/channel.h"
#include "client/channel_security.h"
#include "client/cli/command_status.h"
#include "client/cli/security_flags.h"
#include "client/shard_reader.h"
#include "client/worker/attend_command.h"
#include "client/worker/attention_job.h"
#include "client/worker/delta_command.h"
#include "client/worker/model/model_job.h"
#include "client/worker/model/model_report.h"
#include "client/worker/rank_allocator.h"
#include "client/worker/worker_device.h"
#include "client/worker/worker_environment.h"
#include "core/attention/make_kv_exchange.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

struct Flags {
  std::string job = "attention";
  std::string server = "127.0.0.1:8470";
  ChannelSecurity security;
  std::string session;
  int consumer = 0;
  std::string exchange = "ring";
  KvExchangeOptions exchange_options;
  std::optional<int64_t> steps;
  std::string check;
  std::string inject;
  AttentionShape shape;
  double learning_rate = ModelJobOptions().learning_rate;
  uint64_t seed = ModelJobOptions().seed;
  double tolerance = 1e-5;
  double timeout_seconds = 60;
  int threads = 1;
  std::string device = "cpu";
  int cuda_device = 0;
  bool json = false;
};

constexpr char kFooter[] =
    "A launcher such as torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and\n"
    "MASTER_PORT; without them the worker is a group of one rank. Its rank in\n"
    "the world is its context-parallel rank. GLOO_SOCKET_IFNAME names the\n"
    "network interface.\n\n"
    "A job of more groups than one sets CPFEED_MESH, such as dp=4,cp=8,tp=2,\n"
    "outer to inner. Each dp rank reads the session {job}-dp{rank}, job being\n"
    "CPFEED_JOB (train); the part of tp and all other dimensions is the\n"
    "consumer. The {ordinal} in CPFEED_SERVER becomes that rank modulo\n"
    "CPFEED_REPLICAS.\n\n"
    "Rank 0 prints a line for each step.\n\n"
    "Examples:\n"
    "  cpfeed_worker --session demo --steps 20\n"
    "  torchrun --nproc-per-node 4 --no-python cpfeed_worker --session demo "
    "\\\n"
    "      --exchange allgather --check batches.jsonl --json\n"
    "  torchrun --nproc-per-node 2 --no-python cpfeed_worker --session demo "
    "\\\n"
    "      --job model --steps 60 --check batches.jsonl\n\n"
    "Exit status: 0; 2 where flags are wrong, or the exchange cannot do the\n"
    "layout; 1 where something failed, such as the comparison.";

void AddFlags(CLI::App& app, Flags& flags) {
  app.set_config("--config", "",
                 "TOML file of these options: exchange = \"planned\"")
      ->type_name("FILE");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.add_option("--job", flags.job,
                 "What to run: attention over features of the tokens, or a "
                 "small decoder that trains on them")
      ->check(CLI::IsMember({"attention", "model"}))
      ->capture_default_str();
  app.add_option("--server", flags.server, "Address of the server")
      ->envname("CPFEED_SERVER")
      ->capture_default_str();
  AddSecurityFlags(app, flags.security);
  app.add_option("--session", flags.session,
                 "Whose shards to read: demo, or sessions/demo; must be given")
      ->envname("CPFEED_SESSION");
  app.add_option("--consumer", flags.consumer, "Number within the rank")
      ->capture_default_str();
  app.add_option("--exchange", flags.exchange,
                 absl::StrCat("How keys and values get to the ranks: ",
                              absl::StrJoin(KvExchangeNames(), ", ")))
      ->capture_default_str();
  app.add_option("--inner_size", flags.exchange_options.inner_size,
                 "hierarchical: ranks that trade rows for heads")
      ->capture_default_str();
  app.add_option("--steps", flags.steps,
                 "How many steps; default: to the end of the data")
      ->check(CLI::PositiveNumber);
  app.add_option("--check", flags.check,
                 "Compare each step with one device, for the batches in this "
                 "file of `cpfeed pack`; rank 0 reads it, the others need "
                 "not know")
      ->type_name("FILE");
  app.add_option("--tolerance", flags.tolerance,
                 "Largest difference that passes; model: relative, of losses "
                 "and of the first and last gradients")
      ->capture_default_str();
  app.add_option("--inject", flags.inject,
                 "Put in a fault, to see that it is found: swap, drop or "
                 "stale_kv");
  app.add_option("--num_heads", flags.shape.num_heads, "Query heads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--num_kv_heads", flags.shape.num_kv_heads,
                 "Heads of keys and values; divides the query heads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--head_dim", flags.shape.head_dim, "Components of a head")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--learning_rate", flags.learning_rate,
                 "model: size of a step, of the root mean square of a tensor")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "model: of its first parameters")
      ->capture_default_str();
  app.add_option("--timeout", flags.timeout_seconds,
                 "Seconds to wait for the session and for other ranks")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--threads", flags.threads, "Compute threads of this rank")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--device", flags.device,
                 "Where to compute: cpu, cuda, or auto: a GPU where there is "
                 "one. Ranks on GPUs exchange over NCCL, all of them or none")
      ->envname("CPFEED_DEVICE")
      ->capture_default_str();
  app.add_option("--cuda_device", flags.cuda_device,
                 "Number of this rank's GPU; no other rank's")
      ->envname("LOCAL_RANK")
      ->capture_default_str();
  app.add_flag("--json", flags.json, "Print JSON, a line for each step");
  app.footer(kFooter);
}

std::optional<std::string> Getenv(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

absl::Status CheckFlags(const Flags& flags, Fault fault, int rank) {
  if (flags.session.empty()) {
    return InvalidArgument(kBadOption, "session is missing; must be given");
  }
  if (flags.shape.num_heads % flags.shape.num_kv_heads != 0) {
    return InvalidArgument(
        kBadOption, absl::StrCat("--num_heads=", flags.shape.num_heads,
                                 "; must be a multiple of --num_kv_heads=",
                                 flags.shape.num_kv_heads));
  }
  if (flags.job == "model" && flags.shape.head_dim % 2 != 0) {
    return InvalidArgument(
        kBadOption, absl::StrCat("--head_dim=", flags.shape.head_dim,
                                 "; must be even, as positions turn pairs"));
  }
  if (fault == Fault::kNone) return absl::OkStatus();
  if (flags.steps && *flags.steps < 2) {
    return InvalidArgument(
        kBadOption,
        absl::StrCat("--steps=", *flags.steps,
                     "; must be at least 2, as --inject strikes at the "
                     "second"));
  }
  if (rank != 0 || !flags.check.empty()) return absl::OkStatus();
  return InvalidArgument(kBadOption,
                         "--inject is set without --check; nothing would "
                         "find the fault");
}

// What a job runs on.
struct RankSetup {
  std::shared_ptr<const KvExchange> exchange;
  Fault fault = Fault::kNone;
  c10::Device device = c10::kCPU;
  std::optional<ExpectedBatches> expected;  // Of rank 0.
  std::shared_ptr<Communicator> group;
  StepSource steps;
};

absl::StatusOr<RankSetup> SetUp(const Flags& flags,
                                const WorkerEnvironment& environment) {
  RankSetup setup;
  CF_ASSIGN_OR_RETURN(setup.fault, ParseFault(flags.inject));
  CF_RETURN_IF_ERROR(CheckFlags(flags, setup.fault, environment.cp_rank()));
  CF_ASSIGN_OR_RETURN(setup.exchange,
                      MakeKvExchange(flags.exchange, flags.exchange_options));
  if (!flags.check.empty() && environment.cp_rank() == 0) {
    CF_ASSIGN_OR_RETURN(setup.expected, ExpectedBatches::Open(flags.check));
  }
  const absl::Duration timeout = absl::Seconds(flags.timeout_seconds);
  CF_ASSIGN_OR_RETURN(setup.device,
                      ChooseWorkerDevice(flags.device, flags.cuda_device));
  if (flags.job == "model" && !setup.device.is_cpu()) {
    return MakeError(absl::StatusCode::kUnimplemented, kNotSupported,
                     "the model job runs on the CPU; must be --device=cpu");
  }
  std::optional<int> cuda_device;
  if (setup.device.is_cuda()) cuda_device = flags.cuda_device;
  CF_ASSIGN_OR_RETURN(setup.group,
                      JoinWorkers(environment, timeout, cuda_device));
  CF_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                      OpenChannel(flags.server, flags.security));
  CF_ASSIGN_OR_RETURN(
      auto reader,
      ShardReader::Attach(
          channel, {.session = absl::StartsWith(flags.session, "sessions/")
                                   ? flags.session
                                   : absl::StrCat("sessions/", flags.session),
                    .cp_rank = environment.cp_rank(),
                    .consumer = flags.consumer,
                    .cp_size = environment.cp_size(),
                    .session_wait = timeout}));
  setup.steps = StepsOf(std::move(reader));
  return setup;
}

// Prints lines of a table, or of JSON, at rank 0.
void PrintLine(int rank, const std::string& line) {
  if (rank == 0) std::cout << line << std::endl;
}

absl::Status RunAttention(const Flags& flags, RankSetup& setup) {
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

absl::Status RunModel(const Flags& flags, RankSetup& setup) {
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

absl::Status Run(const Flags& flags, const WorkerEnvironment& environment) {
  at::set_num_threads(flags.threads);
  CF_ASSIGN_OR_RETURN(RankSetup setup, SetUp(flags, environment));
  return flags.job == "model" ? RunModel(flags, setup)
                              : RunAttention(flags, setup);
}

int Main(int argc, char** argv) {
  KeepFreedMemory();
  Flags flags;
  CLI::App app(
      "Runs a job on one rank's shards of every step. A sub-command "
      "needs no server.",
      "cpfeed_worker");
  AddFlags(app, flags);
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
