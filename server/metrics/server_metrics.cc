#include "server/metrics/server_metrics.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/error.h"

namespace cpfeed {
namespace {

using prometheus::Counter;
using prometheus::Histogram;
using Labels = prometheus::Labels;

constexpr absl::string_view kStageNames[kNumStages] = {"receive", "decode",
                                                       "plan", "shard", "send"};

Histogram::BucketBoundaries Seconds() {
  return {1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1, 3, 10, 30};
}

prometheus::Family<Counter>& Counters(prometheus::Registry& registry,
                                      const std::string& name,
                                      const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Family<Histogram>& Histograms(prometheus::Registry& registry,
                                          const std::string& name,
                                          const std::string& help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

// grpc-ecosystem names of the labels.
Labels CallLabels(absl::string_view type, absl::string_view path) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(absl::StripPrefix(path, "/"), absl::MaxSplits('/', 1));
  return {{"grpc_type", std::string(type)},
          {"grpc_service", parts.first},
          {"grpc_method", parts.second}};
}

// Names as gRPC spells them: "InvalidArgument", not "INVALID_ARGUMENT".
std::string CodeName(absl::StatusCode code) {
  if (code == absl::StatusCode::kOk) return "OK";
  std::string name;
  for (const absl::string_view word :
       absl::StrSplit(absl::StatusCodeToString(code), '_')) {
    name += word[0];
    for (const char letter : word.substr(1)) {
      name += absl::ascii_tolower(static_cast<unsigned char>(letter));
    }
  }
  return name;
}

}  // namespace

absl::string_view StageName(Stage stage) {
  return kStageNames[static_cast<int>(stage)];
}

ServerMetrics::ServerMetrics()
    : imbalance_(
          Histograms(registry_, "cpfeed_plan_imbalance_ratio",
                     "Attention area of the busiest rank over the mean, one "
                     "sample a step.")
              .Add({}, Histogram::BucketBoundaries{1.001, 1.01, 1.05, 1.1, 1.25,
                                                   1.5, 2, 4})),
      batches_(Counters(registry_, "cpfeed_batches_total",
                        "Batches by what became of them.")),
      accepted_(batches_.Add({{"outcome", "accepted"}})),
      duplicates_(batches_.Add({{"outcome", "duplicate"}})),
      rejected_(batches_.Add({{"outcome", "rejected"}})),
      real_tokens_(Counters(registry_, "cpfeed_tokens_total",
                            "Tokens of accepted batches.")
                       .Add({{"kind", "real"}})),
      padding_tokens_(Counters(registry_, "cpfeed_tokens_total", "")
                          .Add({{"kind", "pad"}})),
      starved_producers_(
          Counters(registry_, "cpfeed_starved_seconds_total",
                   "Seconds that producers waited for memory, and consumers "
                   "for steps, summed over streams.")
              .Add({{"side", "producer"}})),
      starved_consumers_(Counters(registry_, "cpfeed_starved_seconds_total", "")
                             .Add({{"side", "consumer"}})),
      checksum_errors_(Counters(registry_, "cpfeed_checksum_errors_total",
                                "Batches and steps whose bytes were damaged.")
                           .Add({})),
      fenced_(Counters(registry_, "cpfeed_fenced_total",
                       "Streams that ended because a newer one took their "
                       "place.")
                  .Add({})),
      redelivered_(Counters(registry_, "cpfeed_redelivered_steps_total",
                            "Steps sent to a consumer that had been sent them "
                            "before.")
                       .Add({})),
      calls_refused_(Counters(registry_, "cpfeed_calls_refused_total",
                              "Calls without identity, or without the role.")),
      calls_started_(Counters(registry_, "grpc_server_started_total",
                              "Calls that arrived.")),
      calls_handled_(Counters(registry_, "grpc_server_handled_total",
                              "Calls that ended, by status code.")),
      call_seconds_(Histograms(registry_, "grpc_server_handling_seconds",
                               "How long unary calls took.")) {
  // There from the start, so that a first refusal is an increase.
  for (const char* code : {"Unauthenticated", "PermissionDenied"}) {
    calls_refused_.Add({{"grpc_code", code}});
  }
  auto& stages = Histograms(registry_, "cpfeed_stage_seconds",
                            "How long a step took in each stage.");
  for (int i = 0; i < kNumStages; ++i) {
    stages_[i] =
        &stages.Add({{"stage", std::string(kStageNames[i])}}, Seconds());
  }
}

void ServerMetrics::Observe(Stage stage, absl::Duration took) {
  stages_[static_cast<int>(stage)]->Observe(absl::ToDoubleSeconds(took));
}

StageTotals ServerMetrics::Totals(Stage stage) const {
  const prometheus::ClientMetric::Histogram histogram =
      stages_[static_cast<int>(stage)]->Collect().histogram;
  return {.count = static_cast<int64_t>(histogram.sample_count),
          .sum = absl::Seconds(histogram.sample_sum)};
}

void ServerMetrics::CountAccepted(const BatchFacts& facts) {
  accepted_.Increment();
  real_tokens_.Increment(static_cast<double>(facts.real_tokens));
  padding_tokens_.Increment(static_cast<double>(facts.padding_tokens));
  imbalance_.Observe(facts.area_imbalance);
}

void ServerMetrics::CountDuplicate() { duplicates_.Increment(); }

void ServerMetrics::CountRejected(const absl::Status& why) {
  rejected_.Increment();
  if (ReasonOf(why) == kChecksumMismatch) checksum_errors_.Increment();
}

void ServerMetrics::CountRefused(const absl::Status& why) {
  calls_refused_.Add({{"grpc_code", CodeName(why.code())}}).Increment();
}

void ServerMetrics::CountStarved(absl::string_view side,
                                 absl::Duration waited) {
  Counter& counter =
      side == "producer" ? starved_producers_ : starved_consumers_;
  counter.Increment(absl::ToDoubleSeconds(waited));
}

void ServerMetrics::CountRedelivered(int64_t steps) {
  redelivered_.Increment(static_cast<double>(steps));
}

void ServerMetrics::CountCallStart(absl::string_view type,
                                   absl::string_view path) {
  calls_started_.Add(CallLabels(type, path)).Increment();
}

void ServerMetrics::CountCallEnd(absl::string_view type, absl::string_view path,
                                 const absl::Status& status) {
  Labels labels = CallLabels(type, path);
  labels["grpc_code"] = CodeName(status.code());
  calls_handled_.Add(labels).Increment();
  const std::string reason = ReasonOf(status);
  if (reason == kFenced) fenced_.Increment();
  if (reason == kChecksumMismatch) checksum_errors_.Increment();
}

void ServerMetrics::ObserveCall(absl::string_view path, absl::Duration took) {
  call_seconds_.Add(CallLabels("unary", path), Seconds())
      .Observe(absl::ToDoubleSeconds(took));
}

}  // namespace cpfeed
