#include "core/batch/packer_options.h"

#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

absl::Status AtLeastOne(absl::string_view name, int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return InvalidArgument(
      kBadOption, absl::StrCat(name, " is ", value, "; must be at least 1"));
}

}  // namespace

absl::Status ValidatePackOptions(const PackOptions& options) {
  CF_RETURN_IF_ERROR(AtLeastOne("row_width", options.row_width));
  CF_RETURN_IF_ERROR(AtLeastOne("rows", options.rows));
  CF_RETURN_IF_ERROR(AtLeastOne("slot_multiple", options.slot_multiple));
  CF_RETURN_IF_ERROR(AtLeastOne("lookahead_tokens", options.lookahead_tokens));
  const std::optional<int64_t> tokens =
      CheckedMul(options.rows, options.row_width);
  if (!tokens || *tokens > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument(
        kBadOption,
        absl::StrCat("rows * row_width is ", options.rows, " * ",
                     options.row_width, "; must be below 2^31 tokens"));
  }
  if (options.row_width % options.slot_multiple != 0) {
    return InvalidArgument(
        kNotDivisible, absl::StrCat("row_width is ", options.row_width,
                                    "; must be a multiple of slot_multiple = ",
                                    options.slot_multiple));
  }
  return absl::OkStatus();
}

}  // namespace cpfeed
