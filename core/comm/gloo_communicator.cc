#include "core/comm/gloo_communicator.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/comm/rendezvous_store_impl.h"

namespace cpfeed {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr absl::string_view kSend = "send to";
constexpr absl::string_view kReceive = "receive from";
constexpr int64_t kTagMask = (int64_t{1} << 30) - 1;

// One send or receive under way.
struct Part {
  absl::string_view action;
  int peer;
  c10::intrusive_ptr<c10d::Work> work;
};

// The first line of the error, without the place in Gloo's source before it.
std::string WhatOf(const std::exception& error) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
  std::string what =
      c10_error != nullptr ? c10_error->what_without_backtrace() : error.what();
  what = what.substr(0, what.find('\n'));
  const size_t place_end = what.find("] ");
  if (what[0] != '[' || place_end == std::string::npos) return what;
  return what.substr(place_end + 2);
}

// The bytes as a tensor; c10d takes nothing else.
at::Tensor AsTensor(const std::byte* data, size_t size) {
  return at::from_blob(const_cast<std::byte*>(data),
                       {static_cast<int64_t>(size)}, at::kByte);
}

class GlooCommunicator final : public Communicator {
 public:
  GlooCommunicator(const GlooOptions& options,
                   std::shared_ptr<RendezvousStore> store,
                   c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo)
      : Communicator(options.rank, options.size, options.comm),
        store_(std::move(store)),
        gloo_(std::move(gloo)) {}

  void Abort(absl::string_view reason) override {
    Fail(absl::UnavailableError(absl::StrCat("aborted: ", reason)));
  }

 protected:
  absl::StatusOr<std::unique_ptr<PendingExchange>> Start(
      int64_t number, absl::Span<const SendPart> sends,
      absl::Span<const ReceivePart> receives) override;

  absl::Status Failure() const override {
    absl::MutexLock lock(&mu_);
    return failure_;
  }

 private:
  class Pending;

  // Notes the first failure and wakes whoever waits.
  void Fail(const absl::Status& why);

  const std::shared_ptr<RendezvousStore> store_;  // Outlives `gloo_`.
  const c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
  mutable absl::Mutex mu_;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  std::vector<Pending*> pending_ ABSL_GUARDED_BY(mu_);
};

class GlooCommunicator::Pending final : public PendingExchange {
 public:
  explicit Pending(GlooCommunicator& group) : group_(group) {
    absl::MutexLock lock(&group_.mu_);
    group_.pending_.push_back(this);
  }

  ~Pending() override {
    if (!waited_) group_.Abort("an exchange was dropped before its end");
    absl::MutexLock lock(&group_.mu_);
    auto& pending = group_.pending_;
    pending.erase(std::find(pending.begin(), pending.end(), this));
  }

  // Posts a part. Gloo's device thread moves the bytes from here on.
  absl::Status Add(const SendPart& send, int tag);
  absl::Status Add(const ReceivePart& receive, int tag);

  absl::Status Wait() override;

  // Called with group_.mu_ held.
  void AbortParts() {
    for (const Part& part : parts_) part.work->abort();
  }

 private:
  void Append(absl::string_view action, int peer,
              c10::intrusive_ptr<c10d::Work> work) {
    absl::MutexLock lock(&group_.mu_);
    parts_.push_back({action, peer, std::move(work)});
  }

  absl::Status WaitFor(const Part& part, Clock::time_point deadline) const;

  GlooCommunicator& group_;
  std::vector<Part> parts_;  // Grows under group_.mu_, by the owner's thread.
  bool waited_ = false;
};

absl::Status GlooCommunicator::Pending::Add(const SendPart& send, int tag) {
  std::vector<at::Tensor> tensors = {
      AsTensor(send.bytes.data(), send.bytes.size())};
  try {
    Append(kSend, send.peer, group_.gloo_->send(tensors, send.peer, tag));
  } catch (const std::exception& error) {
    return group_.PeerLost(kSend, send.peer, WhatOf(error));
  }
  return absl::OkStatus();
}

absl::Status GlooCommunicator::Pending::Add(const ReceivePart& receive,
                                            int tag) {
  std::vector<at::Tensor> tensors = {
      AsTensor(receive.bytes.data(), receive.bytes.size())};
  try {
    Append(kReceive, receive.peer,
           group_.gloo_->recv(tensors, receive.peer, tag));
  } catch (const std::exception& error) {
    return group_.PeerLost(kReceive, receive.peer, WhatOf(error));
  }
  return absl::OkStatus();
}

absl::Status GlooCommunicator::Pending::WaitFor(
    const Part& part, Clock::time_point deadline) const {
  // 0 would mean Gloo's own default.
  const auto left = std::max(
      std::chrono::duration_cast<milliseconds>(deadline - Clock::now()),
      milliseconds(1));
  std::string why;
  try {
    if (part.work->wait(left)) return absl::OkStatus();
  } catch (const std::exception& error) {
    why = WhatOf(error);
  }
  if (absl::Status failure = group_.Failure(); !failure.ok()) {
    return group_.PeerLost(part.action, part.peer, failure.message());
  }
  if (Clock::now() >= deadline) return group_.PeerLate(part.action, part.peer);
  return group_.PeerLost(part.action, part.peer, why);
}

absl::Status GlooCommunicator::Pending::Wait() {
  CF_CHECK(!waited_);
  waited_ = true;
  const Clock::time_point deadline =
      Clock::now() + absl::ToChronoMilliseconds(group_.options().timeout);
  for (const Part& part : parts_) {
    if (absl::Status status = WaitFor(part, deadline); !status.ok()) {
      group_.Fail(status);
      return status;
    }
  }
  return absl::OkStatus();
}

void GlooCommunicator::Fail(const absl::Status& why) {
  absl::MutexLock lock(&mu_);
  if (failure_.ok()) failure_ = why;
  for (Pending* pending : pending_) pending->AbortParts();
}

absl::StatusOr<std::unique_ptr<PendingExchange>> GlooCommunicator::Start(
    int64_t number, absl::Span<const SendPart> sends,
    absl::Span<const ReceivePart> receives) {
  // Ranks that are out of step never match; they run into the timeout.
  const int tag = static_cast<int>(number & kTagMask);
  auto pending = std::make_unique<Pending>(*this);
  absl::Status status;
  for (const ReceivePart& part : receives) {
    status.Update(pending->Add(part, tag));
  }
  for (const SendPart& part : sends) {
    status.Update(pending->Add(part, tag));
  }
  if (status.ok()) return pending;
  Fail(status);
  return status;
}

// "1, 3": the ranks that have not set their key.
std::string MissingRanks(RendezvousStore& store,
                         const std::vector<std::string>& keys) {
  std::vector<int> missing;
  for (size_t rank = 0; rank < keys.size(); ++rank) {
    const absl::StatusOr<bool> joined = store.Has(keys[rank]);
    if (!joined.ok() || !*joined) missing.push_back(static_cast<int>(rank));
  }
  return absl::StrJoin(missing, ", ");
}

// Tells the others that this rank is there and waits for them, so that an
// absent one is known by its number before Gloo starts connecting.
absl::Status MeetAtStore(RendezvousStore& store, const GlooOptions& options) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < options.size; ++rank) {
    keys.push_back(
        absl::StrCat("group/", options.comm.group_name, "/joined/", rank));
  }
  CF_RETURN_IF_ERROR(store.Set(keys[options.rank], "1"));
  const absl::Status met = store.Wait(keys, options.join_timeout);
  if (!absl::IsDeadlineExceeded(met)) return met;
  return MakeError(absl::StatusCode::kDeadlineExceeded, kPeerLate,
                   absl::StrCat("group \"", options.comm.group_name,
                                "\": rank ", MissingRanks(store, keys), " of ",
                                options.size, " did not join within ",
                                absl::FormatDuration(options.join_timeout)));
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> ConnectGloo(
    RendezvousStore& store, const GlooOptions& options) {
  using c10d::ProcessGroupGloo;
  auto gloo_options = ProcessGroupGloo::Options::create(
      absl::ToChronoMilliseconds(options.join_timeout));
  gloo_options->threads = 1;  // Serves Gloo's own collectives: none are used.
  gloo_options->devices.push_back(
      !options.interface_name.empty()
          ? ProcessGroupGloo::createDeviceForInterface(options.interface_name)
      : !options.host_name.empty()
          ? ProcessGroupGloo::createDeviceForHostname(options.host_name)
          : ProcessGroupGloo::createDefaultDevice());
  return c10::make_intrusive<ProcessGroupGloo>(
      c10::make_intrusive<c10d::PrefixStore>(
          absl::StrCat("group/", options.comm.group_name, "/gloo"),
          store.impl().store),
      options.rank, options.size, gloo_options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> JoinGlooGroup(
    const std::shared_ptr<RendezvousStore>& store, const GlooOptions& options) {
  if (options.rank < 0 || options.rank >= options.size) {
    return InvalidArgument(
        kBadOption, absl::StrCat("rank is ", options.rank, "; must be in [0, ",
                                 options.size, ")"));
  }
  CF_RETURN_IF_ERROR(MeetAtStore(*store, options));
  try {
    return std::make_unique<GlooCommunicator>(options, store,
                                              ConnectGloo(*store, options));
  } catch (const std::exception& error) {
    return MakeError(
        absl::StatusCode::kUnavailable, kPeerLost,
        absl::StrCat("group \"", options.comm.group_name, "\": rank ",
                     options.rank, " cannot connect: ", WhatOf(error)));
  }
}

}  // namespace cpfeed
