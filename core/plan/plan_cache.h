// Plans that were made lately.

#ifndef CPFEED_CORE_PLAN_PLAN_CACHE_H_
#define CPFEED_CORE_PLAN_PLAN_CACHE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/batch/packed_lengths.h"
#include "core/plan/layout_spec.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {

struct PlanCacheOptions {
  // What the plans that are kept may hold. 0 keeps none.
  int64_t max_bytes = int64_t{64} << 20;
  // Plans of at most so many segments are verified when they are made.
  int64_t max_verified_segments = int64_t{1} << 22;
};

// Makes plans, verifies them and remembers the last ones: data that repeats its
// lengths, such as a second epoch in the same order, is planned once.
// Thread-safe; planning goes on without the lock.
class PlanCache {
 public:
  explicit PlanCache(PlanCacheOptions options = {}) : options_(options) {}
  PlanCache(const PlanCache&) = delete;
  PlanCache& operator=(const PlanCache&) = delete;

  // As PlanShards, from memory where the lengths in their order, the spec and
  // cp_size are those of a plan that is kept.
  //
  // Errors:
  //   INVALID_ARGUMENT  As PlanShards.
  //   INTERNAL          The plan failed its verification.
  absl::StatusOr<std::shared_ptr<const ShardPlan>> Plan(
      const PackedLengths& lengths, const LayoutSpec& spec, int cp_size);

  struct Counts {
    int64_t hits = 0;
    int64_t misses = 0;
    int64_t bytes = 0;  // Kept now.
  };
  Counts counts() const;

 private:
  struct Entry {
    uint64_t key;
    LayoutSpec spec;  // As it was asked for.
    int64_t bytes;
    std::shared_ptr<const ShardPlan> plan;
  };
  using Entries = std::list<Entry>;  // The last one that was used first.

  std::shared_ptr<const ShardPlan> Find(uint64_t key,
                                        const PackedLengths& lengths,
                                        const LayoutSpec& spec, int cp_size);
  void Keep(Entry entry);

  const PlanCacheOptions options_;
  mutable absl::Mutex mu_;
  Entries entries_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<uint64_t, Entries::iterator> places_ ABSL_GUARDED_BY(mu_);
  Counts counts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_PLAN_CACHE_H_
