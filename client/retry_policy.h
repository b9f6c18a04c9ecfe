// What a client does after an error: the one table, and the pauses.

#ifndef CPFEED_CLIENT_RETRY_POLICY_H_
#define CPFEED_CLIENT_RETRY_POLICY_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace cpfeed {

enum class ClientRole { kLoader, kConsumer };

enum class RetryAction {
  kGiveUp,      // A person, or the caller, must look.
  kReopen,      // Open again and go on from what the server says.
  kReopenOnce,  // Likewise; a second time without progress between is the end.
};

// Decided by code and reason alone.
RetryAction ActionFor(ClientRole role, const absl::Status& status);

struct RetryOptions {
  absl::Duration first_pause = absl::Milliseconds(100);
  absl::Duration most_pause = absl::Seconds(5);
  // Without progress for so long it gives up.
  absl::Duration give_up_after = absl::Minutes(10);
  // A steady clock, how to wait, and numbers from [0, 1); empty: the real ones.
  std::function<absl::Duration()> now;
  std::function<void(absl::Duration)> sleep;
  std::function<double()> random;
};

// Pauses double from first_pause to most_pause; each is cut by up to a half, so
// that clients that lost the same server do not come back together. For one
// thread.
class RetryPolicy {
 public:
  RetryPolicy(ClientRole role, RetryOptions options);

  // A batch or step came through: the next error is a first one.
  void MarkProgress();

  // After `status`: pauses, and returns OK where the client is to open again,
  // else why not.
  //
  // Errors: `status`, where it is none to go on after; or
  //   its code and reason, with how long nothing came through in front.
  absl::Status PauseOrGiveUp(const absl::Status& status);

 private:
  absl::Duration NextPause(const absl::Status& status);

  const ClientRole role_;
  const RetryOptions options_;
  int failures_ = 0;              // Since the last progress.
  absl::Duration failing_since_;  // The first of them.
  std::string once_;              // The reason of a kReopenOnce among them.
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_RETRY_POLICY_H_
