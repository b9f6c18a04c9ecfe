#include "tests/core/session/session_events.h"

#include <utility>

#include "core/base/status_macros.h"

namespace cpfeed::testing {

SessionConfig ConfigOf(std::vector<std::string> producers) {
  return {.producers = std::move(producers),
          .memory_budget_bytes = 400'000,
          .max_batch_bytes = 1000};
}

uint64_t DigestOf(int64_t sequence) {
  return 0x9e3779b97f4a7c15 * static_cast<uint64_t>(sequence + 1);
}

absl::StatusOr<std::vector<PublishedStep>> Put(Session& session,
                                               int64_t connection,
                                               int64_t sequence,
                                               int64_t payload_bytes) {
  const int64_t cost_bytes = payload_bytes * kCostPerPayloadByte;
  CF_RETURN_IF_ERROR(session
                         .Admit(connection, sequence, DigestOf(sequence),
                                payload_bytes, cost_bytes)
                         .status());
  return session.Complete(connection, sequence, cost_bytes);
}

void PutAll(Session& session, int64_t connection, int64_t first,
            int64_t count) {
  for (int64_t sequence = first; sequence < first + count; ++sequence) {
    CF_CHECK(Put(session, connection, sequence).ok());
  }
}

std::vector<int64_t> SendAll(Session& session, int64_t connection,
                             int64_t bytes_each) {
  std::vector<int64_t> steps;
  while (true) {
    const auto delivery = session.Next(connection);
    CF_CHECK(delivery.ok());
    const auto sent = session.TrySend(connection, bytes_each);
    CF_CHECK(sent.ok());
    if (!*sent) return steps;
    steps.push_back(delivery->step);
  }
}

}  // namespace cpfeed::testing
