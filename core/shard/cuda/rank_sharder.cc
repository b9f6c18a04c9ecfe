#include "core/shard/cuda/rank_sharder.h"

#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/shard/cuda/shard_task_builder.h"

namespace cpfeed {
namespace {

// Of descriptors: a plan with a segment for each of 2^20 tokens fits.
constexpr int64_t kPinnedBytes = int64_t{256} << 20;
constexpr int64_t kTensorAlignment = 256;

// The batch as the task builder wants it: one tensor.
absl::StatusOr<ThdBatch> OneTensorBatch(const LocalTensor& tensor,
                                        const Shard& shard) {
  const int64_t tokens = shard.chunk->source_tokens;
  if (tensor.chunk_begin < 0 || tensor.batch_tokens < 0 ||
      tensor.batch_tokens > std::numeric_limits<int32_t>::max() ||
      tensor.chunk_begin > tensor.batch_tokens - tokens) {
    return InvalidArgument(
        kShapeMismatch, absl::StrCat(tensor.name, " has ", tensor.batch_tokens,
                                     " tokens; the chunk has ", tokens,
                                     " from ", tensor.chunk_begin, " on"));
  }
  Shape whole = tensor.outer;
  whole.push_back(tensor.batch_tokens);
  whole.insert(whole.end(), tensor.inner.begin(), tensor.inner.end());
  CF_RETURN_IF_ERROR(
      Annotate(NumBytes(tensor.dtype, whole).status(), tensor.name));
  ThdBatch batch{.num_rows = 1, .row_width = tensor.batch_tokens};
  batch.tensors.push_back({.name = tensor.name,
                           .dtype = tensor.dtype,
                           .outer = tensor.outer,
                           .inner = tensor.inner,
                           .fill = tensor.fill});
  return batch;
}

}  // namespace

int64_t LocalShardBytes(const LocalTensor& tensor, const Shard& shard) {
  return TokenTensorBytes(
      {.dtype = tensor.dtype, .outer = tensor.outer, .inner = tensor.inner},
      shard.num_tokens);
}

RankSharder::RankSharder(std::shared_ptr<Device> device)
    : device_(std::move(device)),
      pinned_(PinnedPool::Create(device_, kPinnedBytes)) {}

absl::StatusOr<std::unique_ptr<RankSharder>> RankSharder::Create(
    std::shared_ptr<Device> device) {
  std::unique_ptr<RankSharder> sharder(new RankSharder(std::move(device)));
  for (int i = 0; i < kCallsInFlight; ++i) {
    Call call;
    CF_ASSIGN_OR_RETURN(call.memory, DeviceLane::Create(sharder->device_));
    sharder->calls_.push_back(std::move(call));
  }
  return sharder;
}

RankSharder::~RankSharder() {
  for (const Call& call : calls_) {
    if (call.used) (void)device_->Wait(call.memory->done());
  }
}

absl::StatusOr<RankSharder::Call*> RankSharder::NextCall() {
  Call& call = calls_[next_];
  if (call.used) CF_RETURN_IF_ERROR(device_->Wait(call.memory->done()));
  call.used = false;
  next_ = (next_ + 1) % calls_.size();
  return &call;
}

absl::Status RankSharder::ShardByPlan(const Shard& shard,
                                      const LocalTensor& tensor,
                                      const LocalShardRoom& room,
                                      DeviceStream stream) {
  CF_ASSIGN_OR_RETURN(const ThdBatch batch, OneTensorBatch(tensor, shard));
  if (LocalShardBytes(tensor, shard) == 0) return absl::OkStatus();
  CF_ASSIGN_OR_RETURN(Call* const call, NextCall());
  const absl::Status queued = Queue(batch, shard, tensor, room, stream, *call);
  // Also what was queued before an error uses the call's memory.
  call->used = device_->Record(call->memory->done(), stream).ok();
  if (!queued.ok() || !call->used) {
    CF_RETURN_IF_ERROR(device_->Synchronize(stream));
    call->used = false;
  }
  return queued;
}

absl::Status RankSharder::Queue(const ThdBatch& batch, const Shard& shard,
                                const LocalTensor& tensor,
                                const LocalShardRoom& room, DeviceStream stream,
                                Call& call) {
  const int64_t in_bytes =
      tensor.on_host ? TokenTensorBytes(batch.tensors[0], batch.row_width) : 0;
  const int64_t out_bytes = LocalShardBytes(tensor, shard);
  const int64_t out_begin = RoundUp(in_bytes, kTensorAlignment);
  CF_ASSIGN_OR_RETURN(
      std::byte* const staged,
      call.memory->Memory(DeviceLane::Use::kTensors,
                          out_begin + (room.on_host ? out_bytes : 0)));
  const void* source = tensor.on_host ? staged : tensor.data;
  void* const out = room.on_host ? staged + out_begin : room.data;
  if (tensor.on_host) {
    CF_RETURN_IF_ERROR(device_->Copy(staged, tensor.data, in_bytes, stream));
  }
  // A chunk that came over the wire counts its tokens from its own first.
  ThdChunk chunk = *shard.chunk;
  chunk.source_begin = tensor.chunk_begin;
  ShardTaskBuilder builder(batch);
  CF_RETURN_IF_ERROR(builder.AddShard(chunk, shard.plan->ranks[shard.cp_rank],
                                      {source}, {out}));
  const int64_t bytes = builder.DescriptorBytes();
  if (bytes > call.descriptor_bytes) {
    call.descriptors.reset();
    call.descriptor_bytes = 0;
    CF_ASSIGN_OR_RETURN(call.descriptors, pinned_->Take(bytes));
    call.descriptor_bytes = bytes;
  }
  CF_ASSIGN_OR_RETURN(
      std::byte* const descriptors,
      call.memory->Memory(DeviceLane::Use::kDescriptors, bytes));
  const ShardTask task = builder.Write(call.descriptors.get(), descriptors);
  CF_RETURN_IF_ERROR(
      device_->Copy(descriptors, call.descriptors.get(), bytes, stream));
  CF_RETURN_IF_ERROR(device_->Launch(task, stream));
  if (!room.on_host) return absl::OkStatus();
  return device_->Copy(room.data, out, out_bytes, stream);
}

}  // namespace cpfeed
