#include "client/worker/attend_command.h"

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/json_input.h"
#include "client/cli/json_values.h"
#include "client/worker/attend.h"
#include "client/worker/attend_result.h"
#include "client/worker/attention_case.h"
#include "client/worker/number_array.h"
#include "core/attention/make_kv_exchange.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

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

Json ResultJson(const AttentionCase& input, const AttendResult& result) {
  // [T][inner], from numbers that lie behind each other.
  const auto nested = [&](const std::vector<double>& values,
                          std::vector<int64_t> inner) {
    inner.insert(inner.begin(), input.num_rows());
    return NestedJson({std::move(inner), values});
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

absl::StatusOr<std::string> AttendText(const CaseFlags& flags,
                                       std::istream& in) {
  CF_ASSIGN_OR_RETURN(const CaseOptions options, ParseCaseFlags(flags));
  CF_ASSIGN_OR_RETURN(
      const int64_t inner_size,
      ParseCount("inner_size", flags.inner_size, kMaxCaseRanks));
  CF_ASSIGN_OR_RETURN(
      const auto exchange,
      MakeKvExchange(flags.exchange,
                     {.inner_size = static_cast<int>(inner_size)}));
  CF_ASSIGN_OR_RETURN(const Json json, ReadJson(flags.input, in));
  CF_ASSIGN_OR_RETURN(const AttentionCase input, AttentionCaseFromJson(json));
  CF_ASSIGN_OR_RETURN(const AttendResult result,
                      Attend(input, *exchange, options));
  if (flags.json) return ResultJson(input, result).dump() + "\n";
  return absl::StrCat("OK: ", options.threads.num_ranks,
                      " ranks, max difference ", result.max_difference,
                      " to one device, bytes received ",
                      absl::StrJoin(result.bytes_received, " "), "\n");
}

void AddFlags(CLI::App& command, CaseFlags& flags) {
  AddCaseFlags(command, flags);
  AddTextOption(command, "--exchange", flags.exchange, "NAME",
                absl::StrCat("How keys and values get to the ranks: ",
                             absl::StrJoin(KvExchangeNames(), ", "), "."));
  AddTextOption(command, "--inner_size", flags.inner_size, "A",
                "hierarchical: ranks that trade rows for heads.");
  command.footer(kFooter);
}

}  // namespace

int RunAttend(const CaseFlags& flags, std::istream& in, std::ostream& out,
              std::ostream& err) {
  return FinishCase("attend", flags, AttendText(flags, in), out, err);
}

void RegisterAttend(CLI::App& app, std::function<int()>& run) {
  auto flags = std::make_shared<CaseFlags>();
  CLI::App* const command = app.add_subcommand(
      "attend", "Runs one attention case over ranks of this process.");
  AddFlags(*command, *flags);
  command->callback([&run, flags] {
    run = [flags] { return RunAttend(*flags, std::cin, std::cout, std::cerr); };
  });
}

}  // namespace cpfeed
