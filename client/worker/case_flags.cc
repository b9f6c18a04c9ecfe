#include "client/worker/case_flags.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/command_status.h"
#include "client/cli/shard_flags.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {

absl::StatusOr<int64_t> ParseCount(absl::string_view name,
                                   const std::string& text, int64_t most) {
  int64_t value = 0;
  if (absl::SimpleAtoi(text, &value) && value >= 1 && value <= most) {
    return value;
  }
  return InvalidArgument(
      kBadOption, absl::StrCat(name, " is \"", text,
                               "\"; must be an integer in [1, ", most, "]"));
}

absl::StatusOr<CaseOptions> ParseCaseFlags(const CaseFlags& flags) {
  CaseOptions options;
  CF_ASSIGN_OR_RETURN(const int64_t ranks,
                      ParseCount("ranks", flags.ranks, kMaxCaseRanks));
  options.threads.num_ranks = static_cast<int>(ranks);
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
  options.threads.transport = flags.transport == "gloo"
                                  ? RankTransport::kGloo
                                  : RankTransport::kLoopback;
  CF_ASSIGN_OR_RETURN(const int64_t seconds,
                      ParseCount("timeout", flags.timeout, 86400));
  options.threads.timeout = absl::Seconds(seconds);
  return options;
}

void AddTextOption(CLI::App& command, const char* name, std::string& value,
                   const char* type, const std::string& help) {
  command.add_option(name, value, help)->type_name(type)->capture_default_str();
}

void AddCaseFlags(CLI::App& command, CaseFlags& flags) {
  const auto add = [&](const char* name, std::string& value, const char* type,
                       const char* help) {
    AddTextOption(command, name, value, type, help);
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
  add("--dtype", flags.dtype, "DTYPE", "float64, float32 or bfloat16.");
  add("--transport", flags.transport, "NAME", "loopback or gloo.");
  add("--timeout", flags.timeout, "SECONDS", "To wait for another rank.");
  command.add_flag("--json", flags.json, "Write JSON.");
}

int FinishCase(absl::string_view command, const CaseFlags& flags,
               const absl::StatusOr<std::string>& text, std::ostream& out,
               std::ostream& err) {
  if (!text.ok()) {
    return ReportError(absl::StrCat("cpfeed_worker ", command), text.status(),
                       flags.json, out, err);
  }
  out << *text;
  return kExitOk;
}

}  // namespace cpfeed
