// Metrics of sharding on a GPU.

#ifndef CPFEED_SERVER_METRICS_DEVICE_METRICS_H_
#define CPFEED_SERVER_METRICS_DEVICE_METRICS_H_

#include <prometheus/metric_family.h>

#include <vector>

#include "core/shard/cuda/device_counts.h"

namespace cpfeed {

// `counts` as counters: batches, bytes each way, kernel time, and fallbacks to
// the CPU by reason.
std::vector<prometheus::MetricFamily> DeviceMetrics(const DeviceCounts& counts);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_METRICS_DEVICE_METRICS_H_
