// The table that every shard executor is tested with: each layout on 1 to 16
// ranks, over random batches.

#ifndef CPFEED_TESTS_CORE_SHARD_SHARD_CASES_H_
#define CPFEED_TESTS_CORE_SHARD_SHARD_CASES_H_

#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/shard/prepare_batch.h"
#include "core/shard/shard.h"

namespace cpfeed::testing {

struct ShardCase {
  Layout layout;
  int cp_size;
};

std::vector<ShardCase> AllShardCases();

// "CONTIGUOUSOn3".
std::string ShardCaseName(const ShardCase& shard_case);

// Parameters that leave ragged ends: stripes of 3, chunks of 8, rows padded to
// multiples of 3.
LayoutSpec SpecOf(const ShardCase& shard_case);

// Random batches of a case that are worth while: a pack of PTRR has at least
// 128 tokens a rank.
int NumRounds(const ShardCase& shard_case);

// Random options, and a batch that the layout takes with them.
absl::StatusOr<PreparedBatch> PrepareRandom(const ShardCase& shard_case,
                                            std::mt19937_64& random);

// Fails the test where the steps differ in anything.
void ExpectSameShards(const std::vector<StepShard>& actual,
                      const std::vector<StepShard>& expected);

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CORE_SHARD_SHARD_CASES_H_
