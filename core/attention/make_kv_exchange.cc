#include "core/attention/make_kv_exchange.h"

#include "absl/strings/str_cat.h"
#include "core/attention/allgather_exchange.h"
#include "core/attention/ring_exchange.h"
#include "core/base/error.h"

namespace cpfeed {

absl::StatusOr<std::unique_ptr<KvExchange>> MakeKvExchange(
    absl::string_view name) {
  if (name == "ring") return std::make_unique<RingExchange>();
  if (name == "allgather") return std::make_unique<AllgatherExchange>();
  return InvalidArgument(kBadOption,
                         absl::StrCat("exchange is \"", name,
                                      "\"; must be one of ring, allgather"));
}

}  // namespace cpfeed
