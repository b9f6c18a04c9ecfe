#include "core/comm/loopback_communicator.h"

#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

using Message = std::vector<std::byte>;

// What the ranks share: a queue of messages for each pair of them. Thread-safe.
class Mailboxes {
 public:
  explicit Mailboxes(int size)
      : size_(size), queues_(static_cast<size_t>(size) * size) {
    gone_.resize(size);
  }

  void Put(int from, int to, absl::Span<const std::byte> bytes) {
    absl::MutexLock lock(&mu_);
    queues_[from * size_ + to].emplace_back(bytes.begin(), bytes.end());
  }

  // The next message, or nothing after `timeout`, or if either rank is gone.
  std::optional<Message> Take(int from, int to, absl::Duration timeout) {
    absl::MutexLock lock(&mu_);
    std::deque<Message>& queue = queues_[from * size_ + to];
    const auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return !queue.empty() || gone_[from] || gone_[to];
    };
    mu_.AwaitWithTimeout(absl::Condition(&ready), timeout);
    if (queue.empty() || gone_[to]) return std::nullopt;
    Message message = std::move(queue.front());
    queue.pop_front();
    return message;
  }

  // The first reason stays.
  void Leave(int rank, absl::string_view reason) {
    absl::MutexLock lock(&mu_);
    if (!gone_[rank]) gone_[rank] = std::string(reason);
  }

  // Why `rank` has left, if it has.
  std::optional<std::string> WhyGone(int rank) const {
    absl::MutexLock lock(&mu_);
    return gone_[rank];
  }

 private:
  const int size_;
  mutable absl::Mutex mu_;
  std::vector<std::deque<Message>> queues_ ABSL_GUARDED_BY(mu_);
  std::vector<std::optional<std::string>> gone_ ABSL_GUARDED_BY(mu_);
};

class LoopbackCommunicator final : public Communicator {
 public:
  LoopbackCommunicator(int rank, int size, const CommOptions& options,
                       std::shared_ptr<Mailboxes> mailboxes)
      : Communicator(rank, size, options), mailboxes_(std::move(mailboxes)) {}

  ~LoopbackCommunicator() override {
    mailboxes_->Leave(rank(), "it left the group");
  }

  void Abort(absl::string_view reason) override {
    mailboxes_->Leave(rank(), absl::StrCat("aborted: ", reason));
  }

 protected:
  absl::StatusOr<std::unique_ptr<PendingExchange>> Start(
      int64_t number, absl::Span<const SendPart> sends,
      absl::Span<const ReceivePart> receives) override;

  absl::Status Failure() const override {
    const std::optional<std::string> why = mailboxes_->WhyGone(rank());
    return why ? absl::UnavailableError(*why) : absl::OkStatus();
  }

 private:
  class Pending;

  absl::Status Receive(const ReceivePart& part);

  const std::shared_ptr<Mailboxes> mailboxes_;
};

// Sends are done when it starts; what is left are the receives.
class LoopbackCommunicator::Pending final : public PendingExchange {
 public:
  Pending(LoopbackCommunicator& group, absl::Span<const ReceivePart> receives)
      : group_(group), receives_(receives.begin(), receives.end()) {}

  ~Pending() override {
    if (!waited_) group_.Abort("an exchange was dropped before its end");
  }

  absl::Status Wait() override {
    CF_CHECK(!waited_);
    waited_ = true;
    for (const ReceivePart& part : receives_) {
      if (absl::Status status = group_.Receive(part); !status.ok()) {
        group_.Abort(status.message());
        return status;
      }
    }
    return absl::OkStatus();
  }

 private:
  LoopbackCommunicator& group_;
  const std::vector<ReceivePart> receives_;
  bool waited_ = false;
};

absl::StatusOr<std::unique_ptr<PendingExchange>> LoopbackCommunicator::Start(
    int64_t, absl::Span<const SendPart> sends,
    absl::Span<const ReceivePart> receives) {
  for (const SendPart& part : sends) {
    mailboxes_->Put(rank(), part.peer, part.bytes);
  }
  return std::make_unique<Pending>(*this, receives);
}

absl::Status LoopbackCommunicator::Receive(const ReceivePart& part) {
  const std::optional<Message> message =
      mailboxes_->Take(part.peer, rank(), options().timeout);
  if (!message) {
    for (const int who : {rank(), part.peer}) {
      if (const auto why = mailboxes_->WhyGone(who)) {
        return PeerLost("receive from", part.peer, *why);
      }
    }
    return PeerLate("receive from", part.peer);
  }
  if (message->size() != part.bytes.size()) {
    return PeerLost("receive from", part.peer,
                    absl::StrCat("it sent ", message->size(),
                                 " bytes; must be ", part.bytes.size()));
  }
  std::memcpy(part.bytes.data(), message->data(), message->size());
  return absl::OkStatus();
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeLoopbackGroup(
    int size, const CommOptions& options) {
  CF_CHECK(size >= 1);
  const auto mailboxes = std::make_shared<Mailboxes>(size);
  std::vector<std::unique_ptr<Communicator>> ends;
  for (int rank = 0; rank < size; ++rank) {
    ends.push_back(
        std::make_unique<LoopbackCommunicator>(rank, size, options, mailboxes));
  }
  return ends;
}

}  // namespace cpfeed
