#include "tests/core/shard/cuda/fake_device.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/shard/cuda/host_shard_kernel.h"

namespace cpfeed::testing {
namespace {

// Just as large as asked for, so that AddressSanitizer sees the end; not
// zeros, so that what nobody writes is seen.
void* NewMemory(int64_t bytes) {
  const size_t size = (static_cast<size_t>(bytes) + 255) / 256 * 256;
  void* const memory = std::aligned_alloc(256, size);
  std::memset(memory, 0xa5, size);
  return memory;
}

}  // namespace

FakeDevice::~FakeDevice() {
  absl::MutexLock lock(&mu_);
  CF_CHECK(pinned_.empty() && allocated_.empty());
}

void FakeDevice::FailCall(int n, bool lost) {
  absl::MutexLock lock(&mu_);
  fail_at_ = calls_ + n;
  fail_for_good_ = lost;
}

int FakeDevice::calls_after_loss() const {
  absl::MutexLock lock(&mu_);
  return calls_after_loss_;
}

int FakeDevice::launches() const {
  absl::MutexLock lock(&mu_);
  return launches_;
}

int FakeDevice::streams_used() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int>(used_.size());
}

int FakeDevice::num_pinned() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int>(pinned_.size());
}

int FakeDevice::num_allocated() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int>(allocated_.size());
}

absl::Status FakeDevice::Called(const char* call) {
  if (lost_) ++calls_after_loss_;
  if (calls_++ == fail_at_) lost_ = fail_for_good_;
  if (!lost_ && calls_ != fail_at_ + 1) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInternal,
                   lost_ ? kDeviceLost : kDeviceFailed,
                   absl::StrCat(call, " failed"));
}

absl::StatusOr<void*> FakeDevice::Allocate(int64_t bytes) {
  absl::MutexLock lock(&mu_);
  CF_RETURN_IF_ERROR(Called("Allocate"));
  return *allocated_.insert(NewMemory(bytes)).first;
}

void FakeDevice::Free(void* memory) {
  absl::MutexLock lock(&mu_);
  CF_CHECK(allocated_.erase(memory) == 1);
  std::free(memory);
}

absl::StatusOr<void*> FakeDevice::AllocatePinned(int64_t bytes) {
  absl::MutexLock lock(&mu_);
  CF_RETURN_IF_ERROR(Called("AllocatePinned"));
  return *pinned_.insert(NewMemory(bytes)).first;
}

void FakeDevice::FreePinned(void* memory) {
  absl::MutexLock lock(&mu_);
  CF_CHECK(pinned_.erase(memory) == 1);
  std::free(memory);
}

absl::StatusOr<DeviceStream> FakeDevice::CreateStream() {
  absl::MutexLock lock(&mu_);
  CF_RETURN_IF_ERROR(Called("CreateStream"));
  void* const stream = new char;
  queued_[stream];
  return DeviceStream{stream};
}

void FakeDevice::DestroyStream(DeviceStream stream) {
  absl::MutexLock lock(&mu_);
  CF_CHECK(queued_.erase(stream.handle) == 1);
  delete static_cast<char*>(stream.handle);
}

absl::StatusOr<DeviceEvent> FakeDevice::CreateEvent() {
  absl::MutexLock lock(&mu_);
  CF_RETURN_IF_ERROR(Called("CreateEvent"));
  return DeviceEvent{new char};
}

void FakeDevice::DestroyEvent(DeviceEvent event) {
  absl::MutexLock lock(&mu_);
  recorded_on_.erase(event.handle);
  delete static_cast<char*>(event.handle);
}

absl::Status FakeDevice::Queue(const char* call, DeviceStream stream,
                               std::function<void()> work) {
  absl::MutexLock lock(&mu_);
  CF_RETURN_IF_ERROR(Called(call));
  CF_CHECK(queued_.count(stream.handle) == 1);
  used_.insert(stream.handle);
  queued_[stream.handle].push_back(std::move(work));
  return absl::OkStatus();
}

absl::Status FakeDevice::Copy(void* to, const void* from, int64_t bytes,
                              DeviceStream stream) {
  return Queue("Copy", stream,
               [=] { std::memcpy(to, from, static_cast<size_t>(bytes)); });
}

absl::Status FakeDevice::Launch(const ShardTask& task, DeviceStream stream) {
  return Queue("Launch", stream, [this, task]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    ++launches_;
    RunShardTaskOnHost(task);
  });
}

absl::Status FakeDevice::Record(DeviceEvent event, DeviceStream stream) {
  absl::MutexLock lock(&mu_);
  CF_RETURN_IF_ERROR(Called("Record"));
  recorded_on_[event.handle] = stream.handle;
  return absl::OkStatus();
}

// Called with mu_ held, and by the work that is queued only.
void FakeDevice::Run(void* stream) {
  for (const std::function<void()>& work : queued_[stream]) work();
  queued_[stream].clear();
}

absl::Status FakeDevice::Wait(DeviceEvent event) {
  absl::MutexLock lock(&mu_);
  CF_RETURN_IF_ERROR(Called("Wait"));
  const auto recorded = recorded_on_.find(event.handle);
  if (recorded != recorded_on_.end()) Run(recorded->second);
  return absl::OkStatus();
}

absl::Status FakeDevice::Synchronize(DeviceStream stream) {
  absl::MutexLock lock(&mu_);
  // Also where it then fails: no work is left behind.
  if (!lost_) Run(stream.handle);
  queued_[stream.handle].clear();
  return Called("Synchronize");
}

absl::StatusOr<absl::Duration> FakeDevice::Elapsed(DeviceEvent begin,
                                                   DeviceEvent end) {
  absl::MutexLock lock(&mu_);
  CF_RETURN_IF_ERROR(Called("Elapsed"));
  CF_CHECK(recorded_on_.count(begin.handle) + recorded_on_.count(end.handle) ==
           2);
  return absl::Microseconds(3);
}

}  // namespace cpfeed::testing
