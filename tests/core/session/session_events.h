// Short forms of what the server does with a session, for its tests.

#ifndef CPFEED_TESTS_CORE_SESSION_SESSION_EVENTS_H_
#define CPFEED_TESTS_CORE_SESSION_SESSION_EVENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/session/session.h"

namespace cpfeed::testing {

// A config with these producers, room for many batches of up to 1000 bytes, and
// one consumer.
SessionConfig ConfigOf(std::vector<std::string> producers);

// Digest of the batch that every test sends as this sequence.
uint64_t DigestOf(int64_t sequence);

// A batch from header to end: admitted and converted.
absl::StatusOr<std::vector<PublishedStep>> Put(Session& session,
                                               int64_t connection,
                                               int64_t sequence,
                                               int64_t payload_bytes = 1);

// Puts `count` batches from `first` on, which must all be taken.
void PutAll(Session& session, int64_t connection, int64_t first, int64_t count);

// The steps that the consumer is sent with the credit that it has, in order.
std::vector<int64_t> SendAll(Session& session, int64_t connection,
                             int64_t bytes_each = 1);

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CORE_SESSION_SESSION_EVENTS_H_
