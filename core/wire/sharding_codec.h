// ShardingSpec and what it means for planning and conversion.

#ifndef CPFEED_CORE_WIRE_SHARDING_CODEC_H_
#define CPFEED_CORE_WIRE_SHARDING_CODEC_H_

#include "absl/status/statusor.h"
#include "core/batch/packed_batch.h"
#include "core/plan/layout.h"
#include "cpfeed/v1/plan.pb.h"

namespace cpfeed {

// The most chunks of a step: their headers share one message.
inline constexpr int kMaxChunks = 64;

// A sharding as core takes it.
struct Sharding {
  LayoutSpec layout;
  BatchOptions options;  // pad_rule is left for the resolved layout.
};

// Fills in defaults and checks ranges.
//
// Errors:
//   INVALID_ARGUMENT  A field is out of range (reason BAD_OPTION).
absl::StatusOr<Sharding> ShardingFromProto(const v1::ShardingSpec& proto);

// The layout part, its parameters spelt out.
v1::ShardingSpec ShardingToProto(const LayoutSpec& layout);

}  // namespace cpfeed

#endif  // CPFEED_CORE_WIRE_SHARDING_CODEC_H_
