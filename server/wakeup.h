// Wakes a thread that waits for any of several things to change.

#ifndef CPFEED_SERVER_WAKEUP_H_
#define CPFEED_SERVER_WAKEUP_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace cpfeed {

// Thread-safe. The waiting thread reads Epoch() before it looks at the state,
// so that no change between the look and the wait is missed:
//
//   for (;;) {
//     const uint64_t epoch = wakeup.Epoch();
//     if (LookAndWork()) continue;
//     wakeup.WaitPast(epoch, absl::Seconds(1));
//   }
class Wakeup {
 public:
  virtual ~Wakeup() = default;

  virtual void Notify() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    ++epoch_;
    changed_.SignalAll();
  }

  uint64_t Epoch() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return epoch_;
  }

  // Returns when Notify has been called after Epoch() returned `epoch`, or
  // after `at_most`.
  void WaitPast(uint64_t epoch, absl::Duration at_most)
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::Time deadline = absl::Now() + at_most;
    absl::MutexLock lock(&mu_);
    while (epoch_ == epoch) {
      if (changed_.WaitWithDeadline(&mu_, deadline)) return;
    }
  }

 private:
  mutable absl::Mutex mu_;
  absl::CondVar changed_;
  uint64_t epoch_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_WAKEUP_H_
