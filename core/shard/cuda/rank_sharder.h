// Cuts a rank's shard out of a tensor that is on the rank already.

#ifndef CPFEED_CORE_SHARD_CUDA_RANK_SHARDER_H_
#define CPFEED_CORE_SHARD_CUDA_RANK_SHARDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/shard/cuda/device.h"
#include "core/shard/cuda/device_lane.h"
#include "core/shard/cuda/pinned_pool.h"
#include "core/shard/shard.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/thd/thd_batch.h"

namespace cpfeed {

// A token tensor of a whole batch, [outer..., batch_tokens, inner...], that did
// not go through the server: its field says PLACEMENT_LOCAL.
struct LocalTensor {
  std::string name;
  DType dtype = DType::kInvalid;
  Shape outer;
  Shape inner;
  // B * S of the batch, all chunks, and which of these tokens is the chunk's
  // first.
  int64_t batch_tokens = 0;
  int64_t chunk_begin = 0;
  PadFill fill = PadFill::kZero;  // Of rows that auto_pad or a layout inserted.
  const void* data = nullptr;
  bool on_host = false;  // Else `data` is the device's.
};

// Where the rank's rows go: LocalShardBytes() bytes.
struct LocalShardRoom {
  void* data = nullptr;
  bool on_host = false;
};

// Bytes of the rank's rows of the tensor, [outer..., num_tokens, inner...].
int64_t LocalShardBytes(const LocalTensor& tensor, const Shard& shard);

// Cuts on the rank's own device, from device memory to device memory without a
// copy between. Used by one thread.
class RankSharder {
 public:
  // Up to so many calls may be under way on the device before one waits.
  static constexpr int kCallsInFlight = 4;

  // Errors: those of the device.
  static absl::StatusOr<std::unique_ptr<RankSharder>> Create(
      std::shared_ptr<Device> device);
  // Waits for calls under way.
  ~RankSharder();

  // Queues, on the caller's stream, the cutting of `shard`'s rows out of
  // `tensor` into `room`, and returns. `shard` gives plan, chunk and rank; its
  // tensors are not looked at. Work that the caller queues behind it sees the
  // rows. Both memories must live until the stream has passed.
  //
  // Where memory is the host's it is copied on the same stream, and should be
  // pinned; then the tensor is the caller's to change only after the stream
  // has passed.
  //
  // Errors:
  //   INVALID_ARGUMENT  The chunk does not lie inside the batch (reason
  //                     SHAPE_MISMATCH), a dtype or shape is none, or an
  //                     address is not aligned to the elements.
  //   INTERNAL          The device failed (DEVICE_FAILED, DEVICE_LOST).
  absl::Status ShardByPlan(const Shard& shard, const LocalTensor& tensor,
                           const LocalShardRoom& room, DeviceStream stream);

 private:
  // One call's memory, free again when its event has passed.
  struct Call {
    std::unique_ptr<DeviceLane> memory;
    PinnedPool::Block descriptors;
    int64_t descriptor_bytes = 0;
    bool used = false;
  };

  explicit RankSharder(std::shared_ptr<Device> device);
  absl::StatusOr<Call*> NextCall();
  absl::Status Queue(const ThdBatch& batch, const Shard& shard,
                     const LocalTensor& tensor, const LocalShardRoom& room,
                     DeviceStream stream, Call& call);

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<PinnedPool> pinned_;
  std::vector<Call> calls_;
  size_t next_ = 0;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_CUDA_RANK_SHARDER_H_
