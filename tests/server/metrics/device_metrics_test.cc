#include "server/metrics/device_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>

#include "absl/time/time.h"

namespace cpfeed {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(DeviceMetricsTest, CountsAreCounters) {
  DeviceCounts counts;
  counts.batches = 3;
  counts.to_device_bytes = 1000;
  counts.from_device_bytes = 2000;
  counts.kernel_time = absl::Milliseconds(1500);
  counts.fallbacks = {{"DEVICE_FAILED", 2}, {"MEMORY_PRESSURE", 5}};
  const std::string text =
      prometheus::TextSerializer().Serialize(DeviceMetrics(counts));
  EXPECT_THAT(text, HasSubstr("# TYPE cpfeed_gpu_batches_total counter"));
  EXPECT_THAT(text, HasSubstr("cpfeed_gpu_batches_total 3"));
  EXPECT_THAT(text,
              HasSubstr("cpfeed_gpu_copy_bytes_total{direction=\"to\"} 1000"));
  EXPECT_THAT(
      text, HasSubstr("cpfeed_gpu_copy_bytes_total{direction=\"from\"} 2000"));
  EXPECT_THAT(text, HasSubstr("cpfeed_gpu_kernel_seconds_total 1.5"));
  EXPECT_THAT(
      text, HasSubstr("cpfeed_gpu_fallback_total{reason=\"DEVICE_FAILED\"} 2"));
  EXPECT_THAT(
      text,
      HasSubstr("cpfeed_gpu_fallback_total{reason=\"MEMORY_PRESSURE\"} 5"));
}

TEST(DeviceMetricsTest, ReasonsThatDidNotOccurAreNotThere) {
  EXPECT_THAT(prometheus::TextSerializer().Serialize(DeviceMetrics({})),
              Not(HasSubstr("cpfeed_gpu_fallback_total{")));
}

}  // namespace
}  // namespace cpfeed
