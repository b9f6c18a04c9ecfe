#include "core/attention/attention_heads.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace cpfeed {

HeadRange HeadsAt(int64_t heads, int64_t size, int64_t place) {
  return {place * heads / size, std::max<int64_t>(heads / size, 1)};
}

absl::Status CheckHeadShares(absl::string_view exchange,
                             const AttentionHeads& heads,
                             absl::string_view size_name, int64_t size) {
  if (heads.num_heads % size == 0 &&
      (heads.num_kv_heads % size == 0 || size % heads.num_kv_heads == 0)) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      kNotDivisible,
      absl::StrCat("exchange ", exchange, " cannot share ", heads.num_heads,
                   " query and ", heads.num_kv_heads, " kv heads over ",
                   size_name, " ", size,
                   "; query heads must be a multiple of it, and kv heads a "
                   "multiple or a divisor"));
}

}  // namespace cpfeed
