#include "client/worker/worker_flags.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/security_flags.h"
#include "core/base/error.h"

namespace cpfeed {
namespace {

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

}  // namespace

void AddWorkerFlags(CLI::App& app, WorkerFlags& flags) {
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
  app.add_option("--server_wait", flags.server_wait_seconds,
                 "Seconds without a step to wait for a server that went away; "
                 "all ranks go on behind the last step that they had")
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

absl::Status CheckWorkerFlags(const WorkerFlags& flags, Fault fault, int rank) {
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

}  // namespace cpfeed
