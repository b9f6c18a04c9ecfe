// What happens on the server, counted once a step at most. What the server
// holds now is not here: session_metrics.h reads it when it is asked.

#ifndef CPFEED_SERVER_METRICS_SERVER_METRICS_H_
#define CPFEED_SERVER_METRICS_SERVER_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/batch_facts.h"

namespace cpfeed {

// The way of a batch. kPlan is validation, conversion to THD and planning,
// which all work on lengths alone.
enum class Stage { kReceive, kDecode, kPlan, kShard, kSend };
inline constexpr int kNumStages = 5;

// "receive", ...
absl::string_view StageName(Stage stage);

struct StageTotals {
  int64_t count = 0;
  absl::Duration sum;
};

// Thread-safe.
class ServerMetrics {
 public:
  ServerMetrics();

  void Observe(Stage stage, absl::Duration took);

  // All that was observed of a stage.
  StageTotals Totals(Stage stage) const;

  // A batch was accepted: it has its shards.
  void CountAccepted(const BatchFacts& facts);
  // A batch whose content is known already came again.
  void CountDuplicate();
  void CountRejected(const absl::Status& why);

  // A call that was refused before any handler saw it.
  void CountRefused(const absl::Status& why);

  // Somebody waited: a "producer" for memory, a "consumer" for steps.
  void CountStarved(absl::string_view side, absl::Duration waited);

  // Steps go to a consumer that was sent them before.
  void CountRedelivered(int64_t steps);

  // A call is there, and has ended. `path` is "/package.Service/Method".
  void CountCallStart(absl::string_view type, absl::string_view path);
  void CountCallEnd(absl::string_view type, absl::string_view path,
                    const absl::Status& status);

  // For unary calls.
  void ObserveCall(absl::string_view path, absl::Duration took);

  std::vector<prometheus::MetricFamily> Collect() const {
    return registry_.Collect();
  }

 private:
  prometheus::Registry registry_;
  prometheus::Histogram* stages_[kNumStages];
  prometheus::Histogram& imbalance_;
  prometheus::Family<prometheus::Counter>& batches_;
  prometheus::Counter& accepted_;
  prometheus::Counter& duplicates_;
  prometheus::Counter& rejected_;
  prometheus::Counter& real_tokens_;
  prometheus::Counter& padding_tokens_;
  prometheus::Counter& starved_producers_;
  prometheus::Counter& starved_consumers_;
  prometheus::Counter& checksum_errors_;
  prometheus::Counter& fenced_;
  prometheus::Counter& redelivered_;
  prometheus::Family<prometheus::Counter>& calls_refused_;
  prometheus::Family<prometheus::Counter>& calls_started_;
  prometheus::Family<prometheus::Counter>& calls_handled_;
  prometheus::Family<prometheus::Histogram>& call_seconds_;
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_METRICS_SERVER_METRICS_H_
