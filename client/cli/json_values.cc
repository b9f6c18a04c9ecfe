#include "client/cli/json_values.h"

#include <limits>

namespace cpfeed {

std::optional<int64_t> ExactInteger(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (!value.is_number_integer()) return std::nullopt;
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  if (value.is_number_unsigned() && value.get<uint64_t>() > kMax) {
    return std::nullopt;
  }
  return value.get<int64_t>();
}

}  // namespace cpfeed
