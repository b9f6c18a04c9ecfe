#include "client/cli/shard_flags.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/plan/layout.h"

namespace cpfeed {
namespace {

// The number that `text` is, or what is in `value` where it is empty.
absl::Status ParseNumber(absl::string_view name, const std::string& text,
                         int64_t& value) {
  if (text.empty() || absl::SimpleAtoi(text, &value)) return absl::OkStatus();
  return InvalidArgument(
      kBadOption,
      absl::StrCat(name, " is \"", text, "\"; must be an integer of 64 bits"));
}

absl::Status CheckGiven(absl::string_view name, const std::string& text) {
  if (!text.empty()) return absl::OkStatus();
  return InvalidArgument(kBadOption,
                         absl::StrCat(name, " is missing; must be given"));
}

absl::Status ParseLayoutFlags(const ShardFlags& flags, LayoutSpec& layout) {
  if (!flags.layout.empty()) {
    CF_ASSIGN_OR_RETURN(layout.layout, ParseLayout(flags.layout));
  }
  layout.uneven = flags.uneven;
  layout.keep_padding = flags.keep_padding;
  CF_RETURN_IF_ERROR(
      ParseNumber("stripe_width", flags.stripe_width, layout.stripe_width));
  CF_RETURN_IF_ERROR(
      ParseNumber("chunk_size", flags.chunk_size, layout.chunk_size));
  return ParseNumber("token_multiple", flags.token_multiple,
                     layout.token_multiple);
}

absl::Status ParseBatchFlags(const ShardFlags& flags, BatchOptions& options) {
  options.auto_pad = flags.auto_pad;
  options.auto_fill = flags.auto_fill;
  CF_RETURN_IF_ERROR(
      ParseNumber("num_chunks", flags.num_chunks, options.num_chunks));
  CF_RETURN_IF_ERROR(ParseNumber("padding_token_id", flags.padding_token_id,
                                 options.padding_token_id));
  return ParseNumber("seq_lens_padding_value", flags.seq_lens_padding_value,
                     options.seq_lens_padding_value);
}

// A parity mode that ignored a flag would not say what upstream does.
absl::Status CheckParityFlags(const ShardFlags& flags,
                              const ShardSettings& settings) {
  if (settings.parity == Parity::kNative) return absl::OkStatus();
  const Layout layout = settings.layout.layout;
  const absl::string_view wrong =
      flags.auto_pad          ? "auto_pad"
      : flags.auto_fill       ? "auto_fill"
      : !flags.server.empty() ? "server"
      : layout != Layout::kUnspecified && layout != Layout::kHeadTailPerSequence
          ? "layout"
          : "";
  if (wrong.empty()) return absl::OkStatus();
  return InvalidArgument(
      kBadOption,
      absl::StrCat(wrong, " is given and parity is ",
                   ParityName(settings.parity),
                   "; must not be, as parity modes shard offline, per "
                   "sequence, and mend nothing"));
}

}  // namespace

absl::StatusOr<ShardSettings> ParseShardFlags(const ShardFlags& flags) {
  ShardSettings settings;
  CF_RETURN_IF_ERROR(CheckGiven("input", flags.input));
  CF_RETURN_IF_ERROR(CheckGiven("cp_size", flags.cp_size));
  int64_t cp_size = 1;
  CF_RETURN_IF_ERROR(ParseNumber("cp_size", flags.cp_size, cp_size));
  CF_RETURN_IF_ERROR(ParseLayoutFlags(flags, settings.layout));
  CF_RETURN_IF_ERROR(CheckLayoutSpec(settings.layout, cp_size));
  settings.cp_size = static_cast<int>(cp_size);
  CF_RETURN_IF_ERROR(ParseBatchFlags(flags, settings.options));
  if (!flags.parity.empty()) {
    CF_ASSIGN_OR_RETURN(settings.parity, ParseParity(flags.parity));
  }
  CF_RETURN_IF_ERROR(CheckParityFlags(flags, settings));
  return settings;
}

}  // namespace cpfeed
