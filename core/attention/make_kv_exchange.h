// The exchanges by their names.

#ifndef CPFEED_CORE_ATTENTION_MAKE_KV_EXCHANGE_H_
#define CPFEED_CORE_ATTENTION_MAKE_KV_EXCHANGE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/attention/kv_exchange.h"

namespace cpfeed {

struct KvExchangeOptions {
  int inner_size = 2;  // hierarchical: ranks that trade rows for heads.
};

// "ring", "allgather", "alltoall", "hierarchical" and "planned".
std::vector<std::string> KvExchangeNames();

// Errors:
//   INVALID_ARGUMENT  There is no exchange of that name; the message lists
//                     them. Or inner_size is below 1.
absl::StatusOr<std::unique_ptr<KvExchange>> MakeKvExchange(
    absl::string_view name, const KvExchangeOptions& options = {});

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_MAKE_KV_EXCHANGE_H_
