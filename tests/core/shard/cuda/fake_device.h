// A device in host memory, which fails where a test asks for it.

#ifndef CPFEED_TESTS_CORE_SHARD_CUDA_FAKE_DEVICE_H_
#define CPFEED_TESTS_CORE_SHARD_CUDA_FAKE_DEVICE_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/shard/cuda/device.h"

namespace cpfeed::testing {

// Runs the real kernel's source, as the host compiles it. What is queued is
// run when somebody waits, and not before: memory that is freed too early, or
// read too early, is found by AddressSanitizer and by wrong bytes.
class FakeDevice final : public Device {
 public:
  ~FakeDevice() override;

  // The `n`-th call from now (0 is the next) fails. A lost device fails all
  // calls after it too.
  void FailCall(int n, bool lost);
  // Calls that were made after the device was lost; those that free are none.
  int calls_after_loss() const ABSL_LOCKS_EXCLUDED(mu_);
  int launches() const ABSL_LOCKS_EXCLUDED(mu_);
  // The streams that work was queued on, and how much pinned and device memory
  // is not freed.
  int streams_used() const ABSL_LOCKS_EXCLUDED(mu_);
  int num_pinned() const ABSL_LOCKS_EXCLUDED(mu_);
  int num_allocated() const ABSL_LOCKS_EXCLUDED(mu_);

  std::string name() const override { return "host memory (device 0)"; }
  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  void Free(void* memory) override;
  absl::StatusOr<void*> AllocatePinned(int64_t bytes) override;
  void FreePinned(void* memory) override;
  absl::StatusOr<DeviceStream> CreateStream() override;
  void DestroyStream(DeviceStream stream) override;
  absl::StatusOr<DeviceEvent> CreateEvent() override;
  void DestroyEvent(DeviceEvent event) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes,
                    DeviceStream stream) override;
  absl::Status Launch(const ShardTask& task, DeviceStream stream) override;
  absl::Status Record(DeviceEvent event, DeviceStream stream) override;
  absl::Status Wait(DeviceEvent event) override;
  absl::Status Synchronize(DeviceStream stream) override;
  absl::StatusOr<absl::Duration> Elapsed(DeviceEvent begin,
                                         DeviceEvent end) override;

 private:
  absl::Status Called(const char* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Queue(const char* call, DeviceStream stream,
                     std::function<void()> work) ABSL_LOCKS_EXCLUDED(mu_);
  void Run(void* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  int calls_ ABSL_GUARDED_BY(mu_) = 0;
  int fail_at_ ABSL_GUARDED_BY(mu_) = -1;
  bool fail_for_good_ ABSL_GUARDED_BY(mu_) = false;
  bool lost_ ABSL_GUARDED_BY(mu_) = false;
  int calls_after_loss_ ABSL_GUARDED_BY(mu_) = 0;
  int launches_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<void*, std::vector<std::function<void()>>> queued_
      ABSL_GUARDED_BY(mu_);
  std::map<void*, void*> recorded_on_ ABSL_GUARDED_BY(mu_);  // Event, stream.
  std::set<void*> used_ ABSL_GUARDED_BY(mu_);
  std::set<void*> pinned_ ABSL_GUARDED_BY(mu_);
  std::set<void*> allocated_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CORE_SHARD_CUDA_FAKE_DEVICE_H_
