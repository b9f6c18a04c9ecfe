// How much of something each principal uses at once.

#ifndef CPFEED_SERVER_AUTH_USE_COUNTER_H_
#define CPFEED_SERVER_AUTH_USE_COUNTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/base/error.h"

namespace cpfeed {

// Thread-safe; outlives its leases.
class UseCounter {
 public:
  // `what` is counted, such as "streams".
  explicit UseCounter(absl::string_view what) : what_(what) {}

  // Gives back what was taken when it goes.
  using Lease = std::shared_ptr<void>;

  // Takes one more of at most `most`; 0 is no bound.
  //
  // Errors:
  //   RESOURCE_EXHAUSTED  QUOTA: `who` has `most` already.
  absl::StatusOr<Lease> Take(const std::string& who, int64_t most)
      ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    int64_t& used = used_[who];
    if (most > 0 && used >= most) {
      return MakeError(absl::StatusCode::kResourceExhausted, kQuota,
                       absl::StrCat(who, " has ", used, " ", what_,
                                    ", as many as its quota"));
    }
    ++used;
    return Lease(nullptr, [this, who](void*) { GiveBack(who); });
  }

 private:
  void GiveBack(const std::string& who) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    const auto found = used_.find(who);
    if (--found->second == 0) used_.erase(found);
  }

  const std::string what_;
  absl::Mutex mu_;
  std::map<std::string, int64_t> used_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_AUTH_USE_COUNTER_H_
