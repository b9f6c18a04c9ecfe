#include "core/shard/cuda/shard_device.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/packed_batch.h"
#include "core/plan/layout.h"
#include "core/shard/cuda/cuda_device.h"
#include "core/shard/prepare_batch.h"
#include "core/tensor/tensor.h"

namespace cpfeed {
namespace {

constexpr int64_t kRows = 8;
constexpr int64_t kWidth = 8192;
constexpr int64_t kSlot = 1024;
constexpr int kCpSize = 8;
constexpr int kRounds = 5;

// Tokens as they mostly come: ids and labels of packed sequences.
absl::StatusOr<PreparedBatch> MeasuringBatch() {
  PackedBatch batch;
  const auto ids = Tensor::FromVector<int64_t>(
      {kRows, kWidth}, std::vector<int64_t>(kRows * kWidth));
  batch.input_ids = ids;
  batch.labels = ids;
  RaggedLengths lengths{.row_splits = {0}};
  for (int64_t row = 0; row < kRows; ++row) {
    lengths.values.insert(lengths.values.end(), kWidth / kSlot, kSlot);
    lengths.row_splits.push_back(static_cast<int64_t>(lengths.values.size()));
  }
  batch.seq_lens = std::move(lengths);
  return PrepareBatch(batch, {}, {.layout = Layout::kHeadTailPerSequence},
                      kCpSize);
}

// The best of some rounds, behind one that makes memory ready.
template <class Cut>
absl::StatusOr<absl::Duration> Measure(Cut cut) {
  auto best = absl::InfiniteDuration();
  for (int round = 0; round <= kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    CF_RETURN_IF_ERROR(cut().status());
    const auto took = std::chrono::steady_clock::now() - begin;
    if (round > 0) best = std::min(best, absl::FromChrono(took));
  }
  return best;
}

struct Measured {
  absl::Duration cpu;
  absl::Duration cuda;
};

absl::StatusOr<Measured> MeasureBoth(const std::shared_ptr<Device>& device) {
  CF_ASSIGN_OR_RETURN(const PreparedBatch batch, MeasuringBatch());
  const std::unique_ptr<ShardExecutor> cpu = MakeCpuShardExecutor();
  // Of its own: nobody is to be told where this one fails.
  CF_ASSIGN_OR_RETURN(const auto cuda, CudaShardExecutor::Create(device, {}));
  Measured measured;
  CF_ASSIGN_OR_RETURN(measured.cpu, Measure([&] {
                        return cpu->Execute(batch.thd, batch.plans);
                      }));
  CF_ASSIGN_OR_RETURN(measured.cuda, Measure([&] {
                        return cuda->ExecuteOnDevice(batch.thd, batch.plans);
                      }));
  return measured;
}

ShardDevice OnCpu(absl::string_view why) {
  return {.executor = MakeCpuShardExecutor(),
          .why = absl::StrCat("cpu: ", why)};
}

absl::StatusOr<ShardDevice> OnCuda(const ShardDeviceOptions& options,
                                   const std::shared_ptr<Device>& device,
                                   absl::string_view why) {
  CF_ASSIGN_OR_RETURN(std::unique_ptr<CudaShardExecutor> executor,
                      CudaShardExecutor::Create(device, options.cuda));
  const CudaShardExecutor* const cuda = executor.get();
  return ShardDevice{.executor = std::move(executor),
                     .cuda = cuda,
                     .why = absl::StrCat("cuda: ", device->name(), why)};
}

}  // namespace

absl::StatusOr<DeviceChoice> ParseDeviceChoice(absl::string_view word) {
  if (word == "auto") return DeviceChoice::kAuto;
  if (word == "cpu") return DeviceChoice::kCpu;
  if (word == "cuda") return DeviceChoice::kCuda;
  return InvalidArgument(
      kBadOption,
      absl::StrCat("device is \"", word, "\"; must be auto, cpu or cuda"));
}

absl::StatusOr<ShardDevice> OpenShardDevice(const ShardDeviceOptions& options) {
  if (options.choice == DeviceChoice::kCpu) return OnCpu("chosen");
  return ChooseShardDevice(options, OpenCudaDevice(options.cuda_device));
}

absl::StatusOr<ShardDevice> ChooseShardDevice(
    const ShardDeviceOptions& options,
    const absl::StatusOr<std::shared_ptr<Device>>& device) {
  if (options.choice == DeviceChoice::kCpu) return OnCpu("chosen");
  if (options.choice == DeviceChoice::kCuda) {
    CF_RETURN_IF_ERROR(device.status());
    return OnCuda(options, *device, ", chosen");
  }
  if (!device.ok()) return OnCpu(device.status().message());
  const absl::StatusOr<Measured> measured = MeasureBoth(*device);
  if (!measured.ok()) return OnCpu(measured.status().message());
  const std::string figures = absl::StrCat(
      absl::FormatDuration(measured->cpu), " a batch on the CPU, ",
      absl::FormatDuration(measured->cuda), " on ", (*device)->name());
  if (measured->cuda >= measured->cpu) return OnCpu(figures);
  return OnCuda(options, *device, absl::StrCat(", ", figures));
}

}  // namespace cpfeed
