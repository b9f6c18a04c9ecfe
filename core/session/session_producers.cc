// Producers: admission in order, turns, credit.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/session/session.h"

namespace cpfeed {
namespace {

// Digests of so many steps are kept for a trainer that never commits.
constexpr size_t kMostKnownBatches = 1 << 20;

absl::Status OutOfOrder(const Session::Producer& producer, int64_t sequence) {
  const auto next =
      producer.next_sequence + static_cast<int64_t>(producer.receiving.size());
  return MakeError(absl::StatusCode::kFailedPrecondition, kOutOfOrder,
                   absl::StrCat("producer ", producer.id, " sent sequence ",
                                sequence, "; must be ", next));
}

absl::Status CheckDigest(const Session::Producer& producer, int64_t sequence,
                         uint64_t digest, uint64_t known_digest) {
  if (digest == known_digest) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kAlreadyExists, kSequenceConflict,
      absl::StrCat("sequence ", sequence, " of producer ", producer.id,
                   " has digest ", absl::Hex(digest), "; it was ",
                   absl::Hex(known_digest), " before"));
}

absl::StatusOr<Admission> AdmitKnown(const Session::Producer& producer,
                                     int64_t sequence, uint64_t digest) {
  uint64_t known_digest = 0;
  Admission admission{.duplicate = true};
  const auto known = producer.known.find(sequence);
  if (known != producer.known.end()) {
    known_digest = known->second.digest;
    admission.step = known->second.step;
  } else {
    const auto waiting = std::find_if(
        producer.waiting.begin(), producer.waiting.end(),
        [&](const auto& batch) { return batch.sequence == sequence; });
    if (waiting == producer.waiting.end()) {
      return MakeError(
          absl::StatusCode::kOutOfRange, kCursorExpired,
          absl::StrCat("sequence ", sequence, " of producer ", producer.id,
                       " is committed and forgotten; next is ",
                       producer.next_sequence));
    }
    known_digest = waiting->digest;
  }
  CF_RETURN_IF_ERROR(CheckDigest(producer, sequence, digest, known_digest));
  return admission;
}

// What becomes of a batch by its place in the order alone.
absl::StatusOr<Admission> CheckSequence(const Session::Producer& producer,
                                        int64_t sequence, uint64_t digest) {
  if (sequence < producer.next_sequence) {
    return AdmitKnown(producer, sequence, digest);
  }
  if (producer.finished) {
    return MakeError(absl::StatusCode::kFailedPrecondition, kOutOfOrder,
                     absl::StrCat("producer ", producer.id, " sent sequence ",
                                  sequence, "; it has finished after ",
                                  producer.next_sequence, " batches"));
  }
  const auto under_way = static_cast<int64_t>(producer.receiving.size());
  if (sequence != producer.next_sequence + under_way) {
    return OutOfOrder(producer, sequence);
  }
  // After a seek it comes again and must be what it was.
  const auto known = producer.known.find(sequence);
  if (known != producer.known.end()) {
    CF_RETURN_IF_ERROR(
        CheckDigest(producer, sequence, digest, known->second.digest));
  }
  return Admission{};
}

}  // namespace

absl::StatusOr<Session::Producer*> ProducerSide::FindProducer(
    int64_t connection) {
  CF_RETURN_IF_ERROR(failure_);
  for (Producer& producer : producers_) {
    if (producer.connection == connection && connection != 0) return &producer;
  }
  return MakeError(
      absl::StatusCode::kAborted, kFenced,
      "the producer's stream is fenced; a newer one was opened, or "
      "the session went to a cursor");
}

absl::StatusOr<int64_t> ProducerSide::OpenProducer(absl::string_view id,
                                                   int64_t incarnation) {
  CF_RETURN_IF_ERROR(failure_);
  const auto producer =
      std::find_if(producers_.begin(), producers_.end(),
                   [&](const Producer& p) { return p.id == id; });
  if (producer == producers_.end()) {
    return MakeError(absl::StatusCode::kNotFound, kSessionNotFound,
                     absl::StrCat("session has no producer ", id));
  }
  if (incarnation < producer->incarnation ||
      (incarnation == producer->incarnation && producer->connection != 0)) {
    return MakeError(
        absl::StatusCode::kAborted, kFenced,
        absl::StrCat("producer ", id, " opens with incarnation ", incarnation,
                     "; incarnation ", producer->incarnation,
                     producer->connection != 0 ? " has a stream open"
                                               : " was here before"));
  }
  if (producer->connection != 0) CloseProducer(producer->connection);
  producer->incarnation = incarnation;
  producer->connection = ++last_connection_;
  producer->pending_grant_bytes = producer->credit_bytes;
  return producer->connection;
}

absl::StatusOr<Admission> ProducerSide::Admit(int64_t connection,
                                              int64_t sequence, uint64_t digest,
                                              int64_t payload_bytes,
                                              int64_t cost_bytes) {
  CF_ASSIGN_OR_RETURN(Producer * producer, FindProducer(connection));
  CF_CHECK(cost_bytes <= payload_bytes * kCostPerPayloadByte);
  const absl::StatusOr<Admission> admission =
      CheckSequence(*producer, sequence, digest);
  if (!admission.ok() || admission->duplicate) {
    producer->pending_grant_bytes += payload_bytes;
    return admission;
  }
  if (payload_bytes > producer->credit_bytes) {
    return InvalidArgument(
        kProtocolError,
        absl::StrCat("batch has ", payload_bytes, " bytes; credit is ",
                     producer->credit_bytes));
  }
  producer->credit_bytes -= payload_bytes;
  producer->receiving.push_back(
      {.sequence = sequence, .digest = digest, .cost_bytes = cost_bytes});
  Charge(*producer, cost_bytes);
  return admission;
}

absl::StatusOr<Session::Producer::Batch*> ProducerSide::FindReceiving(
    Producer& producer, int64_t sequence) {
  for (Producer::Batch& batch : producer.receiving) {
    if (batch.sequence == sequence) return &batch;
  }
  return OutOfOrder(producer, sequence);
}

// Drops the batches under way from a sequence on.
void ProducerSide::DropReceiving(Producer& producer, int64_t from_sequence) {
  while (!producer.receiving.empty() &&
         producer.receiving.back().sequence >= from_sequence) {
    Charge(producer, -producer.receiving.back().cost_bytes);
    producer.receiving.pop_back();
  }
  RefillCredits();
}

absl::StatusOr<std::vector<PublishedStep>> ProducerSide::Complete(
    int64_t connection, int64_t sequence, int64_t cost_bytes) {
  CF_ASSIGN_OR_RETURN(Producer * producer, FindProducer(connection));
  CF_ASSIGN_OR_RETURN(Producer::Batch * batch,
                      FindReceiving(*producer, sequence));
  // A batch that was under way when one before it was rejected, and was
  // admitted again since.
  if (sequence != producer->next_sequence) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, kOutOfOrder,
        absl::StrCat("sequence ", sequence, " of producer ", producer->id,
                     " is complete before ", producer->next_sequence));
  }
  CF_CHECK(cost_bytes <= batch->cost_bytes);
  Charge(*producer, cost_bytes - batch->cost_bytes);
  batch->cost_bytes = cost_bytes;
  producer->waiting.push_back(*batch);
  producer->receiving.pop_front();
  ++producer->next_sequence;
  return PublishTurns();
}

absl::Status ProducerSide::Reject(int64_t connection, int64_t sequence) {
  CF_ASSIGN_OR_RETURN(Producer * producer, FindProducer(connection));
  CF_RETURN_IF_ERROR(FindReceiving(*producer, sequence).status());
  DropReceiving(*producer, sequence);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PublishedStep>> ProducerSide::Finish(
    int64_t connection, int64_t num_batches) {
  CF_ASSIGN_OR_RETURN(Producer * producer, FindProducer(connection));
  if (num_batches != producer->next_sequence || !producer->receiving.empty()) {
    return OutOfOrder(*producer, num_batches);
  }
  producer->finished = true;
  producer->credit_bytes = 0;
  producer->pending_grant_bytes = 0;
  return PublishTurns();
}

void ProducerSide::CloseProducer(int64_t connection) {
  if (connection == 0) return;
  for (Producer& producer : producers_) {
    if (producer.connection != connection) continue;
    producer.connection = 0;
    DropReceiving(producer, 0);
  }
}

// Takes batches in turn: one of each producer that has not finished.
std::vector<PublishedStep> ProducerSide::PublishTurns() {
  std::vector<PublishedStep> published;
  const int count = static_cast<int>(producers_.size());
  for (int passed = 0; passed < count;) {
    Producer& producer = producers_[turn_];
    if (!producer.waiting.empty()) {
      Publish(turn_, published);
      passed = 0;
    } else if (!producer.finished) {
      break;
    } else {
      ++passed;
    }
    turn_ = (turn_ + 1) % count;
  }
  RefillCredits();
  return published;
}

void ProducerSide::Publish(int index, std::vector<PublishedStep>& published) {
  Producer& producer = producers_[index];
  const Producer::Batch batch = producer.waiting.front();
  producer.waiting.pop_front();
  producer.known[batch.sequence] = {.digest = batch.digest, .step = next_step_};
  if (producer.known.size() > kMostKnownBatches) {
    producer.known.erase(producer.known.begin());
  }
  producer.charged_bytes -= batch.cost_bytes;  // The session holds it now.
  held_cost_bytes_.push_back(batch.cost_bytes);
  published.push_back(
      {.step = next_step_, .producer = index, .sequence = batch.sequence});
  ++next_step_;
}

}  // namespace cpfeed
