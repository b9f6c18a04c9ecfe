#include "client/worker/attend_command.h"

#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/cli/command_status.h"
#include "client/cli/json_input.h"
#include "client/cli/json_values.h"
#include "client/cli/shard_flags.h"
#include "client/worker/attend.h"
#include "client/worker/attend_result.h"
#include "client/worker/attention_case.h"
#include "core/attention/make_kv_exchange.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/tensor/dtype.h"

namespace cpfeed {
namespace {

// Ranks are threads of this process.
constexpr int64_t kMaxRanks = 256;

constexpr char kFooter[] = R"(The input is one JSON object:
  {"q": [[[1, 0], [0, 1]], ...], "k": ..., "v": ..., "dout": ...,
   "kind": "causal", "seq_lens": [5, 3], "seq_lens_padded": [8, 8],
   "scale": 0.5}
q, k, v and dout are [T][heads][columns]; dout, which asks for gradients, and
all behind it may be left out. kind is causal, full or window (window_left keys
before the query's own, window_right behind).

Examples:
  cpfeed_worker attend --input case.json --ranks 4 --exchange ring
  cpfeed_worker attend --input case.json --ranks 8 --layout striped \
      --exchange hierarchical --inner_size 2 --transport gloo --json

Exit status: 0 done, 2 the input or a flag is wrong, or the exchange cannot do
it, 1 any other failure.)";

absl::StatusOr<int64_t> Number(absl::string_view name, const std::string& text,
                               int64_t most) {
  int64_t value = 0;
  if (absl::SimpleAtoi(text, &value) && value >= 1 && value <= most) {
    return value;
  }
  return InvalidArgument(
      kBadOption, absl::StrCat(name, " is \"", text,
                               "\"; must be an integer in [1, ", most, "]"));
}

absl::StatusOr<AttendOptions> ParseOptions(const AttendFlags& flags) {
  AttendOptions options;
  CF_ASSIGN_OR_RETURN(const int64_t ranks,
                      Number("ranks", flags.ranks, kMaxRanks));
  options.num_ranks = static_cast<int>(ranks);
  CF_ASSIGN_OR_RETURN(
      const ShardSettings settings,
      ParseShardFlags({.input = flags.input,
                       .cp_size = flags.ranks,
                       .layout = flags.layout,
                       .uneven = flags.uneven,
                       .stripe_width = flags.stripe_width,
                       .chunk_size = flags.chunk_size,
                       .keep_padding = flags.keep_padding,
                       .token_multiple = flags.token_multiple}));
  options.layout = settings.layout;
  CF_ASSIGN_OR_RETURN(options.dtype, ParseDType(flags.dtype));
  if (flags.transport != "loopback" && flags.transport != "gloo") {
    return InvalidArgument(kBadOption,
                           absl::StrCat("transport is \"", flags.transport,
                                        "\"; must be loopback or gloo"));
  }
  options.transport = flags.transport == "gloo" ? AttendTransport::kGloo
                                                : AttendTransport::kLoopback;
  CF_ASSIGN_OR_RETURN(const int64_t seconds,
                      Number("timeout", flags.timeout, 86400));
  options.timeout = absl::Seconds(seconds);
  return options;
}

// What does not fit JSON is null.
Json NumberJson(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

// [T][inner], from numbers that lie behind each other.
Json Nested(const std::vector<double>& values, size_t begin, size_t end,
            const std::vector<int64_t>& inner, size_t axis) {
  Json list = Json::array();
  size_t step = 1;
  for (size_t i = axis; i < inner.size(); ++i) step *= inner[i];
  for (size_t at = begin; at < end; at += step) {
    list.push_back(axis == inner.size()
                       ? NumberJson(values[at])
                       : Nested(values, at, at + step, inner, axis + 1));
  }
  return list;
}

Json ResultJson(const AttentionCase& input, const AttendResult& result) {
  const auto nested = [](const std::vector<double>& values,
                         const std::vector<int64_t>& inner) {
    return Nested(values, 0, values.size(), inner, 0);
  };
  Json json = {{"status", "OK"},
               {"out", nested(result.out, {input.num_heads, input.value_dim})},
               {"lse", nested(result.lse, {input.num_heads})}};
  if (!input.dout.empty()) {
    json["dq"] = nested(result.dq, {input.num_heads, input.head_dim});
    json["dk"] = nested(result.dk, {input.num_kv_heads, input.head_dim});
    json["dv"] = nested(result.dv, {input.num_kv_heads, input.value_dim});
  }
  json["max_difference"] = NumberJson(result.max_difference);
  json["bytes_received"] = result.bytes_received;
  json["lse_bytes_received"] = result.lse_bytes_received;
  json["backward_bytes_received"] = result.backward_bytes_received;
  return json;
}

absl::StatusOr<std::string> AttendText(const AttendFlags& flags,
                                       std::istream& in) {
  CF_ASSIGN_OR_RETURN(const AttendOptions options, ParseOptions(flags));
  CF_ASSIGN_OR_RETURN(const int64_t inner_size,
                      Number("inner_size", flags.inner_size, kMaxRanks));
  CF_ASSIGN_OR_RETURN(
      const auto exchange,
      MakeKvExchange(flags.exchange,
                     {.inner_size = static_cast<int>(inner_size)}));
  CF_ASSIGN_OR_RETURN(const Json json, ReadJson(flags.input, in));
  CF_ASSIGN_OR_RETURN(const AttentionCase input, AttentionCaseFromJson(json));
  CF_ASSIGN_OR_RETURN(const AttendResult result,
                      Attend(input, *exchange, options));
  if (flags.json) return ResultJson(input, result).dump() + "\n";
  return absl::StrCat("OK: ", options.num_ranks, " ranks, max difference ",
                      result.max_difference, " to one device, bytes received ",
                      absl::StrJoin(result.bytes_received, " "), "\n");
}

void AddFlags(CLI::App& command, AttendFlags& flags) {
  const auto add = [&](const char* name, std::string& value, const char* type,
                       const char* text) {
    command.add_option(name, value, text)
        ->type_name(type)
        ->capture_default_str();
  };
  add("--input", flags.input, "FILE", "The case; - is standard input.");
  add("--ranks", flags.ranks, "N", "Ranks, each a thread.");
  add("--layout", flags.layout, "LAYOUT",
      "Who holds which tokens, as in cpfeed shard.");
  command.add_flag("--uneven", flags.uneven,
                   "contiguous: the tokens need not divide by ranks.");
  add("--stripe_width", flags.stripe_width, "W",
      "striped: tokens of a stripe (1).");
  add("--chunk_size", flags.chunk_size, "K",
      "chunk_greedy: tokens of a chunk (128).");
  command.add_flag("--keep_padding", flags.keep_padding,
                   "balanced: keep the padding of slots.");
  add("--token_multiple", flags.token_multiple, "M",
      "balanced: round every rank up to a multiple (1).");
  const std::string exchanges =
      absl::StrCat("How keys and values get to the ranks: ",
                   absl::StrJoin(KvExchangeNames(), ", "), ".");
  add("--exchange", flags.exchange, "NAME", exchanges.c_str());
  add("--inner_size", flags.inner_size, "A",
      "hierarchical: ranks that trade rows for heads.");
  add("--dtype", flags.dtype, "DTYPE", "float64, float32 or bfloat16.");
  add("--transport", flags.transport, "NAME", "loopback or gloo.");
  add("--timeout", flags.timeout, "SECONDS", "To wait for another rank.");
  command.add_flag("--json", flags.json, "Write JSON.");
  command.footer(kFooter);
}

}  // namespace

int RunAttend(const AttendFlags& flags, std::istream& in, std::ostream& out,
              std::ostream& err) {
  const absl::StatusOr<std::string> text = AttendText(flags, in);
  if (text.ok()) {
    out << *text;
    return kExitOk;
  }
  if (flags.json) {
    out << ErrorJson(text.status())
               .dump(-1, ' ', false, Json::error_handler_t::replace)
        << "\n";
  } else {
    err << "cpfeed_worker attend: " << text.status().message() << " ("
        << ReasonOf(text.status()) << ")\n";
  }
  return ExitStatusOf(text.status());
}

void RegisterAttend(CLI::App& app, std::function<int()>& run) {
  auto flags = std::make_shared<AttendFlags>();
  CLI::App* const command = app.add_subcommand(
      "attend", "Runs one attention case over ranks of this process.");
  AddFlags(*command, *flags);
  command->callback([&run, flags] {
    run = [flags] { return RunAttend(*flags, std::cin, std::cout, std::cerr); };
  });
}

}  // namespace cpfeed
