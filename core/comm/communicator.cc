#include "core/comm/communicator.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// The parts for other ranks, empty ones left out. Adds their bytes to `count`.
template <class Part>
absl::StatusOr<std::vector<Part>> RemoteParts(const Communicator& group,
                                              absl::Span<const Part> parts,
                                              int64_t& count) {
  std::vector<Part> remote;
  remote.reserve(parts.size());
  for (const Part& part : parts) {
    if (part.peer < 0 || part.peer >= group.size()) {
      return InvalidArgument(
          kBadOption, absl::StrCat("peer is ", part.peer, "; must be in [0, ",
                                   group.size(), ")"));
    }
    if (part.peer == group.rank() || part.bytes.empty()) continue;
    remote.push_back(part);
    count += static_cast<int64_t>(part.bytes.size());
  }
  return remote;
}

}  // namespace

Communicator::Communicator(int rank, int size, CommOptions options)
    : rank_(rank), size_(size), options_(std::move(options)) {
  CF_CHECK(rank >= 0 && rank < size);
}

// Copies the parts that a rank sends to itself, the n-th sent to the n-th
// received.
absl::Status Communicator::CopyOwnParts(
    absl::Span<const SendPart> sends, absl::Span<const ReceivePart> receives) {
  auto receive = receives.begin();
  const auto next_own = [&] {
    while (receive != receives.end() && receive->peer != rank_) ++receive;
  };
  next_own();
  for (const SendPart& send : sends) {
    if (send.peer != rank_) continue;
    if (receive == receives.end() ||
        receive->bytes.size() != send.bytes.size()) {
      return InvalidArgument(
          kShapeMismatch,
          absl::StrCat("rank ", rank_, " sends itself ", send.bytes.size(),
                       " bytes; must receive as many"));
    }
    if (!send.bytes.empty()) {
      CF_RETURN_IF_ERROR(CopyOwn(send.bytes, receive->bytes));
    }
    ++receive;
    next_own();
  }
  if (receive == receives.end()) return absl::OkStatus();
  return InvalidArgument(kShapeMismatch,
                         absl::StrCat("rank ", rank_,
                                      " receives from itself more "
                                      "parts than it sends"));
}

absl::Status Communicator::CopyOwn(absl::Span<const std::byte> from,
                                   absl::Span<std::byte> to) {
  std::memcpy(to.data(), from.data(), from.size());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PendingExchange>> Communicator::StartExchange(
    absl::Span<const SendPart> sends, absl::Span<const ReceivePart> receives) {
  if (absl::Status failure = Failure(); !failure.ok()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, kGroupFailed,
                     absl::StrCat("group \"", options_.group_name,
                                  "\" failed earlier: ", failure.message()));
  }
  CommBytes counts;
  CF_ASSIGN_OR_RETURN(const std::vector<SendPart> remote_sends,
                      RemoteParts(*this, sends, counts.sent));
  CF_ASSIGN_OR_RETURN(const std::vector<ReceivePart> remote_receives,
                      RemoteParts(*this, receives, counts.received));
  CF_RETURN_IF_ERROR(CopyOwnParts(sends, receives));
  bytes_.sent += counts.sent;
  bytes_.received += counts.received;
  return Start(exchanges_++, remote_sends, remote_receives);
}

absl::Status Communicator::Exchange(absl::Span<const SendPart> sends,
                                    absl::Span<const ReceivePart> receives) {
  CF_ASSIGN_OR_RETURN(const std::unique_ptr<PendingExchange> exchange,
                      StartExchange(sends, receives));
  return exchange->Wait();
}

absl::Status Communicator::PeerLate(absl::string_view action, int peer) const {
  return MakeError(
      absl::StatusCode::kDeadlineExceeded, kPeerLate,
      absl::StrCat("group \"", options_.group_name, "\": ", action, " rank ",
                   peer, " of ", size_, " took longer than ",
                   absl::FormatDuration(options_.timeout)));
}

absl::Status Communicator::PeerLost(absl::string_view action, int peer,
                                    absl::string_view why) const {
  return MakeError(
      absl::StatusCode::kUnavailable, kPeerLost,
      absl::StrCat("group \"", options_.group_name, "\": ", action, " rank ",
                   peer, " of ", size_, " failed: ", why));
}

}  // namespace cpfeed
