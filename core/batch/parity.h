// The releases of NeMo AutoModel that cpfeed can equal, for users who migrate.

#ifndef CPFEED_CORE_BATCH_PARITY_H_
#define CPFEED_CORE_BATCH_PARITY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cpfeed {

// In a parity mode results are those of the named release, key for key and
// value for value, and what it accepts or raises is accepted or refused, except
// for input that it would corrupt without a word: that is refused.
enum class Parity : int8_t {
  kNative = 0,       // cpfeed's own, safe rules.
  kAutomodel04 = 1,  // 0.3 and 0.4
  kAutomodel07 = 2,  // 0.6 and 0.7
};

// "native", "automodel_0_4", "automodel_0_7".
absl::string_view ParityName(Parity parity);

// The reverse.
//
// Errors:
//   INVALID_ARGUMENT  `name` is no parity mode; the message lists them.
absl::StatusOr<Parity> ParseParity(absl::string_view name);

// INVALID_ARGUMENT as the release would raise it: the reason is the type of
// its exception, such as "ValueError".
absl::Status PythonError(absl::string_view exception,
                         absl::string_view message);

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_PARITY_H_
