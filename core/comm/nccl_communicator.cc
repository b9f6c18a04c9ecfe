#include "core/comm/nccl_communicator.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/comm/nccl_handles.h"

namespace cpfeed {
namespace {

using Clock = std::chrono::steady_clock;

// How often the watching thread looks, and a waiting one.
constexpr absl::Duration kWatchInterval = absl::Milliseconds(100);
constexpr auto kPollInterval = std::chrono::microseconds(50);

bool IsDevice(const void* address) {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeDevice ||
         attributes.type == cudaMemoryTypeManaged;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const NcclOptions& options,
                   std::shared_ptr<RendezvousStore> store, ncclComm_t comm,
                   OwnedStream stream)
      : Communicator(options.rank, options.size, options.comm),
        device_(options.cuda_device),
        compute_stream_(options.compute_stream),
        store_(std::move(store)),
        stream_(std::move(stream)),
        comm_(comm),
        watcher_([this] { Watch(); }) {}

  ~NcclCommunicator() override;

  void Abort(absl::string_view reason) override {
    Fail(absl::UnavailableError(absl::StrCat("aborted: ", reason)));
  }

 protected:
  absl::Status CopyOwn(absl::Span<const std::byte> from,
                       absl::Span<std::byte> to) override;
  absl::StatusOr<std::unique_ptr<PendingExchange>> Start(
      int64_t number, absl::Span<const SendPart> sends,
      absl::Span<const ReceivePart> receives) override;
  absl::Status Failure() const override {
    absl::MutexLock lock(&mu_);
    return failure_;
  }

 private:
  class Pending;
  // An exchange that may not have ended yet. Its event is the watcher's.
  struct Watched {
    OwnedEvent done;
    Clock::time_point deadline;
    std::string peers;
  };

  cudaStream_t compute() const {
    return compute_stream_ ? static_cast<cudaStream_t>(compute_stream_())
                           : nullptr;
  }

  // Lets `behind` go on only when `first` has done what is queued on it now.
  static absl::Status Order(cudaStream_t first, cudaStream_t behind);

  absl::Status Queue(absl::Span<const SendPart> sends,
                     absl::Span<const ReceivePart> receives, Pending& pending);
  absl::Status CallGroup(absl::Span<const SendPart> sends,
                         absl::Span<const ReceivePart> receives);
  // Waits for NCCL, which does not block, to have taken a call.
  absl::Status Settle(Clock::time_point deadline);
  absl::Status AddWatched(absl::Span<const SendPart> sends,
                          absl::Span<const ReceivePart> receives);

  void Watch() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Look() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);
  void FailLocked(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int device_;
  const ComputeStream compute_stream_;
  const std::shared_ptr<RendezvousStore> store_;
  const OwnedStream stream_;
  mutable absl::Mutex mu_;
  // Null when it was aborted. NCCL's calls on one communicator must not meet.
  ncclComm_t comm_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  std::deque<Watched> watched_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::thread watcher_;  // Starts when all else is there.
};

// Parts in the host's memory have a staged copy; it is freed behind what uses
// it on the group's stream.
class NcclCommunicator::Pending final : public PendingExchange {
 public:
  explicit Pending(NcclCommunicator& group) : group_(group) {}

  ~Pending() override {
    if (!waited_) group_.Abort("an exchange was dropped before its end");
  }

  absl::Status Wait() override;

  absl::StatusOr<const std::byte*> StageSend(absl::Span<const std::byte> part) {
    CF_ASSIGN_OR_RETURN(
        StreamBytes room,
        StreamBytes::Allocate(part.size(), group_.stream_.get()));
    CF_RETURN_IF_ERROR(CudaStatus(
        cudaMemcpyAsync(room.get(), part.data(), part.size(),
                        cudaMemcpyHostToDevice, group_.stream_.get()),
        "cudaMemcpyAsync"));
    staged_.push_back(std::move(room));
    return static_cast<const std::byte*>(staged_.back().get());
  }

  absl::StatusOr<std::byte*> StageReceive(absl::Span<std::byte> part) {
    CF_ASSIGN_OR_RETURN(
        StreamBytes room,
        StreamBytes::Allocate(part.size(), group_.stream_.get()));
    staged_.push_back(std::move(room));
    arrivals_.push_back({staged_.back().get(), part});
    return static_cast<std::byte*>(staged_.back().get());
  }

  void set_done(OwnedEvent done) { done_ = std::move(done); }

 private:
  struct Arrival {
    const void* staged;
    absl::Span<std::byte> to;
  };

  absl::Status WaitOnHost();

  NcclCommunicator& group_;
  std::vector<StreamBytes> staged_;
  std::vector<Arrival> arrivals_;
  OwnedEvent done_;
  bool waited_ = false;
};

absl::Status NcclCommunicator::Pending::Wait() {
  CF_CHECK(!waited_);
  waited_ = true;
  CF_RETURN_IF_ERROR(group_.Failure());
  CF_RETURN_IF_ERROR(
      CudaStatus(cudaStreamWaitEvent(group_.compute(), done_.get(), 0),
                 "cudaStreamWaitEvent"));
  // Whoever reads or changes the host's memory does it at once.
  if (!staged_.empty()) CF_RETURN_IF_ERROR(WaitOnHost());
  return absl::OkStatus();
}

// The watching thread sees to the timeout: it makes this end.
absl::Status NcclCommunicator::Pending::WaitOnHost() {
  while (true) {
    const cudaError_t state = cudaEventQuery(done_.get());
    CF_RETURN_IF_ERROR(group_.Failure());
    if (state == cudaSuccess) break;
    if (state != cudaErrorNotReady) {
      const absl::Status failed = CudaStatus(state, "exchange");
      group_.Fail(failed);
      return failed;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  for (const Arrival& arrival : arrivals_) {
    CF_RETURN_IF_ERROR(CudaStatus(
        cudaMemcpyAsync(arrival.to.data(), arrival.staged, arrival.to.size(),
                        cudaMemcpyDeviceToHost, group_.stream_.get()),
        "cudaMemcpyAsync"));
  }
  return CudaStatus(cudaStreamSynchronize(group_.stream_.get()),
                    "cudaStreamSynchronize");
}

NcclCommunicator::~NcclCommunicator() {
  // Ends: where a peer is gone the watching thread aborts the group.
  (void)cudaStreamSynchronize(stream_.get());
  {
    absl::MutexLock lock(&mu_);
    stopped_ = true;
  }
  watcher_.join();
  absl::MutexLock lock(&mu_);
  // Not ncclCommDestroy, which waits for peers that may be gone.
  if (comm_ != nullptr) (void)ncclCommAbort(comm_);
}

absl::Status NcclCommunicator::Order(cudaStream_t first, cudaStream_t behind) {
  CF_ASSIGN_OR_RETURN(const OwnedEvent event, NewEvent());
  CF_RETURN_IF_ERROR(
      CudaStatus(cudaEventRecord(event.get(), first), "cudaEventRecord"));
  return CudaStatus(cudaStreamWaitEvent(behind, event.get(), 0),
                    "cudaStreamWaitEvent");
}

absl::Status NcclCommunicator::CopyOwn(absl::Span<const std::byte> from,
                                       absl::Span<std::byte> to) {
  const bool on_device = IsDevice(from.data()) && IsDevice(to.data());
  if (!IsDevice(from.data()) && !IsDevice(to.data())) {
    return Communicator::CopyOwn(from, to);
  }
  CF_RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(to.data(), from.data(), from.size(),
                                 cudaMemcpyDefault, compute()),
                 "cudaMemcpyAsync"));
  if (on_device) return absl::OkStatus();
  return CudaStatus(cudaStreamSynchronize(compute()), "cudaStreamSynchronize");
}

absl::StatusOr<std::unique_ptr<PendingExchange>> NcclCommunicator::Start(
    int64_t /*number*/, absl::Span<const SendPart> sends,
    absl::Span<const ReceivePart> receives) {
  auto pending = std::make_unique<Pending>(*this);
  absl::Status status = Queue(sends, receives, *pending);
  if (status.ok()) return pending;
  Fail(status);
  return PeerLost("exchange with", sends.empty() ? rank() : sends[0].peer,
                  status.message());
}

absl::Status NcclCommunicator::Queue(absl::Span<const SendPart> sends,
                                     absl::Span<const ReceivePart> receives,
                                     Pending& pending) {
  CF_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device_), "cudaSetDevice"));
  CF_RETURN_IF_ERROR(Order(compute(), stream_.get()));
  std::vector<SendPart> on_device(sends.begin(), sends.end());
  for (SendPart& part : on_device) {
    if (IsDevice(part.bytes.data())) continue;
    CF_ASSIGN_OR_RETURN(const std::byte* const staged,
                        pending.StageSend(part.bytes));
    part.bytes = {staged, part.bytes.size()};
  }
  std::vector<ReceivePart> to_device(receives.begin(), receives.end());
  for (ReceivePart& part : to_device) {
    if (IsDevice(part.bytes.data())) continue;
    CF_ASSIGN_OR_RETURN(std::byte* const staged,
                        pending.StageReceive(part.bytes));
    part.bytes = {staged, part.bytes.size()};
  }
  if (!sends.empty() || !receives.empty()) {
    CF_RETURN_IF_ERROR(CallGroup(on_device, to_device));
  }
  CF_ASSIGN_OR_RETURN(OwnedEvent done, NewEvent());
  CF_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(done.get(), stream_.get()),
                                "cudaEventRecord"));
  pending.set_done(std::move(done));
  return AddWatched(sends, receives);
}

absl::Status NcclCommunicator::CallGroup(
    absl::Span<const SendPart> sends, absl::Span<const ReceivePart> receives) {
  {
    absl::MutexLock lock(&mu_);
    CF_RETURN_IF_ERROR(failure_);
    CF_RETURN_IF_ERROR(NcclStatus(ncclGroupStart(), "ncclGroupStart"));
    absl::Status status;
    for (const SendPart& part : sends) {
      status.Update(
          NcclStatus(ncclSend(part.bytes.data(), part.bytes.size(), ncclUint8,
                              part.peer, comm_, stream_.get()),
                     absl::StrCat("ncclSend to rank ", part.peer)));
    }
    for (const ReceivePart& part : receives) {
      status.Update(
          NcclStatus(ncclRecv(part.bytes.data(), part.bytes.size(), ncclUint8,
                              part.peer, comm_, stream_.get()),
                     absl::StrCat("ncclRecv from rank ", part.peer)));
    }
    status.Update(NcclStatus(ncclGroupEnd(), "ncclGroupEnd"));
    CF_RETURN_IF_ERROR(status);
  }
  return Settle(Clock::now() + absl::ToChronoNanoseconds(options().timeout));
}

absl::Status NcclCommunicator::Settle(Clock::time_point deadline) {
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      CF_RETURN_IF_ERROR(failure_);
      ncclResult_t state = ncclSuccess;
      CF_RETURN_IF_ERROR(NcclStatus(ncclCommGetAsyncError(comm_, &state),
                                    "ncclCommGetAsyncError"));
      if (state == ncclSuccess) return absl::OkStatus();
      CF_RETURN_IF_ERROR(NcclStatus(state, "connecting to peers"));
    }
    if (Clock::now() > deadline) {
      return absl::DeadlineExceededError("peers did not connect in time");
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

absl::Status NcclCommunicator::AddWatched(
    absl::Span<const SendPart> sends, absl::Span<const ReceivePart> receives) {
  CF_ASSIGN_OR_RETURN(OwnedEvent done, NewEvent());
  CF_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(done.get(), stream_.get()),
                                "cudaEventRecord"));
  std::string peers;
  for (const ReceivePart& part : receives) {
    absl::StrAppend(&peers, peers.empty() ? "" : ", ", part.peer);
  }
  if (receives.empty() && !sends.empty()) {
    peers = absl::StrCat(sends[0].peer);
  }
  absl::MutexLock lock(&mu_);
  watched_.push_back(
      {std::move(done),
       Clock::now() + absl::ToChronoNanoseconds(options().timeout),
       std::move(peers)});
  return absl::OkStatus();
}

void NcclCommunicator::Watch() {
  (void)cudaSetDevice(device_);
  absl::MutexLock lock(&mu_);
  while (!stopped_) {
    if (failure_.ok()) {
      if (absl::Status status = Look(); !status.ok()) FailLocked(status);
    }
    mu_.AwaitWithTimeout(absl::Condition(&stopped_), kWatchInterval);
  }
}

// Called by the watching thread.
absl::Status NcclCommunicator::Look() {
  ncclResult_t state = ncclSuccess;
  CF_RETURN_IF_ERROR(NcclStatus(ncclCommGetAsyncError(comm_, &state),
                                "ncclCommGetAsyncError"));
  if (state != ncclSuccess && state != ncclInProgress) {
    return MakeError(absl::StatusCode::kUnavailable, kPeerLost,
                     absl::StrCat("group \"", options().group_name,
                                  "\": NCCL: ", ncclGetErrorString(state), "; ",
                                  ncclGetLastError(comm_)));
  }
  while (!watched_.empty()) {
    const Watched& oldest = watched_.front();
    const cudaError_t done = cudaEventQuery(oldest.done.get());
    if (done == cudaErrorNotReady) break;
    CF_RETURN_IF_ERROR(CudaStatus(done, "exchange"));
    watched_.pop_front();
  }
  if (watched_.empty() || Clock::now() < watched_.front().deadline) {
    return absl::OkStatus();
  }
  return MakeError(
      absl::StatusCode::kDeadlineExceeded, kPeerLate,
      absl::StrCat("group \"", options().group_name, "\": exchange with rank ",
                   watched_.front().peers, " of ", size(), " took longer than ",
                   absl::FormatDuration(options().timeout)));
}

void NcclCommunicator::Fail(const absl::Status& why) {
  absl::MutexLock lock(&mu_);
  FailLocked(why);
}

void NcclCommunicator::FailLocked(const absl::Status& why) {
  if (!failure_.ok()) return;
  failure_ = why;
  // Ends kernels that wait for peers, so that streams go on.
  (void)ncclCommAbort(std::exchange(comm_, nullptr));
}

absl::Status NotInTime(const NcclOptions& options) {
  return MakeError(
      absl::StatusCode::kDeadlineExceeded, kPeerLate,
      absl::StrCat("group \"", options.comm.group_name, "\": ranks of ",
                   options.size, " did not join within ",
                   absl::FormatDuration(options.join_timeout)));
}

// Rank 0 makes the id that the ranks find each other by; others read it.
absl::StatusOr<ncclUniqueId> ShareId(RendezvousStore& store,
                                     const NcclOptions& options) {
  const std::string key =
      absl::StrCat("group/", options.comm.group_name, "/nccl_id");
  ncclUniqueId id;
  if (options.rank == 0) {
    CF_RETURN_IF_ERROR(NcclStatus(ncclGetUniqueId(&id), "ncclGetUniqueId"));
    CF_RETURN_IF_ERROR(store.Set(key, {id.internal, sizeof(id.internal)}));
    return id;
  }
  const absl::Status there = store.Wait({key}, options.join_timeout);
  if (absl::IsDeadlineExceeded(there)) return NotInTime(options);
  CF_RETURN_IF_ERROR(there);
  CF_ASSIGN_OR_RETURN(const std::string bytes, store.Get(key));
  if (bytes.size() != sizeof(id.internal)) {
    return absl::InternalError(absl::StrCat("NCCL id has ", bytes.size(),
                                            " bytes; must have ",
                                            sizeof(id.internal)));
  }
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

absl::StatusOr<ncclComm_t> Connect(const ncclUniqueId& id,
                                   const NcclOptions& options) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  absl::Status status = NcclStatus(
      ncclCommInitRankConfig(&comm, options.size, id, options.rank, &config),
      "ncclCommInitRank");
  const Clock::time_point deadline =
      Clock::now() + absl::ToChronoNanoseconds(options.join_timeout);
  ncclResult_t state = ncclInProgress;
  while (status.ok() && state == ncclInProgress) {
    std::this_thread::sleep_for(kPollInterval);
    status = NcclStatus(ncclCommGetAsyncError(comm, &state),
                        "ncclCommGetAsyncError");
    status.Update(NcclStatus(state, "ncclCommInitRank"));
    if (Clock::now() > deadline) status.Update(NotInTime(options));
  }
  if (status.ok()) return comm;
  if (comm != nullptr) (void)ncclCommAbort(comm);
  if (absl::IsDeadlineExceeded(status)) return status;
  return MakeError(
      absl::StatusCode::kUnavailable, kPeerLost,
      absl::StrCat("group \"", options.comm.group_name, "\": rank ",
                   options.rank, " cannot connect: ", status.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> JoinNcclGroup(
    const std::shared_ptr<RendezvousStore>& store, const NcclOptions& options) {
  if (options.rank < 0 || options.rank >= options.size) {
    return InvalidArgument(
        kBadOption, absl::StrCat("rank is ", options.rank, "; must be in [0, ",
                                 options.size, ")"));
  }
  // Before anything else of NCCL, which takes the current device.
  if (const cudaError_t error = cudaSetDevice(options.cuda_device);
      error != cudaSuccess) {
    return MakeError(absl::StatusCode::kUnavailable, kNotSupported,
                     absl::StrCat("no CUDA device ", options.cuda_device, ": ",
                                  cudaGetErrorString(error)));
  }
  CF_ASSIGN_OR_RETURN(OwnedStream stream, NewStream());
  CF_ASSIGN_OR_RETURN(const ncclUniqueId id, ShareId(*store, options));
  CF_ASSIGN_OR_RETURN(const ncclComm_t comm, Connect(id, options));
  return std::make_unique<NcclCommunicator>(options, store, comm,
                                            std::move(stream));
}

DeviceMemory CudaDeviceMemory(ComputeStream compute_stream) {
  return {.is_device = IsDevice,
          .copy = [compute_stream = std::move(compute_stream)](
                      void* to, const void* from, size_t bytes) {
            const auto stream =
                compute_stream ? static_cast<cudaStream_t>(compute_stream())
                               : nullptr;
            CF_RETURN_IF_ERROR(CudaStatus(
                cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream),
                "cudaMemcpyAsync"));
            return CudaStatus(cudaStreamSynchronize(stream),
                              "cudaStreamSynchronize");
          }};
}

}  // namespace cpfeed
