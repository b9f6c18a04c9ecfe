#include "core/attention/attention_mask.h"

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace cpfeed {

std::string MaskName(const AttentionMask& mask) {
  if (mask == AttentionMask::Causal()) return "causal";
  if (mask == AttentionMask::Full()) return "full";
  return absl::StrCat("window(left ", mask.left, ", right ", mask.right, ")");
}

absl::Status ValidateMask(const AttentionMask& mask) {
  if (mask.left >= -1 && mask.right >= -1) return absl::OkStatus();
  return InvalidArgument(
      kBadOption,
      absl::StrCat("mask is ", MaskName(mask),
                   "; both sides must be -1 (unbounded) or at least 0"));
}

}  // namespace cpfeed
