#include "client/worker/delta_command.h"

#include <iostream>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/json_input.h"
#include "client/cli/json_values.h"
#include "client/worker/delta_case.h"
#include "client/worker/delta_run.h"
#include "client/worker/number_array.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

constexpr char kFooter[] = R"(The input is one JSON object:
  {"in": {"q": [[[1, 0]], [[0, 1]]], "k": ..., "v": ..., "g": [[0], [-1]],
          "beta": [[1], [0.5]]},
   "dout": ..., "cu_seqlens": [0, 2], "scale": 0.5, "qk_l2norm": false}
for the rule alone: q and k are [T][Hk][K], v and dout [T][Hv][V], g and beta
[T][Hv]. With its convolution and gates "in" has mixed_qkv
[T][2 * Hk * K + Hv * V], conv_weight [columns][width], a, b [T][Hv], A_log and
dt_bias [Hv], and beside it stand Hk, Hv, K and V. dout, which asks for
gradients, and all behind it may be left out; lengths may also be given as
seq_lens and seq_lens_padded.

Examples:
  cpfeed_worker gated_delta --input case.json --ranks 4 --layout balanced
  cpfeed_worker gated_delta --input case.json --ranks 3 --layout contiguous \
      --uneven --dtype float64 --transport gloo --json

Exit status: 0 done, 2 the input or a flag is wrong, 1 any other failure.)";

Json ResultJson(const DeltaResult& result) {
  Json json = {{"status", "OK"}};
  for (const char* const name :
       {"out", "final_state", "conv_out", "g", "beta"}) {
    const auto found = result.out.find(name);
    if (found != result.out.end()) json[name] = NestedJson(found->second);
  }
  for (const auto& [name, array] : result.grad) {
    json["grad"][name] = NestedJson(array);
  }
  json["max_difference"] = NumberJson(result.max_difference);
  json["bytes_received"] = result.bytes_received;
  json["backward_bytes_received"] = result.backward_bytes_received;
  return json;
}

absl::StatusOr<std::string> GatedDeltaText(const CaseFlags& flags,
                                           std::istream& in) {
  CF_ASSIGN_OR_RETURN(const CaseOptions options, ParseCaseFlags(flags));
  CF_ASSIGN_OR_RETURN(const Json json, ReadJson(flags.input, in));
  CF_ASSIGN_OR_RETURN(const DeltaCase input, DeltaCaseFromJson(json));
  CF_ASSIGN_OR_RETURN(const DeltaResult result, RunDelta(input, options));
  if (flags.json) return ResultJson(result).dump() + "\n";
  return absl::StrCat("OK: ", options.threads.num_ranks,
                      " ranks, max difference ", result.max_difference,
                      " to one device, bytes received ",
                      absl::StrJoin(result.bytes_received, " "), "\n");
}

}  // namespace

int RunGatedDelta(const CaseFlags& flags, std::istream& in, std::ostream& out,
                  std::ostream& err) {
  return FinishCase("gated_delta", flags, GatedDeltaText(flags, in), out, err);
}

void RegisterGatedDelta(CLI::App& app, std::function<int()>& run) {
  auto flags = std::make_shared<CaseFlags>();
  CLI::App* const command = app.add_subcommand(
      "gated_delta",
      "Runs one case of gated delta attention over ranks of this process.");
  AddCaseFlags(*command, *flags);
  command->footer(kFooter);
  command->callback([&run, flags] {
    run = [flags] {
      return RunGatedDelta(*flags, std::cin, std::cout, std::cerr);
    };
  });
}

}  // namespace cpfeed
