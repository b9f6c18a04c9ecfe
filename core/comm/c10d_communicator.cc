#include "core/comm/c10d_communicator.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

std::string WhatOf(const std::exception& error) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
  const std::string what =
      c10_error != nullptr ? c10_error->what_without_backtrace() : error.what();
  return what.substr(0, what.find('\n'));
}

// Where the address is. CUDA throws for memory that it does not know.
c10::Device DeviceOf(const void* address, c10::Device device) {
  if (!device.is_cuda()) return c10::kCPU;
  const auto& cuda =
      at::globalContext().getAcceleratorHooksInterface(at::kCUDA);
  if (cuda.isPinnedPtr(address)) return c10::kCPU;
  try {
    return cuda.getDeviceFromPtr(const_cast<void*>(address));
  } catch (const c10::Error&) {
    return c10::kCPU;
  }
}

at::Tensor AsTensor(const std::byte* data, size_t size, c10::Device device) {
  const c10::Device where = DeviceOf(data, device);
  return at::from_blob(const_cast<std::byte*>(data),
                       {static_cast<int64_t>(size)},
                       at::TensorOptions(at::kByte).device(where));
}

bool HasBackend(c10d::ProcessGroup& group, c10::DeviceType type) {
  for (const c10::Device& device : group.getDeviceTypes()) {
    if (device.type() == type) return true;
  }
  return false;
}

// Where tensors of the group's collectives are to be.
c10::Device TransportOf(c10d::ProcessGroup& group, c10::Device device) {
  if (!device.is_cuda() || !HasBackend(group, c10::kCUDA)) return c10::kCPU;
  return group.getBackend(c10::kCUDA)->getBackendName() == "gloo" ? c10::kCPU
                                                                  : device;
}

// The parts of each peer behind each other, in their order: what both ends
// agree on without a word about sizes.
template <class Part>
struct Packed {
  std::vector<Part> parts;  // By peer.
  std::vector<int64_t> sizes;
  at::Tensor bytes;
};

template <class Part>
Packed<Part> Pack(absl::Span<const Part> parts, int size, c10::Device device) {
  Packed<Part> packed{.sizes = std::vector<int64_t>(size)};
  int64_t total = 0;
  for (int peer = 0; peer < size; ++peer) {
    for (const Part& part : parts) {
      if (part.peer != peer) continue;
      packed.parts.push_back(part);
      packed.sizes[peer] += static_cast<int64_t>(part.bytes.size());
    }
    total += packed.sizes[peer];
  }
  packed.bytes =
      at::empty({total}, at::TensorOptions(at::kByte).device(device));
  return packed;
}

class C10dCommunicator final : public Communicator {
 public:
  C10dCommunicator(c10::intrusive_ptr<c10d::ProcessGroup> group,
                   const std::string& name, c10::Device device)
      : Communicator(group->getRank(), group->getSize(), {.group_name = name}),
        group_(std::move(group)),
        device_(device),
        transport_(TransportOf(*group_, device)) {}

  void Abort(absl::string_view reason) override {
    Fail(absl::UnavailableError(absl::StrCat("aborted: ", reason)))
        .IgnoreError();
  }

 protected:
  absl::StatusOr<std::unique_ptr<PendingExchange>> Start(
      int64_t number, absl::Span<const SendPart> sends,
      absl::Span<const ReceivePart> receives) override;

  absl::Status CopyOwn(absl::Span<const std::byte> from,
                       absl::Span<std::byte> to) override {
    if (!device_.is_cuda()) return Communicator::CopyOwn(from, to);
    AsTensor(to.data(), to.size(), device_)
        .copy_(AsTensor(from.data(), from.size(), device_));
    return absl::OkStatus();
  }

  absl::Status Failure() const override {
    absl::MutexLock lock(&mu_);
    return failure_;
  }

 private:
  class Pending;

  absl::Status Fail(absl::Status why) {
    absl::MutexLock lock(&mu_);
    if (failure_.ok()) failure_ = why;
    return why;
  }

  absl::Status Lost(const std::exception& error) {
    return Fail(MakeError(
        absl::StatusCode::kUnavailable, kPeerLost,
        absl::StrCat("group \"", options().group_name, "\": exchange of ",
                     size(), " ranks failed: ", WhatOf(error))));
  }

  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const c10::Device device_;
  const c10::Device transport_;
  mutable absl::Mutex mu_;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
};

class C10dCommunicator::Pending final : public PendingExchange {
 public:
  Pending(C10dCommunicator& group, Packed<ReceivePart> received,
          at::Tensor sent, c10::intrusive_ptr<c10d::Work> work)
      : group_(group),
        received_(std::move(received)),
        sent_(std::move(sent)),
        work_(std::move(work)) {}

  ~Pending() override {
    if (!waited_) group_.Abort("an exchange was dropped before its end");
  }

  absl::Status Wait() override {
    CF_CHECK(!waited_);
    waited_ = true;
    try {
      if (work_ != nullptr) work_->wait();
      int64_t begin = 0;
      for (const ReceivePart& part : received_.parts) {
        const auto size = static_cast<int64_t>(part.bytes.size());
        AsTensor(part.bytes.data(), part.bytes.size(), group_.device_)
            .copy_(received_.bytes.narrow(0, begin, size));
        begin += size;
      }
    } catch (const std::exception& error) {
      return group_.Lost(error);
    }
    return absl::OkStatus();
  }

 private:
  C10dCommunicator& group_;
  Packed<ReceivePart> received_;
  const at::Tensor sent_;
  const c10::intrusive_ptr<c10d::Work> work_;
  bool waited_ = false;
};

absl::StatusOr<std::unique_ptr<PendingExchange>> C10dCommunicator::Start(
    int64_t /*number*/, absl::Span<const SendPart> sends,
    absl::Span<const ReceivePart> receives) {
  try {
    Packed<SendPart> sent = Pack(sends, size(), transport_);
    int64_t begin = 0;
    for (const SendPart& part : sent.parts) {
      const auto size = static_cast<int64_t>(part.bytes.size());
      sent.bytes.narrow(0, begin, size)
          .copy_(AsTensor(part.bytes.data(), part.bytes.size(), device_));
      begin += size;
    }
    Packed<ReceivePart> received = Pack(receives, size(), transport_);
    c10::intrusive_ptr<c10d::Work> work;
    if (size() > 1) {
      work = group_->alltoall_base(received.bytes, sent.bytes, received.sizes,
                                   sent.sizes);
    }
    return std::make_unique<Pending>(*this, std::move(received), sent.bytes,
                                     std::move(work));
  } catch (const std::exception& error) {
    return Lost(error);
  }
}

}  // namespace

std::unique_ptr<Communicator> MakeC10dCommunicator(
    c10::intrusive_ptr<c10d::ProcessGroup> group, const std::string& name,
    c10::Device device) {
  return std::make_unique<C10dCommunicator>(std::move(group), name, device);
}

}  // namespace cpfeed
