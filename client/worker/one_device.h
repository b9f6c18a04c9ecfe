// What one device gives for an attention case: dense, in float64, by code that
// shares nothing with shards and exchanges.

#ifndef CPFEED_CLIENT_WORKER_ONE_DEVICE_H_
#define CPFEED_CLIENT_WORKER_ONE_DEVICE_H_

#include "client/worker/attend_result.h"
#include "client/worker/attention_case.h"

namespace cpfeed {

// Arrays of the sizes that the case asks for: 0, and lse -inf.
AttendResult EmptyResult(const AttentionCase& input);

// Sequence by sequence; rows of padding as in EmptyResult. The lengths have
// passed PlanShards.
AttendResult OneDeviceResult(const AttentionCase& input);

// The largest |a - b| over all arrays; infinite where only one is a NaN, or
// they are different infinities.
double MaxDifference(const AttendResult& a, const AttendResult& b);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_ONE_DEVICE_H_
