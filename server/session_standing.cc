#include "server/session_standing.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace cpfeed {
namespace {

constexpr int kMostNamed = 4;

bool HasStreams(const Session& session) {
  return std::any_of(session.producers().begin(), session.producers().end(),
                     [](const auto& p) { return p.connection != 0; }) ||
         std::any_of(session.consumers().begin(), session.consumers().end(),
                     [](const auto& c) { return c.connection != 0; });
}

std::string NameConsumers(const Session& session) {
  const int per_rank = session.config().consumers_per_cp_rank;
  std::string text;
  int more = -kMostNamed;
  for (size_t i = 0; i < session.consumers().size(); ++i) {
    const Session::Consumer& consumer = session.consumers()[i];
    if (consumer.acked_step + 1 == session.next_step()) continue;
    if (++more > 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", "cp_rank ",
                    static_cast<int>(i) / per_rank, " consumer ",
                    static_cast<int>(i) % per_rank,
                    " has not acknowledged step ", consumer.acked_step + 1,
                    consumer.connection == 0 ? " and is not connected" : "");
  }
  if (more > 0) absl::StrAppend(&text, "; and ", more, " more");
  return text;
}

std::string NameProducer(const Session& session) {
  const Session::Producer& producer = session.producers()[session.turn()];
  return absl::StrCat(
      "producer ", producer.id, " has the next step and ",
      producer.connection == 0 ? "is not connected" : "sends nothing");
}

}  // namespace

SessionStanding StandingOf(const Session& session, absl::Duration idle,
                           absl::Duration stall_timeout, bool draining) {
  if (!session.failure().ok()) {
    return {v1::SESSION_STATE_FAILED, session.failure().ToString()};
  }
  if (session.all_finished() && session.all_acked()) {
    return {v1::SESSION_STATE_FINISHED, ""};
  }
  if (draining) return {v1::SESSION_STATE_DRAINING, ""};
  const bool holds = session.next_step() > session.first_held_step();
  if (idle >= stall_timeout && (holds || HasStreams(session))) {
    return {v1::SESSION_STATE_STALLED, session.all_acked()
                                           ? NameProducer(session)
                                           : NameConsumers(session)};
  }
  return {session.next_step() > 0 ? v1::SESSION_STATE_RUNNING
                                  : v1::SESSION_STATE_READY,
          ""};
}

}  // namespace cpfeed
