#include "server/batch_converter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/batch/packed_batch.h"
#include "core/plan/plan_cache.h"
#include "core/shard/shard_executor.h"
#include "core/wire/batch_codec.h"
#include "core/wire/sharding_codec.h"

namespace cpfeed {
namespace {

class CountingExecutor final : public ShardExecutor {
 public:
  absl::StatusOr<std::vector<StepShard>> Execute(
      const ThdBatch&,
      const std::vector<std::shared_ptr<const ShardPlan>>&) const override {
    ++calls;
    return absl::InternalError("not asked for");
  }
  mutable int calls = 0;
};

// Converts a batch for two ranks; `charge` says at which of its calls the
// caller is gone.
struct Outcome {
  absl::Status status;
  int charges = 0;
  int cuts = 0;
};

Outcome ConvertUntil(int gone_at) {
  WireBatch wire;
  wire.batch.input_ids =
      Tensor::FromVector<int64_t>({1, 8}, {1, 2, 3, 4, 5, 6, 7, 8});
  wire.batch.labels = wire.batch.input_ids;
  PlanCache plans{PlanCacheOptions()};
  const CountingExecutor executor;
  Outcome run;
  run.status =
      ConvertBatch(std::move(wire), Buffer(), Sharding(), 2, {executor, plans},
                   [&](int64_t) -> absl::Status {
                     if (run.charges++ < gone_at) {
                       return absl::OkStatus();
                     }
                     return absl::CancelledError("gone");
                   })
          .status();
  run.cuts = executor.calls;
  return run;
}

TEST(BatchConverterTest, WorkEndsBeforeTheNextStageWhenNobodyWaits) {
  const Outcome whole = ConvertUntil(1000);
  EXPECT_EQ(whole.cuts, 1);
  ASSERT_GE(whole.charges, 2);
  for (int gone_at = 0; gone_at < whole.charges; ++gone_at) {
    const Outcome outcome = ConvertUntil(gone_at);
    EXPECT_TRUE(absl::IsCancelled(outcome.status)) << outcome.status;
    EXPECT_EQ(outcome.charges, gone_at + 1);
    EXPECT_EQ(outcome.cuts, 0);
  }
}

}  // namespace
}  // namespace cpfeed
