#include "client/cli/shard_command.h"

#include <iostream>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/batch_json.h"
#include "client/cli/command_status.h"
#include "client/cli/json_input.h"
#include "client/cli/json_values.h"
#include "client/cli/parity_json.h"
#include "client/cli/security_flags.h"
#include "client/cli/shard_json.h"
#include "client/cli/shard_table.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/shard/parity_shard.h"
#include "core/shard/prepare_batch.h"
#include "core/shard/shard_executor.h"
#include "core/thd/parity_dict.h"

namespace cpfeed {
namespace {

constexpr char kExamples[] = R"(Examples:
  cpfeed shard --input batch.json --cp_size 4
  cpfeed shard --input - --cp_size 2 --layout striped --stripe_width 64 --json
  cpfeed shard --input batch.json --cp_size 2 --parity automodel_0_7 --json

The input is an object of nested lists: input_ids, labels and, if you have them,
position_ids, seq_lens, seq_lens_padded, masks and more:
  {"input_ids": [[11, 12, 13, 0]], "labels": [[12, 13, -100, -100]],
   "seq_lens": [[3]], "seq_lens_padded": [[4]]}

Exit status: 0 done, 2 the input or a flag is wrong, 1 any other failure.)";

// The text of "qkv_format" in `input`, or "thd" where there is none.
std::string QkvFormat(const Json& input) {
  if (!input.is_object() || !input.contains("qkv_format")) return "thd";
  const Json& format = input["qkv_format"];
  return format.is_string() ? format.get<std::string>() : format.dump();
}

absl::StatusOr<std::string> ShardNatively(const Json& input,
                                          const ShardSettings& settings,
                                          const ShardSource& source,
                                          bool as_json) {
  const std::string format = QkvFormat(input);
  if (format != "thd" && format != "bshd") {
    return InvalidArgument(kBadOption, absl::StrCat("qkv_format is ", format,
                                                    "; must be thd or bshd"));
  }
  CF_ASSIGN_OR_RETURN(JsonBatch json_batch, BatchFromJson(input));
  const ShardRequest request{.batch = std::move(json_batch.batch),
                             .options = settings.options,
                             .layout = settings.layout,
                             .cp_size = settings.cp_size};
  CF_ASSIGN_OR_RETURN(const std::vector<StepShard> ranks, source(request));
  if (!as_json) return ShardsTable(ranks);
  return ShardsJson(ranks, json_batch.plain).dump() + "\n";
}

absl::StatusOr<std::string> ShardAsUpstream(const Json& input,
                                            const ShardSettings& settings) {
  const ParityOptions options{
      .parity = settings.parity,
      .num_chunks = settings.options.num_chunks,
      .padding_token_id = settings.options.padding_token_id,
      .seq_lens_padding_value = settings.options.seq_lens_padding_value};
  CF_ASSIGN_OR_RETURN(
      const ParityDict batch,
      ParityDictFromJson(input, options.seq_lens_padding_value));
  std::vector<ParityShard> ranks;
  for (int rank = 0; rank < settings.cp_size; ++rank) {
    CF_ASSIGN_OR_RETURN(
        ParityShard shard,
        MakeCpBatchForTe(batch, options, QkvFormat(input),
                         {.cp_size = settings.cp_size, .cp_rank = rank}));
    ranks.push_back(std::move(shard));
  }
  return ParityJson(settings.parity, ranks).dump() + "\n";
}

absl::StatusOr<std::string> ShardText(const ShardFlags& flags,
                                      const ShardSource& source,
                                      std::istream& in) {
  CF_ASSIGN_OR_RETURN(const ShardSettings settings, ParseShardFlags(flags));
  CF_ASSIGN_OR_RETURN(const Json input, ReadJson(flags.input, in));
  if (settings.parity != Parity::kNative) {
    return ShardAsUpstream(input, settings);
  }
  return ShardNatively(input, settings, source, flags.json);
}

void AddFlags(CLI::App& command, ShardFlags& flags) {
  const auto add = [&](const char* name, std::string& value, const char* type,
                       const char* text) {
    command.add_option(name, value, text)->type_name(type);
  };
  add("--input", flags.input, "FILE", "The batch; - is standard input.");
  add("--cp_size", flags.cp_size, "N", "Ranks of the context-parallel group.");
  add("--num_chunks", flags.num_chunks, "C",
      "Groups of rows that are sharded independently (1).");
  add("--layout", flags.layout, "LAYOUT",
      "Who holds which tokens (head_tail_per_sequence; without seq_lens "
      "head_tail_per_row).");
  command.add_flag("--uneven", flags.uneven,
                   "contiguous: the tokens need not divide by cp_size.");
  add("--stripe_width", flags.stripe_width, "W",
      "striped: tokens of a stripe (1).");
  add("--chunk_size", flags.chunk_size, "K",
      "chunk_greedy: tokens of a chunk (128).");
  command.add_flag("--keep_padding", flags.keep_padding,
                   "balanced: keep the padding of slots.");
  add("--token_multiple", flags.token_multiple, "M",
      "balanced: round every rank up to a multiple (1).");
  add("--parity", flags.parity, "MODE",
      "native, automodel_0_4 or automodel_0_7 (native).");
  add("--padding_token_id", flags.padding_token_id, "ID",
      "Fills inserted positions of input_ids (0).");
  add("--seq_lens_padding_value", flags.seq_lens_padding_value, "V",
      "Filler of rectangular seq_lens (-1000).");
  command.add_flag("--auto_pad", flags.auto_pad,
                   "Let slots grow until the layout's divisibility holds.");
  command.add_flag("--auto_fill", flags.auto_fill,
                   "Extend the last slot of rows that are not full.");
  command.add_flag("--json", flags.json, "Write JSON instead of a table.");
}

}  // namespace

absl::StatusOr<std::vector<StepShard>> ShardOffline(
    const ShardRequest& request) {
  CF_ASSIGN_OR_RETURN(const PreparedBatch prepared,
                      PrepareBatch(request.batch, request.options,
                                   request.layout, request.cp_size));
  return MakeCpuShardExecutor()->Execute(prepared.thd, prepared.plans);
}

int RunShard(const ShardFlags& flags, const ShardSource& source,
             std::istream& in, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<std::string> result = ShardText(flags, source, in);
  if (!result.ok()) {
    return ReportError("cpfeed shard", result.status(), flags.json, out, err);
  }
  out << *result;
  out.flush();
  return out.good() ? kExitOk : kExitFailure;
}

void RegisterShard(CLI::App& app, std::function<int()>& run,
                   ServerSource server) {
  const auto flags = std::make_shared<ShardFlags>();
  CLI::App* const command =
      app.add_subcommand("shard", "Shards one batch: who gets what?");
  AddFlags(*command, *flags);
  command
      ->add_option("--server", flags->server,
                   "Shard through this server instead of in this process.")
      ->type_name("ADDRESS");
  AddSecurityFlags(*command, flags->security);
  command->footer(kExamples);
  command->callback([flags, &run, server = std::move(server)] {
    run = [flags, server] {
      const ShardSource source = flags->server.empty()
                                     ? ShardOffline
                                     : server(flags->server, flags->security);
      return RunShard(*flags, source, std::cin, std::cout, std::cerr);
    };
  });
}

}  // namespace cpfeed
