#include "client/resuming_reader.h"

#include <algorithm>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/session_client.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// Of what the bytes are, not of how they came: checksums of all tensors.
uint64_t DigestOf(const ReceivedStep& step) {
  if (step.kind == ReceivedStep::Kind::kTombstone) return 0;
  std::vector<uint64_t> words = {
      static_cast<uint64_t>(step.header.sequence()),
      static_cast<uint64_t>(step.header.data_epoch())};
  for (const v1::ShardHeader& chunk : step.header.chunks()) {
    words.push_back(chunk.plan_digest());
    for (const v1::TensorSpec& spec : chunk.tensors()) {
      words.push_back(spec.checksum());
    }
  }
  return Digest(words.data(),
                static_cast<int64_t>(words.size() * sizeof(uint64_t)));
}

}  // namespace

ResumingReader::ResumingReader(std::shared_ptr<grpc::Channel> channel,
                               ResumingReaderOptions options)
    : channel_(std::move(channel)),
      options_(std::move(options)),
      policy_(ClientRole::kConsumer, options_.retry) {
  if (options_.reader.incarnation == 0) {
    options_.reader.incarnation = absl::ToUnixNanos(absl::Now());
  }
  if (options_.reader.first_step) {
    delivered_ = acked_ = *options_.reader.first_step - 1;
  }
}

absl::StatusOr<std::unique_ptr<ResumingReader>> ResumingReader::Attach(
    std::shared_ptr<grpc::Channel> channel, ResumingReaderOptions options) {
  std::unique_ptr<ResumingReader> reader(
      new ResumingReader(std::move(channel), std::move(options)));
  CF_RETURN_IF_ERROR(reader->AttachUntil(reader->AttachOnce()));
  return reader;
}

absl::StatusOr<v1::Session> ResumingReader::FindOrMakeSession() {
  if (!options_.create) {
    return WaitForSession(channel_, options_.reader.session,
                          options_.reader.session_wait);
  }
  v1::CreateSessionRequest request = *options_.create;
  // Slower consumers are at most max_step_skew steps behind: they all have
  // acknowledged the step of this cursor.
  if (delivered_) {
    for (const auto& [step, cursor] : cursors_) {
      if (step > *delivered_ - max_step_skew_) break;
      request.mutable_start_cursor()->ParseFromString(cursor);
    }
  }
  return CreateSession(channel_, request);
}

absl::Status ResumingReader::AttachOnce() {
  reader_.reset();
  broken_ = absl::OkStatus();
  CF_ASSIGN_OR_RETURN(const v1::Session session, FindOrMakeSession());
  const std::string made = session.create_time().SerializeAsString();
  const bool same = session_made_.empty() || session_made_ == made;
  max_step_skew_ = session.delivery().max_step_skew();
  ShardReaderOptions reader = options_.reader;
  // Generations and acknowledgements are the session's that gave them.
  if (!same) reader.generation = 0;
  reader.first_step.reset();
  if (same && acked_) reader.first_step = *acked_ + 1;
  auto attached = ShardReader::Attach(channel_, reader);
  if (!attached.ok() && reader.first_step &&
      ReasonOf(attached.status()) == kCursorMismatch) {
    // The session was made anew, further back.
    reader.first_step.reset();
    attached = ShardReader::Attach(channel_, reader);
  }
  CF_RETURN_IF_ERROR(attached.status());
  reader_ = *std::move(attached);
  session_made_ = made;
  options_.reader.generation = reader_->attached().generation();
  return CheckNoGap();
}

absl::Status ResumingReader::CheckNoGap() const {
  const int64_t first = reader_->attached().first_step();
  if (!delivered_ || first <= *delivered_ + 1) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition, kCursorMismatch,
      absl::StrCat("the session goes on with step ", first,
                   "; the next one of this consumer is ", *delivered_ + 1));
}

// Attaches again until it works, after `status`.
absl::Status ResumingReader::AttachUntil(absl::Status status) {
  while (!status.ok()) {
    broken_ = policy_.PauseOrGiveUp(status);
    CF_RETURN_IF_ERROR(broken_);
    ++options_.reader.incarnation;
    ++resumed_;
    status = AttachOnce();
  }
  return status;
}

absl::StatusOr<std::optional<ReceivedStep>> ResumingReader::Next() {
  const absl::Time begin = absl::Now();
  const auto measure =
      absl::MakeCleanup([&] { data_wait_ += absl::Now() - begin; });
  return NextOrResume();
}

absl::StatusOr<std::optional<ReceivedStep>> ResumingReader::NextOrResume() {
  while (true) {
    auto received = broken_.ok()
                        ? reader_->Next()
                        : absl::StatusOr<std::optional<ReceivedStep>>(broken_);
    if (!received.ok()) {
      CF_RETURN_IF_ERROR(AttachUntil(received.status()));
      continue;
    }
    if (!received->has_value()) return received;
    policy_.MarkProgress();
    CF_ASSIGN_OR_RETURN(const bool is_new, IsNew(**received));
    if (is_new) return received;
  }
}

// False for what the caller was given before.
absl::StatusOr<bool> ResumingReader::IsNew(const ReceivedStep& step) {
  const int64_t number = step.header.step();
  if (step.kind == ReceivedStep::Kind::kEpochEnd) {
    const bool is_new = number > ended_epoch_step_;
    ended_epoch_step_ = std::max(ended_epoch_step_, number);
    return is_new;
  }
  const uint64_t digest = DigestOf(step);
  if (delivered_ && number <= *delivered_) {
    const auto known = digests_.find(number);
    if (known != digests_.end() && known->second != digest) {
      return MakeError(absl::StatusCode::kAlreadyExists, kSequenceConflict,
                       absl::StrCat("step ", number, " came again with digest ",
                                    absl::Hex(digest), "; it was ",
                                    absl::Hex(known->second), " before"));
    }
    if (acked_ && number <= *acked_) Ack(number);
    return false;
  }
  delivered_ = number;
  digests_[number] = digest;
  KeepCursor(step);
  return true;
}

void ResumingReader::KeepCursor(const ReceivedStep& step) {
  // As far back as a session that is made again may begin.
  const int64_t oldest = step.header.step() - 2 * max_step_skew_ - 1;
  digests_.erase(digests_.begin(), digests_.lower_bound(oldest));
  if (step.cursor.empty() || !options_.create) return;
  cursors_.emplace_back(step.header.step(), step.cursor);
  while (cursors_.front().first < oldest) cursors_.pop_front();
}

void ResumingReader::Ack(int64_t through_step) {
  acked_ = std::max(acked_.value_or(through_step), through_step);
  if (!broken_.ok()) return;
  broken_ = reader_->Ack(through_step);
}

}  // namespace cpfeed
