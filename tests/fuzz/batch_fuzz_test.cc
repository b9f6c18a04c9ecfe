// Any batch: the way from its header to the shards that ranks read back. What
// validation has passed must go all the way.
//
// Input: layout, cp_size, num_chunks, options, size of fragments (1 byte each),
// BatchHeader (with its length before it), payload. A payload that is too short
// goes on with zeros.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/batch/packed_batch.h"
#include "core/plan/layout_spec.h"
#include "core/plan/plan_verifier.h"
#include "core/shard/prepare_batch.h"
#include "core/shard/shard.h"
#include "core/shard/shard_executor.h"
#include "core/wire/batch_codec.h"
#include "core/wire/shard_codec.h"
#include "cpfeed/v1/ingest.pb.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace cpfeed {
namespace {

constexpr int64_t kMaxBatchBytes = 8 << 10;

struct Settings {
  LayoutSpec layout;
  int cp_size = 1;
  BatchOptions options;
};

Settings ReadSettings(testing::FuzzInput& input) {
  Settings settings;
  settings.layout = {.layout = static_cast<Layout>(input.Byte() % 8),
                     .stripe_width = 2,
                     .chunk_size = 4,
                     .token_multiple = 3};
  settings.cp_size = input.Byte() % 9 + 1;
  settings.options.num_chunks = input.Byte() % 4 + 1;
  const uint8_t flags = input.Byte();
  settings.layout.uneven = (flags & 1) != 0;
  settings.options.auto_fill = (flags & 2) != 0;
  settings.options.auto_pad = (flags & 4) != 0;
  settings.layout.keep_padding = (flags & 8) != 0;
  return settings;
}

// Headers with a right checksum are nothing that a fuzzer finds.
absl::StatusOr<v1::BatchHeader> ReadHeader(testing::FuzzInput& input) {
  v1::BatchHeader header;
  if (!header.ParseFromString(input.Counted())) {
    return absl::InvalidArgumentError("no header");
  }
  for (v1::TensorSpec& spec : *header.mutable_tensors()) spec.clear_checksum();
  return header;
}

void CheckShards(const Settings& settings, const PreparedBatch& prepared) {
  const absl::StatusOr<std::vector<StepShard>> steps =
      MakeCpuShardExecutor()->Execute(prepared.thd, prepared.plans);
  CF_CHECK(steps.ok());
  int64_t num_label_tokens = 0;
  int64_t bytes = 0;
  for (int rank = 0; rank < settings.cp_size; ++rank) {
    const EncodedStep encoded = EncodeStep((*steps)[rank], rank);
    bytes += encoded.payload.size();
    const absl::StatusOr<StepShard> decoded =
        DecodeStep(encoded.header, settings.cp_size, encoded.payload);
    CF_CHECK(decoded.ok());
    for (const Shard& shard : decoded->chunks) {
      num_label_tokens += shard.num_label_tokens;
      CF_CHECK(static_cast<int64_t>(SourceIndex(shard).size()) ==
               shard.num_tokens);
    }
  }
  CF_CHECK(num_label_tokens == (*steps)[0].num_label_tokens_global);
  CF_CHECK(bytes <= prepared.ShardBytes());
}

void Run(testing::FuzzInput input) {
  const Settings settings = ReadSettings(input);
  const size_t fragment_size = input.Byte() + 1;
  const absl::StatusOr<v1::BatchHeader> header = ReadHeader(input);
  if (!header.ok()) return;
  const absl::StatusOr<int64_t> size =
      CheckBatchHeader(*header, kMaxBatchBytes);
  if (!size.ok()) return;
  CF_CHECK(*size <= kMaxBatchBytes);
  std::string payload = input.Rest();
  payload.resize(static_cast<size_t>(*size));
  const absl::StatusOr<WireBatch> batch =
      DecodeBatch(*header, testing::Fragments(payload, fragment_size));
  if (!batch.ok()) return;
  int64_t charged = 0;
  const absl::StatusOr<PreparedBatch> prepared =
      PrepareBatch(batch->batch, settings.options, settings.layout,
                   settings.cp_size, [&](int64_t bytes) {
                     charged = bytes;
                     return absl::OkStatus();
                   });
  if (!prepared.ok()) return;
  CF_CHECK(prepared->ShardBytes() + prepared->PlanBytes() <= charged);
  for (const auto& plan : prepared->plans) CF_CHECK(VerifyPlan(*plan).ok());
  CheckShards(settings, *prepared);
}

}  // namespace
}  // namespace cpfeed

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cpfeed::testing::QuietProtobuf();
  cpfeed::Run(cpfeed::testing::FuzzInput(data, size));
  return 0;
}
