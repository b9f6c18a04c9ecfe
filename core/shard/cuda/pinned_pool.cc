#include "core/shard/cuda/pinned_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

constexpr int64_t kLeastBlock = 64 << 10;

int64_t BlockSize(int64_t bytes) {
  return static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::max(bytes, kLeastBlock))));
}

}  // namespace

std::shared_ptr<PinnedPool> PinnedPool::Create(std::shared_ptr<Device> device,
                                               int64_t budget_bytes) {
  return std::shared_ptr<PinnedPool>(
      new PinnedPool(std::move(device), budget_bytes));
}

PinnedPool::~PinnedPool() {
  absl::MutexLock lock(&mu_);
  for (const auto& [size, blocks] : free_) {
    for (std::byte* const block : blocks) device_->FreePinned(block);
  }
}

absl::StatusOr<PinnedPool::Block> PinnedPool::Take(int64_t bytes) {
  const int64_t size = BlockSize(bytes);
  std::vector<std::byte*> given_up;
  absl::StatusOr<std::byte*> block = Reserve(size, given_up);
  for (std::byte* const other : given_up) device_->FreePinned(other);
  if (block.ok() && *block == nullptr) {
    const absl::StatusOr<void*> memory = device_->AllocatePinned(size);
    if (!memory.ok()) {
      absl::MutexLock lock(&mu_);
      allocated_ -= size;
      return memory.status();
    }
    block = static_cast<std::byte*>(*memory);
  }
  if (!block.ok()) return block.status();
  return Block(*block,
               [pool = shared_from_this(), size](std::byte* given_back) {
                 pool->GiveBack(given_back, size);
               });
}

absl::StatusOr<std::byte*> PinnedPool::Reserve(
    int64_t size, std::vector<std::byte*>& given_up) {
  absl::MutexLock lock(&mu_);
  std::vector<std::byte*>& same = free_[size];
  if (!same.empty()) {
    std::byte* const block = same.back();
    same.pop_back();
    return block;
  }
  for (auto& [free_size, blocks] : free_) {
    while (allocated_ + size > budget_ && !blocks.empty()) {
      given_up.push_back(blocks.back());
      blocks.pop_back();
      allocated_ -= free_size;
    }
  }
  if (allocated_ + size > budget_) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, kMemoryPressure,
        absl::StrCat("pinned memory in use is ", allocated_, " bytes; ", size,
                     " more are above the budget of ", budget_));
  }
  allocated_ += size;
  return nullptr;
}

int64_t PinnedPool::allocated_bytes() const {
  absl::MutexLock lock(&mu_);
  return allocated_;
}

void PinnedPool::GiveBack(std::byte* block, int64_t size) {
  absl::MutexLock lock(&mu_);
  free_[size].push_back(block);
}

}  // namespace cpfeed
