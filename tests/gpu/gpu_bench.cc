// Figures of one GPU, a JSON line each. Exit status 3 where there is none.

#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/attention/attention_mask.h"
#include "core/attention/block_attention.h"
#include "core/attention/row_runs.h"
#include "core/attention/tile_plan.h"
#include "core/base/status_macros.h"
#include "core/batch/packed_batch.h"
#include "core/plan/layout.h"
#include "core/plan/shard_plan.h"
#include "core/shard/cuda/cuda_device.h"
#include "core/shard/cuda/cuda_shard_executor.h"
#include "core/shard/cuda/rank_sharder.h"
#include "core/shard/cuda/shard_task_builder.h"
#include "core/shard/prepare_batch.h"
#include "core/shard/shard_executor.h"

namespace cpfeed {
namespace {

constexpr int kNoGpu = 3;
constexpr int kRounds = 10;
constexpr int kCpSize = 8;

using Json = nlohmann::ordered_json;

// Rows of `width` tokens in sequences of 1024.
PackedBatch PackedIds(int64_t rows, int64_t width) {
  PackedBatch batch;
  batch.input_ids = Tensor::FromVector<int64_t>(
      {rows, width}, std::vector<int64_t>(rows * width, 7));
  batch.labels = batch.input_ids;
  RaggedLengths lengths{.row_splits = {0}};
  for (int64_t row = 0; row < rows; ++row) {
    lengths.values.insert(lengths.values.end(), width / 1024, 1024);
    lengths.row_splits.push_back(static_cast<int64_t>(lengths.values.size()));
  }
  batch.seq_lens = std::move(lengths);
  return batch;
}

PackedBatch PackedEmbeddings(int64_t rows, int64_t width, int64_t columns) {
  PackedBatch batch = PackedIds(rows, width);
  auto [bytes, data] = Buffer::Allocate(rows * width * columns * 2);
  std::fill_n(data, rows * width * columns * 2, std::byte{1});
  batch.input_ids = Tensor{.dtype = DType::kBfloat16,
                           .shape = {rows, width, columns},
                           .bytes = std::move(bytes)};
  return batch;
}

absl::StatusOr<PreparedBatch> Prepare(const PackedBatch& batch) {
  return PrepareBatch(batch, {}, {.layout = Layout::kHeadTailPerSequence},
                      kCpSize);
}

class Bench {
 public:
  explicit Bench(std::shared_ptr<Device> gpu) : gpu_(std::move(gpu)) {}

  absl::Status Run() {
    CF_ASSIGN_OR_RETURN(stream_, gpu_->CreateStream());
    CF_ASSIGN_OR_RETURN(begin_, gpu_->CreateEvent());
    CF_ASSIGN_OR_RETURN(end_, gpu_->CreateEvent());
    CF_RETURN_IF_ERROR(KernelAgainstCopy("embeddings [8, 8192, 4096] bfloat16",
                                         PackedEmbeddings(8, 8192, 4096)));
    CF_RETURN_IF_ERROR(
        KernelAgainstCopy("ids and labels [8, 32768] int64, positions, mask",
                          PackedIds(8, 32768)));
    CF_RETURN_IF_ERROR(ToDevice("ids", PackedIds(8, 8192)));
    CF_RETURN_IF_ERROR(ToDevice("embeddings", PackedEmbeddings(8, 8192, 1024)));
    return FlashOverhead();
  }

 private:
  void Print(Json line) const {
    line["gpu"] = gpu_->name();
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  }

  // The best time of some rounds on the stream.
  absl::StatusOr<absl::Duration> TimeOnStream(
      const std::function<absl::Status()>& queue) {
    auto best = absl::InfiniteDuration();
    for (int round = 0; round <= kRounds; ++round) {
      CF_RETURN_IF_ERROR(gpu_->Record(begin_, stream_));
      CF_RETURN_IF_ERROR(queue());
      CF_RETURN_IF_ERROR(gpu_->Record(end_, stream_));
      CF_RETURN_IF_ERROR(gpu_->Wait(end_));
      CF_ASSIGN_OR_RETURN(const absl::Duration took,
                          gpu_->Elapsed(begin_, end_));
      if (round > 0) best = std::min(best, took);
    }
    return best;
  }

  // The best time of some rounds, as the host sees it.
  absl::StatusOr<absl::Duration> TimeOnHost(
      const std::function<absl::Status()>& run) {
    auto best = absl::InfiniteDuration();
    for (int round = 0; round <= kRounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      CF_RETURN_IF_ERROR(run());
      const auto took = std::chrono::steady_clock::now() - begin;
      if (round > 0) best = std::min(best, absl::FromChrono(took));
    }
    return best;
  }

  // One launch for all ranks, from device to device, beside a copy of as many
  // bytes.
  absl::Status KernelAgainstCopy(const std::string& what,
                                 const PackedBatch& packed) {
    CF_ASSIGN_OR_RETURN(const PreparedBatch batch, Prepare(packed));
    const ThdBatch& thd = batch.thd;
    std::vector<void*> memory;
    std::vector<const void*> sources;
    for (const ThdTensor& tensor : thd.tensors) {
      CF_ASSIGN_OR_RETURN(
          void* const source,
          gpu_->Allocate(std::max<int64_t>(tensor.tensor.bytes.size(), 1)));
      memory.push_back(source);
      sources.push_back(source);
    }
    ShardTaskBuilder builder(thd);
    for (const RankPlan& plan : batch.plans[0]->ranks) {
      std::vector<void*> outs;
      for (const ThdTensor& tensor : thd.tensors) {
        CF_ASSIGN_OR_RETURN(void* const out, gpu_->Allocate(TokenTensorBytes(
                                                 tensor, plan.num_tokens)));
        memory.push_back(out);
        outs.push_back(out);
      }
      CF_RETURN_IF_ERROR(builder.AddShard(thd.chunks[0], plan, sources, outs));
    }
    const int64_t bytes = builder.out_bytes();
    CF_ASSIGN_OR_RETURN(void* const from, gpu_->Allocate(bytes));
    CF_ASSIGN_OR_RETURN(void* const to, gpu_->Allocate(bytes));
    CF_ASSIGN_OR_RETURN(void* const descriptors,
                        gpu_->Allocate(builder.DescriptorBytes()));
    CF_ASSIGN_OR_RETURN(void* const pinned,
                        gpu_->AllocatePinned(builder.DescriptorBytes()));
    const ShardTask task =
        builder.Write(static_cast<std::byte*>(pinned), descriptors);
    CF_RETURN_IF_ERROR(
        gpu_->Copy(descriptors, pinned, builder.DescriptorBytes(), stream_));
    CF_ASSIGN_OR_RETURN(const absl::Duration kernel, TimeOnStream([&] {
                          return gpu_->Launch(task, stream_);
                        }));
    CF_ASSIGN_OR_RETURN(const absl::Duration copy, TimeOnStream([&] {
                          return gpu_->Copy(to, from, bytes, stream_);
                        }));
    Print({{"what", "convert and shard on the device"},
           {"batch", what},
           {"ranks", kCpSize},
           {"launches", 1},
           {"out_bytes", bytes},
           {"kernel_us", absl::ToDoubleMicroseconds(kernel)},
           {"copy_us", absl::ToDoubleMicroseconds(copy)},
           {"of_copy_bandwidth", absl::FDivDuration(copy, kernel)}});
    memory.insert(memory.end(), {from, to, descriptors});
    for (void* const block : memory) gpu_->Free(block);
    gpu_->FreePinned(pinned);
    return absl::OkStatus();
  }

  // From the loader's memory to all ranks' shards on the device, without a
  // network between: cut on the CPU, on the GPU of a server, or on the rank's
  // own, where the batch is copied once and cut there.
  absl::Status ToDevice(const std::string& what, const PackedBatch& packed) {
    CF_ASSIGN_OR_RETURN(const PreparedBatch batch, Prepare(packed));
    CF_ASSIGN_OR_RETURN(const auto cuda, CudaShardExecutor::Create(gpu_, {}));
    const auto cpu = MakeCpuShardExecutor();
    CF_ASSIGN_OR_RETURN(const auto sharder, RankSharder::Create(gpu_));
    int64_t bytes = 0;
    for (const ThdTensor& tensor : batch.thd.tensors) {
      bytes += TokenTensorBytes(tensor, batch.thd.chunks[0].total_tokens);
    }
    CF_ASSIGN_OR_RETURN(void* const room, gpu_->Allocate(bytes));
    const auto remote = [&](const ShardExecutor& executor) -> absl::Status {
      CF_ASSIGN_OR_RETURN(const auto steps,
                          executor.Execute(batch.thd, batch.plans));
      auto* to = static_cast<std::byte*>(room);
      for (const StepShard& step : steps) {
        for (const NamedTensor& named : step.chunks[0].tensors) {
          for (const auto& piece : named.tensor.bytes.fragments()) {
            CF_RETURN_IF_ERROR(gpu_->Copy(to, piece.data, piece.size, stream_));
            to += piece.size;
          }
        }
      }
      return gpu_->Synchronize(stream_);
    };
    CF_ASSIGN_OR_RETURN(const auto shards,
                        cpu->Execute(batch.thd, batch.plans));
    const ThdTensor& ids = batch.thd.tensors[0];
    const Buffer source = ids.tensor.bytes.Contiguous();
    CF_ASSIGN_OR_RETURN(void* const own, gpu_->Allocate(source.size()));
    const LocalTensor local = {
        .name = ids.name,
        .dtype = ids.dtype,
        .inner = ids.inner,
        .batch_tokens = batch.thd.num_rows * batch.thd.row_width,
        .data = own};
    const auto rank = [&]() -> absl::Status {
      CF_RETURN_IF_ERROR(
          gpu_->Copy(own, source.data(), source.size(), stream_));
      auto* to = static_cast<std::byte*>(room);
      for (const StepShard& step : shards) {
        const Shard& shard = step.chunks[0];
        CF_RETURN_IF_ERROR(
            sharder->ShardByPlan(shard, local, {to, false}, stream_));
        to += LocalShardBytes(local, shard);
      }
      return gpu_->Synchronize(stream_);
    };
    CF_ASSIGN_OR_RETURN(const absl::Duration remote_cpu,
                        TimeOnHost([&] { return remote(*cpu); }));
    CF_ASSIGN_OR_RETURN(const absl::Duration remote_cuda,
                        TimeOnHost([&] { return remote(*cuda); }));
    CF_ASSIGN_OR_RETURN(const absl::Duration on_rank, TimeOnHost(rank));
    Print({{"what", "loader to device, no network"},
           {"batch", what},
           {"bytes", bytes},
           {"remote_cpu_us", absl::ToDoubleMicroseconds(remote_cpu)},
           {"remote_cuda_us", absl::ToDoubleMicroseconds(remote_cuda)},
           {"rank_us", absl::ToDoubleMicroseconds(on_rank)}});
    gpu_->Free(room);
    gpu_->Free(own);
    return absl::OkStatus();
  }

  // Causal attention of one sequence on one rank, and what four ranks compute
  // of it, one after the other.
  absl::Status FlashOverhead() {
    constexpr int64_t kTokens = 16384;
    constexpr int64_t kHeads = 16;
    constexpr int64_t kDim = 128;
    const auto attend = [&](int cp_size) -> absl::StatusOr<absl::Duration> {
      CF_ASSIGN_OR_RETURN(
          const ShardPlan plan,
          PlanShards({{kTokens}, {kTokens}, {0, 1}}, {}, cp_size));
      const auto rows =
          at::randn({kTokens / cp_size, kHeads, kDim},
                    at::TensorOptions(at::kBFloat16).device(at::kCUDA));
      return TimeOnHost([&]() -> absl::Status {
        for (int rank = 0; rank < cp_size; ++rank) {
          BlockAttention attention(rows, kDim, 0.088);
          for (int source = 0; source < cp_size; ++source) {
            attention.Add(
                PlanTiles(RankRuns(plan, rank), RankRuns(plan, source),
                          AttentionMask::Causal()),
                rows, rows);
          }
        }
        return gpu_->Synchronize({});
      });
    };
    CF_ASSIGN_OR_RETURN(const absl::Duration one, attend(1));
    CF_ASSIGN_OR_RETURN(const absl::Duration four, attend(4));
    Print({{"what", "flash attention of four ranks in turn against one"},
           {"tokens", kTokens},
           {"one_us", absl::ToDoubleMicroseconds(one)},
           {"four_us", absl::ToDoubleMicroseconds(four)},
           {"overhead", absl::FDivDuration(four, one) - 1}});
    return absl::OkStatus();
  }

  const std::shared_ptr<Device> gpu_;
  DeviceStream stream_;
  DeviceEvent begin_;
  DeviceEvent end_;
};

int Main() {
  auto gpu = OpenCudaDevice(0);
  if (!gpu.ok()) {
    std::printf("%s\n", std::string(gpu.status().message()).c_str());
    return kNoGpu;
  }
  const absl::Status status = Bench(*std::move(gpu)).Run();
  if (status.ok()) return 0;
  std::printf("failed: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace cpfeed

int main() { return cpfeed::Main(); }
