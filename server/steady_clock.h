// Time that never jumps: for leases and time limits.

#ifndef CPFEED_SERVER_STEADY_CLOCK_H_
#define CPFEED_SERVER_STEADY_CLOCK_H_

#include <chrono>
#include <functional>

#include "absl/time/time.h"

namespace cpfeed {

// The time since some fixed moment. Thread-safe.
using SteadyClock = std::function<absl::Duration()>;

// The machine's own.
inline absl::Duration SteadyNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace cpfeed

#endif  // CPFEED_SERVER_STEADY_CLOCK_H_
