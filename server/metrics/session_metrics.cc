#include "server/metrics/session_metrics.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/plan/plan_bounds.h"
#include "core/plan/plan_metrics.h"
#include "core/session/session.h"
#include "cpfeed/v1/session.pb.h"
#include "server/session_standing.h"
#include "server/step_plans.h"
#include "server/version.h"

namespace cpfeed {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

using LabelList = std::vector<ClientMetric::Label>;

// Collects samples by family, in the order of first use.
class Families {
 public:
  MetricFamily& Declare(const std::string& name, const std::string& help,
                        MetricType type = MetricType::Gauge) {
    const auto [found, is_new] = places_.emplace(name, families_.size());
    if (is_new) {
      families_.push_back({.name = name, .help = help, .type = type});
    }
    return families_[found->second];
  }

  void Add(const std::string& name, LabelList labels, double value) {
    MetricFamily& family = families_[places_.at(name)];
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = std::move(labels);
    if (family.type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
  }

  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  std::map<std::string, size_t> places_;
  std::vector<MetricFamily> families_;
};

void DeclareAll(Families& all) {
  all.Declare("cpfeed_build_info", "Versions; always 1.");
  all.Declare("cpfeed_drain_state", "1 while the server drains.");
  all.Declare("cpfeed_plan_cache_lookups_total",
              "Plans that were asked for: known already, or made.",
              MetricType::Counter);
  all.Declare("cpfeed_plan_cache_bytes", "Held by plans that are remembered.");
  all.Declare("cpfeed_streams", "Open streams of producers and consumers.");
  all.Declare("cpfeed_sessions", "Sessions by state.");
  all.Declare("cpfeed_steps_published_total", "Batches that became steps.",
              MetricType::Counter);
  all.Declare("cpfeed_quarantined_total",
              "Batches that could not be converted.", MetricType::Counter);
  all.Declare("cpfeed_memory_bytes",
              "Memory of all sessions: held by batches and steps, and promised "
              "to producers as credit.");
  all.Declare("cpfeed_memory_limit_bytes", "Budgets of all sessions together.");
  all.Declare("cpfeed_ingest_queue_bytes",
              "Held by batches that are no steps yet.");
  all.Declare("cpfeed_credit_outstanding_bytes",
              "Payload that producers may send, and that consumers may be "
              "sent.");
  all.Declare("cpfeed_steps_retained", "Steps whose bytes are held.");
  all.Declare("cpfeed_session_memory_bytes", "As cpfeed_memory_bytes.");
  all.Declare("cpfeed_session_memory_limit_bytes", "The session's budget.");
  all.Declare("cpfeed_session_next_step", "The next step's number.");
  all.Declare("cpfeed_session_finished",
              "1 when all data of the session was acknowledged.");
  all.Declare("cpfeed_step_skew",
              "Steps that the fastest consumer is ahead of the slowest.");
  all.Declare("cpfeed_step_skew_limit", "Its limit.");
  all.Declare("cpfeed_newest_plan",
              "Figures of the newest step's plan, as PlanBatch gives them.");
  all.Declare("cpfeed_newest_plan_bound",
              "What no plan of these lengths can be better than; 0 where "
              "nothing is known.");
  all.Declare("cpfeed_consumer_ack_lag_steps",
              "Published steps that a consumer has not acknowledged.");
  all.Declare("cpfeed_producer_expected_sequence",
              "The number of the producer's next batch.");
}

std::string StateName(v1::SessionState state) {
  return std::string(
      absl::StripPrefix(v1::SessionState_Name(state), "SESSION_STATE_"));
}

// One session's part of the sums.
struct Sums {
  std::map<std::string, int> states = {{"DRAINING", 0}, {"FAILED", 0},
                                       {"FINISHED", 0}, {"READY", 0},
                                       {"RUNNING", 0},  {"STALLED", 0}};
  int64_t held = 0;
  int64_t promised = 0;
  int64_t limit = 0;
  int64_t ingest = 0;
  int64_t producer_credit = 0;
  int64_t consumer_credit = 0;
  int64_t retained = 0;
  int labelled_streams = 0;

  void Add(const Session& session, const SessionStanding& standing) {
    ++states[StateName(standing.state)];
    held += session.charged_bytes();
    promised += session.reserved_bytes();
    limit += session.config().memory_budget_bytes;
    retained += session.next_step() - session.first_held_step();
    for (const Session::Producer& producer : session.producers()) {
      ingest += producer.charged_bytes;
      producer_credit += producer.credit_bytes;
    }
    for (const Session::Consumer& consumer : session.consumers()) {
      if (consumer.connection != 0) consumer_credit += consumer.credit_bytes;
    }
  }
};

void AddSums(const Sums& sums, Families& all) {
  const auto bytes = [](int64_t value) { return static_cast<double>(value); };
  for (const auto& [state, count] : sums.states) {
    all.Add("cpfeed_sessions", {{"state", state}}, count);
  }
  all.Add("cpfeed_memory_bytes", {{"pool", "held"}}, bytes(sums.held));
  all.Add("cpfeed_memory_bytes", {{"pool", "promised"}}, bytes(sums.promised));
  all.Add("cpfeed_memory_limit_bytes", {}, bytes(sums.limit));
  all.Add("cpfeed_ingest_queue_bytes", {}, bytes(sums.ingest));
  all.Add("cpfeed_credit_outstanding_bytes", {{"edge", "producer"}},
          bytes(sums.producer_credit));
  all.Add("cpfeed_credit_outstanding_bytes", {{"edge", "consumer"}},
          bytes(sums.consumer_credit));
  all.Add("cpfeed_steps_retained", {}, bytes(sums.retained));
}

void AddStreams(const std::string& name, const Session& session, Sums& sums,
                Families& all) {
  const int per_rank = session.config().consumers_per_cp_rank;
  for (size_t i = 0; i < session.consumers().size(); ++i) {
    if (sums.labelled_streams++ >= kMaxLabelledStreams) return;
    const int index = static_cast<int>(i);
    all.Add("cpfeed_consumer_ack_lag_steps",
            {{"session", name},
             {"cp_rank", absl::StrCat(index / per_rank)},
             {"consumer", absl::StrCat(index % per_rank)}},
            static_cast<double>(session.next_step() - 1 -
                                session.consumers()[i].acked_step));
  }
  for (const Session::Producer& producer : session.producers()) {
    if (sums.labelled_streams++ >= kMaxLabelledStreams) return;
    all.Add("cpfeed_producer_expected_sequence",
            {{"session", name}, {"producer", SafeWord(producer.id)}},
            static_cast<double>(producer.next_sequence));
  }
}

// The worst of all chunks.
void AddNewestPlan(const std::string& name, const StepPlans& plans,
                   Families& all) {
  std::map<std::string, std::pair<double, double>> figures;
  const auto take = [&](const char* figure, double value, double bound) {
    auto& [most, best] = figures[figure];
    most = std::max(most, value);
    best = std::max(best, bound);
  };
  for (const auto& [metrics, bounds] : plans.figures()) {
    const auto number = [](int64_t value) {
      return static_cast<double>(value);
    };
    take("max_tokens", number(metrics.tokens.max), number(bounds.max_tokens));
    take("padding_tokens", number(metrics.padding_tokens), 0);
    take("area_imbalance", metrics.area.imbalance(), bounds.area_imbalance);
    take("max_tiles", number(metrics.tiles.max), bounds.max_tiles);
    take("mean_kv_rows_received", metrics.kv_rows_received.mean,
         std::max(bounds.mean_kv_rows, bounds.mean_kv_band));
    take("max_kv_rows_received", number(metrics.kv_rows_received.max),
         bounds.max_kv_rows);
    take("max_kv_rows_sent", number(metrics.kv_rows_sent.max), 0);
    take("max_slices", number(metrics.slices.max), number(bounds.max_slices));
  }
  for (const auto& [figure, values] : figures) {
    const LabelList labels = {{"session", name}, {"figure", figure}};
    all.Add("cpfeed_newest_plan", labels, values.first);
    all.Add("cpfeed_newest_plan_bound", labels, values.second);
  }
}

void AddLabelled(const std::string& name, const Session& session, Sums& sums,
                 Families& all) {
  const LabelList label = {{"session", name}};
  const auto add = [&](const char* metric, int64_t value) {
    all.Add(metric, label, static_cast<double>(value));
  };
  int64_t slowest = session.next_step();
  int64_t fastest = 0;
  for (const Session::Consumer& consumer : session.consumers()) {
    slowest = std::min(slowest, consumer.acked_step + 1);
    fastest = std::max(fastest, consumer.next_step);
  }
  add("cpfeed_session_memory_bytes", session.charged_bytes());
  add("cpfeed_session_memory_limit_bytes",
      session.config().memory_budget_bytes);
  add("cpfeed_session_next_step", session.next_step());
  add("cpfeed_session_finished",
      session.all_finished() && session.all_acked() ? 1 : 0);
  add("cpfeed_step_skew", std::max<int64_t>(fastest - slowest, 0));
  add("cpfeed_step_skew_limit", session.config().max_step_skew);
  AddStreams(name, session, sums, all);
}

}  // namespace

std::string SafeWord(absl::string_view text) {
  std::string word(text);
  for (char& letter : word) {
    const auto code = static_cast<unsigned char>(letter);
    if (!absl::ascii_isalnum(code) && !absl::StrContains("-_.", letter)) {
      letter = '_';
    }
  }
  return word;
}

SessionMetrics::SessionMetrics(const SessionRegistry& registry,
                               int max_labelled,
                               std::function<ServerGauges()> gauges)
    : registry_(registry),
      max_labelled_(max_labelled),
      gauges_(std::move(gauges)) {}

std::vector<MetricFamily> SessionMetrics::Collect() const {
  Families all;
  DeclareAll(all);
  Sums sums;
  int number = 0;
  for (const auto& host : registry_.All()) {
    const std::string name(absl::StripPrefix(host->spec().name, "sessions/"));
    const bool labelled = number++ < max_labelled_;
    host->Read([&](const Session& session, const SessionStanding& standing) {
      sums.Add(session, standing);
      if (labelled) AddLabelled(name, session, sums, all);
    });
    const auto newest = host->NewestRecord();
    if (labelled && newest != nullptr && newest->plans != nullptr) {
      AddNewestPlan(name, *newest->plans, all);
    }
  }
  AddSums(sums, all);
  const ServerGauges gauges = gauges_();
  all.Add("cpfeed_build_info",
          {{"version", kVersion}, {"grpc", grpc::Version()}}, 1);
  all.Add("cpfeed_drain_state", {}, gauges.draining ? 1 : 0);
  all.Add("cpfeed_plan_cache_lookups_total", {{"result", "hit"}},
          static_cast<double>(gauges.plans.hits));
  all.Add("cpfeed_plan_cache_lookups_total", {{"result", "miss"}},
          static_cast<double>(gauges.plans.misses));
  all.Add("cpfeed_plan_cache_bytes", {},
          static_cast<double>(gauges.plans.bytes));
  all.Add("cpfeed_streams", {{"kind", "producer"}}, gauges.producer_streams);
  all.Add("cpfeed_streams", {{"kind", "consumer"}}, gauges.consumer_streams);
  all.Add("cpfeed_steps_published_total", {},
          static_cast<double>(registry_.published_steps()));
  all.Add("cpfeed_quarantined_total", {},
          static_cast<double>(registry_.quarantined_batches()));
  return all.Take();
}

}  // namespace cpfeed
