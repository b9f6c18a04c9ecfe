// What sessions hold, read when somebody asks.

#ifndef CPFEED_SERVER_METRICS_SESSION_METRICS_H_
#define CPFEED_SERVER_METRICS_SESSION_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/plan/plan_cache.h"
#include "server/session_registry.h"

namespace cpfeed {

// What of the server is no session's.
struct ServerGauges {
  int producer_streams = 0;
  int consumer_streams = 0;
  bool draining = false;
  PlanCache::Counts plans;
};

// Most consumers and producers with metrics of their own, over all sessions.
inline constexpr int kMaxLabelledStreams = 1024;

// Gauges of all sessions together, and of the first `max_labelled` by name.
// Takes each session's lock for as long as it takes to copy its positions.
class SessionMetrics final : public prometheus::Collectable {
 public:
  // `registry` and what `gauges` reads outlive it.
  SessionMetrics(const SessionRegistry& registry, int max_labelled,
                 std::function<ServerGauges()> gauges);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const SessionRegistry& registry_;
  const int max_labelled_;
  const std::function<ServerGauges()> gauges_;
};

// `text` with '_' for everything but letters, digits, '-', '_' and '.': users'
// words do not get into labels and logs as they are.
std::string SafeWord(absl::string_view text);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_METRICS_SESSION_METRICS_H_
