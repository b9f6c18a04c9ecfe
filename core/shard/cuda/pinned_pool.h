// Pinned host memory that is used again.

#ifndef CPFEED_CORE_SHARD_CUDA_PINNED_POOL_H_
#define CPFEED_CORE_SHARD_CUDA_PINNED_POOL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/shard/cuda/device.h"

namespace cpfeed {

// Blocks of a power of two bytes, at least 64 KiB, within a budget.
// Thread-safe.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  // A block, given back to the pool when the last copy of the pointer is gone.
  using Block = std::shared_ptr<std::byte>;

  static std::shared_ptr<PinnedPool> Create(std::shared_ptr<Device> device,
                                            int64_t budget_bytes);
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // A block of at least `bytes` bytes of any content. Where the budget has no
  // room, free blocks of other sizes are given up for it.
  //
  // Errors:
  //   RESOURCE_EXHAUSTED  Blocks in use leave no room (reason MEMORY_PRESSURE).
  //   INTERNAL            The device's allocation failed.
  absl::StatusOr<Block> Take(int64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);

  // What is allocated, in use or not; never above the budget.
  int64_t allocated_bytes() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  PinnedPool(std::shared_ptr<Device> device, int64_t budget_bytes)
      : device_(std::move(device)), budget_(budget_bytes) {}

  // A free block of that size, or null where one may be allocated, which is
  // counted already. `given_up` is for the caller to free.
  absl::StatusOr<std::byte*> Reserve(int64_t size,
                                     std::vector<std::byte*>& given_up)
      ABSL_LOCKS_EXCLUDED(mu_);
  void GiveBack(std::byte* block, int64_t size) ABSL_LOCKS_EXCLUDED(mu_);

  const std::shared_ptr<Device> device_;
  const int64_t budget_;
  mutable absl::Mutex mu_;
  int64_t allocated_ ABSL_GUARDED_BY(mu_) = 0;
  // Free blocks by size.
  std::map<int64_t, std::vector<std::byte*>> free_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_CUDA_PINNED_POOL_H_
