#include "client/retry_policy.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "core/base/error.h"

namespace cpfeed {
namespace {

struct Row {
  absl::StatusCode code;
  absl::string_view reason;  // "*": any, or none.
  RetryAction loader;
  RetryAction consumer;
};

using enum RetryAction;

// The first row that fits; what fits none is given up.
constexpr Row kTable[] = {
    // The server is away, stops, or has not the session (yet, or any more).
    {absl::StatusCode::kUnavailable, "*", kReopen, kReopen},
    {absl::StatusCode::kDeadlineExceeded, "", kReopen, kReopen},
    // One that stops may cancel what it has not answered.
    {absl::StatusCode::kCancelled, "", kReopen, kReopen},
    {absl::StatusCode::kNotFound, kSessionNotFound, kReopen, kReopen},
    {absl::StatusCode::kNotFound, kSessionExpired, kReopen, kReopen},
    // The trainer went to another step: loaders follow; what a rank is to do
    // with the steps that it has, its trainer must say.
    {absl::StatusCode::kAborted, kRewound, kReopen, kGiveUp},
    // A batch before was refused or lost; `opened` says what is wanted.
    {absl::StatusCode::kFailedPrecondition, kOutOfOrder, kReopenOnce, kGiveUp},
    {absl::StatusCode::kDataLoss, kChecksumMismatch, kReopenOnce, kReopenOnce},
    {absl::StatusCode::kResourceExhausted, kMemoryPressure, kReopen, kReopen},
    {absl::StatusCode::kResourceExhausted, kQuota, kReopen, kReopen},
};

double RandomNumber() {
  thread_local std::minstd_rand random{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(random);
}

RetryOptions WithRealOnes(RetryOptions options) {
  if (!options.now) {
    options.now = [] {
      return absl::FromChrono(
          std::chrono::steady_clock::now().time_since_epoch());
    };
  }
  if (!options.sleep) options.sleep = absl::SleepFor;
  if (!options.random) options.random = RandomNumber;
  return options;
}

}  // namespace

RetryAction ActionFor(ClientRole role, const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  for (const Row& row : kTable) {
    if (row.code != status.code()) continue;
    if (row.reason != "*" && row.reason != reason) continue;
    return role == ClientRole::kLoader ? row.loader : row.consumer;
  }
  return kGiveUp;
}

RetryPolicy::RetryPolicy(ClientRole role, RetryOptions options)
    : role_(role), options_(WithRealOnes(std::move(options))) {}

void RetryPolicy::MarkProgress() {
  failures_ = 0;
  once_.clear();
}

absl::Duration RetryPolicy::NextPause(const absl::Status& status) {
  const int doublings = std::min(failures_ - 1, 30);
  const absl::Duration pause = std::min(
      options_.first_pause * (int64_t{1} << doublings), options_.most_pause);
  return std::max(pause * (1 - options_.random() / 2), RetryDelayOf(status));
}

absl::Status RetryPolicy::PauseOrGiveUp(const absl::Status& status) {
  const RetryAction action = ActionFor(role_, status);
  if (action == kGiveUp) return status;
  if (action == kReopenOnce) {
    const std::string reason = ReasonOf(status);
    if (once_ == reason) return status;
    once_ = reason;
  }
  const absl::Duration now = options_.now();
  if (failures_++ == 0) failing_since_ = now;
  const absl::Duration pause = NextPause(status);
  const absl::Duration failing = now - failing_since_;
  if (failing + pause > options_.give_up_after) {
    return Annotate(status, absl::StrCat("nothing came through for ",
                                         absl::FormatDuration(failing), " and ",
                                         failures_, " attempts"));
  }
  options_.sleep(pause);
  return absl::OkStatus();
}

}  // namespace cpfeed
