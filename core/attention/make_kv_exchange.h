// The exchanges by their names.

#ifndef CPFEED_CORE_ATTENTION_MAKE_KV_EXCHANGE_H_
#define CPFEED_CORE_ATTENTION_MAKE_KV_EXCHANGE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/attention/kv_exchange.h"

namespace cpfeed {

// "ring" or "allgather".
//
// Errors:
//   INVALID_ARGUMENT  There is no exchange of that name; the message lists
//                     them.
absl::StatusOr<std::unique_ptr<KvExchange>> MakeKvExchange(
    absl::string_view name);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_MAKE_KV_EXCHANGE_H_
