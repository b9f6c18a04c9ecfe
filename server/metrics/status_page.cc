#include "server/metrics/status_page.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/session/session.h"
#include "cpfeed/v1/session.pb.h"
#include "server/metrics/plan_picture.h"
#include "server/metrics/session_metrics.h"

namespace cpfeed {
namespace {

constexpr int kMostSessions = 64;
constexpr int kMostStreams = 64;

void AppendProducers(const v1::Session& session, std::string& page) {
  const int count = session.producer_positions_size();
  for (int i = 0; i < std::min(count, kMostStreams); ++i) {
    const v1::ProducerPosition& producer = session.producer_positions(i);
    absl::StrAppend(&page, "  producer ", SafeWord(producer.producer()),
                    ": next batch ", producer.next_sequence(),
                    producer.connected() ? "" : ", not connected",
                    producer.finished() ? ", finished" : "", "\n");
  }
  if (count > kMostStreams) {
    absl::StrAppend(&page, "  ... ", count - kMostStreams, " more producers\n");
  }
}

void AppendConsumers(const v1::Session& session, std::string& page) {
  const int count = session.consumer_positions_size();
  for (int i = 0; i < std::min(count, kMostStreams); ++i) {
    const v1::ConsumerPosition& consumer = session.consumer_positions(i);
    absl::StrAppend(&page, "  consumer ", consumer.cp_rank(), ".",
                    consumer.consumer(), ": sent ", consumer.sent_step(),
                    ", acknowledged ", consumer.acknowledged_step(), ", lag ",
                    session.next_step() - 1 - consumer.acknowledged_step(),
                    consumer.connected() ? "" : ", not connected", "\n");
  }
  if (count > kMostStreams) {
    absl::StrAppend(&page, "  ... ", count - kMostStreams, " more consumers\n");
  }
}

void AppendSession(const SessionHost& host, std::string& page) {
  const v1::Session session = host.ToProto();
  absl::StrAppend(&page, "\n", session.name(), ": ",
                  absl::StripPrefix(v1::SessionState_Name(session.state()),
                                    "SESSION_STATE_"),
                  ", cp_size ", session.topology().cp_size(), ", generation ",
                  session.generation(), "\n  steps ", session.first_held_step(),
                  " to ", session.next_step() - 1, " held in ",
                  session.memory_bytes(), " of ",
                  host.spec().config.memory_budget_bytes, " bytes; committed ",
                  session.committed_step(), "\n");
  if (!session.state_detail().empty()) {
    absl::StrAppend(&page, "  ", session.state_detail(), "\n");
  }
  AppendProducers(session, page);
  AppendConsumers(session, page);
  const std::shared_ptr<const HeldStep> newest =
      host.FindStep(session.next_step() - 1);
  if (newest == nullptr) {
    absl::StrAppend(&page, "  no step is held\n");
    return;
  }
  absl::StrAppend(&page, PlanPicture(*newest));
}

}  // namespace

std::string StatusPage(const SessionRegistry& registry,
                       absl::string_view server_line) {
  std::string page = absl::StrCat(server_line, "\n");
  const auto hosts = registry.All();
  absl::StrAppend(&page, hosts.size(), " sessions, ",
                  registry.published_steps(), " steps published\n");
  int left = kMostSessions;
  for (const auto& host : hosts) {
    if (left-- == 0) break;
    AppendSession(*host, page);
  }
  if (left < 0) {
    absl::StrAppend(&page, "\n... ", hosts.size() - kMostSessions,
                    " more sessions\n");
  }
  return page;
}

}  // namespace cpfeed
