#include "tests/core/wire/encoded_steps.h"

#include <cstdint>

#include "core/base/status_macros.h"
#include "core/shard/prepare_batch.h"
#include "core/shard/shard_executor.h"
#include "core/wire/tensor_codec.h"
#include "tests/testing/packed_batches.h"

namespace cpfeed::testing {

std::string StringOf(const Buffer& buffer) {
  std::string bytes(static_cast<size_t>(buffer.size()), '\0');
  buffer.CopyTo(bytes.data());
  return bytes;
}

std::vector<StepShard> CutOf(const PackedBatch& batch,
                             const BatchOptions& options,
                             const LayoutSpec& layout, int cp_size) {
  const auto prepared = PrepareBatch(batch, options, layout, cp_size);
  CF_CHECK(prepared.ok());
  const auto steps =
      MakeCpuShardExecutor()->Execute(prepared->thd, prepared->plans);
  CF_CHECK(steps.ok());
  return *steps;
}

std::vector<StepShard> TwoChunks() {
  PackedBatch batch = CountingBatch(2, 8);
  batch.seq_lens = Ragged({{3, 4}, {8}});
  batch.seq_lens_padded = Ragged({{4, 4}, {8}});
  batch.position_ids = CountingTensor({3, 2, 8});
  return CutOf(batch, {.num_chunks = 2},
               {.layout = Layout::kHeadTailPerSequence}, 2);
}

EncodedStep EncodedTwoChunks() { return EncodeStep(TwoChunks()[1], 1); }

EncodedStep Replaced(const EncodedStep& step, const std::string& name,
                     const Tensor& tensor) {
  EncodedStep changed{.header = step.header};
  changed.header.clear_chunks();
  int64_t offset = 0;
  for (const v1::ShardHeader& chunk : step.header.chunks()) {
    const int64_t bytes = *CheckTensorSpecs(chunk.tensors());
    const auto tensors =
        DecodeTensors(chunk.tensors(), step.payload.Slice(offset, bytes));
    offset += bytes;
    v1::ShardHeader& copy = *changed.header.add_chunks();
    copy = chunk;
    copy.clear_tensors();
    for (const NamedTensor& named : *tensors) {
      const bool replace =
          named.name == name && changed.header.chunks_size() == 1;
      if (replace && tensor.empty()) continue;
      EncodeTensor(named.name, replace ? tensor : named.tensor, 0,
                   *copy.mutable_tensors(), changed.payload);
      copy.mutable_tensors()->rbegin()->set_token_axis(named.token_axis);
    }
  }
  return changed;
}

}  // namespace cpfeed::testing
