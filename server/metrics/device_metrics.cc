#include "server/metrics/device_metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>

#include <string>
#include <utility>

#include "absl/time/time.h"

namespace cpfeed {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;

MetricFamily Counter(std::string name, std::string help) {
  return {.name = std::move(name),
          .help = std::move(help),
          .type = prometheus::MetricType::Counter};
}

void Add(double value, std::vector<ClientMetric::Label> labels,
         MetricFamily& family) {
  ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  metric.counter.value = value;
}

}  // namespace

std::vector<MetricFamily> DeviceMetrics(const DeviceCounts& counts) {
  MetricFamily batches =
      Counter("cpfeed_gpu_batches_total", "Batches cut on the GPU.");
  Add(static_cast<double>(counts.batches), {}, batches);
  MetricFamily bytes = Counter("cpfeed_gpu_copy_bytes_total",
                               "Bytes copied to and from the GPU.");
  Add(static_cast<double>(counts.to_device_bytes), {{"direction", "to"}},
      bytes);
  Add(static_cast<double>(counts.from_device_bytes), {{"direction", "from"}},
      bytes);
  MetricFamily seconds = Counter("cpfeed_gpu_kernel_seconds_total",
                                 "Time that the sharding kernel took.");
  Add(absl::ToDoubleSeconds(counts.kernel_time), {}, seconds);
  MetricFamily fallbacks =
      Counter("cpfeed_gpu_fallback_total",
              "Batches that the CPU cut in place of the GPU, by reason.");
  for (const auto& [reason, count] : counts.fallbacks) {
    Add(static_cast<double>(count), {{"reason", reason}}, fallbacks);
  }
  return {batches, bytes, seconds, fallbacks};
}

}  // namespace cpfeed
