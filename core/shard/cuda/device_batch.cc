#include "core/shard/cuda/device_batch.h"

#include <utility>

#include "core/base/checked_math.h"
#include "core/base/status_macros.h"
#include "core/shard/step_shards.h"
#include "core/tensor/buffer.h"
#include "core/tensor/shape.h"

namespace cpfeed {
namespace {

// Each tensor begins as aligned as an allocation of its own would.
constexpr int64_t kTensorAlignment = 256;

Shape LocalShape(const ThdTensor& tensor, int64_t rows) {
  Shape shape = tensor.outer;
  shape.push_back(rows);
  shape.insert(shape.end(), tensor.inner.begin(), tensor.inner.end());
  return shape;
}

}  // namespace

DeviceBatch::DeviceBatch(const ThdBatch& batch,
                         const std::vector<StepShard>& shards)
    : batch_(batch), shards_(shards), task_(batch) {
  for (const ThdTensor& tensor : batch.tensors) {
    inputs_.push_back(in_bytes_);
    in_bytes_ =
        RoundUp(in_bytes_ + tensor.tensor.bytes.size(), kTensorAlignment);
  }
  for (const StepShard& step : shards) {
    for (const Shard& shard : step.chunks) {
      for (const ThdTensor& tensor : batch.tensors) {
        outputs_.push_back(out_bytes_);
        out_bytes_ =
            RoundUp(out_bytes_ + TokenTensorBytes(tensor, shard.num_tokens),
                    kTensorAlignment);
      }
    }
  }
}

absl::Status DeviceBatch::Run(PinnedPool& pinned, DeviceLane& lane) {
  CF_ASSIGN_OR_RETURN(
      std::byte* const arena,
      lane.Memory(DeviceLane::Use::kTensors, in_bytes_ + out_bytes_));
  CF_RETURN_IF_ERROR(BuildTask(arena));
  const int64_t task_bytes = task_.DescriptorBytes();
  to_device_bytes_ = in_bytes_ + task_bytes;
  CF_ASSIGN_OR_RETURN(std::byte* const descriptors,
                      lane.Memory(DeviceLane::Use::kDescriptors, task_bytes));
  CF_ASSIGN_OR_RETURN(out_, pinned.Take(out_bytes_));
  CF_ASSIGN_OR_RETURN(const PinnedPool::Block in,
                      pinned.Take(to_device_bytes_));
  const absl::Status queued = Queue(in, arena, descriptors, lane);
  // Also after an error: `in` and `out_` must not go while copies run.
  const absl::Status ran = lane.device().Synchronize(lane.stream());
  CF_RETURN_IF_ERROR(queued);
  CF_RETURN_IF_ERROR(ran);
  CF_ASSIGN_OR_RETURN(kernel_time_, lane.device().Elapsed(lane.kernel_begin(),
                                                          lane.kernel_end()));
  return absl::OkStatus();
}

absl::Status DeviceBatch::BuildTask(std::byte* arena) {
  std::vector<const void*> sources;
  for (const int64_t offset : inputs_) sources.push_back(arena + offset);
  std::vector<void*> outs(batch_.tensors.size());
  size_t i = 0;
  for (const StepShard& step : shards_) {
    for (const Shard& shard : step.chunks) {
      for (void*& out : outs) out = arena + in_bytes_ + outputs_[i++];
      CF_RETURN_IF_ERROR(task_.AddShard(
          *shard.chunk, shard.plan->ranks[shard.cp_rank], sources, outs));
    }
  }
  return absl::OkStatus();
}

absl::Status DeviceBatch::Queue(const PinnedPool::Block& in, std::byte* arena,
                                std::byte* descriptors, DeviceLane& lane) {
  Device& device = lane.device();
  for (size_t t = 0; t < inputs_.size(); ++t) {
    batch_.tensors[t].tensor.bytes.CopyTo(in.get() + inputs_[t]);
  }
  const ShardTask task = task_.Write(in.get() + in_bytes_, descriptors);
  if (in_bytes_ > 0) {
    CF_RETURN_IF_ERROR(device.Copy(arena, in.get(), in_bytes_, lane.stream()));
  }
  CF_RETURN_IF_ERROR(device.Copy(descriptors, in.get() + in_bytes_,
                                 to_device_bytes_ - in_bytes_, lane.stream()));
  CF_RETURN_IF_ERROR(device.Record(lane.kernel_begin(), lane.stream()));
  CF_RETURN_IF_ERROR(device.Launch(task, lane.stream()));
  CF_RETURN_IF_ERROR(device.Record(lane.kernel_end(), lane.stream()));
  return device.Copy(out_.get(), arena + in_bytes_, out_bytes_, lane.stream());
}

void DeviceBatch::TakeTensors(std::vector<StepShard>& shards) {
  CF_CHECK(&shards == &shards_);
  size_t i = 0;
  for (StepShard& step : shards) {
    for (Shard& shard : step.chunks) {
      for (const ThdTensor& tensor : batch_.tensors) {
        Buffer bytes = Buffer::Wrap(out_, out_.get() + outputs_[i++],
                                    TokenTensorBytes(tensor, shard.num_tokens));
        AddTensor(tensor,
                  {.dtype = tensor.dtype,
                   .shape = LocalShape(tensor, shard.num_tokens),
                   .bytes = std::move(bytes)},
                  shard);
      }
    }
  }
  out_.reset();
}

}  // namespace cpfeed
