// Any step from a server: a client reads it and what it read can be used, or
// refuses it.
//
// Input: cp_size, options, size of fragments (1 byte each), StepHeader (with
// its length before it), payload.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/plan/shard_plan.h"
#include "core/shard/shard.h"
#include "core/tensor/buffer.h"
#include "core/wire/shard_codec.h"
#include "core/wire/step_gather.h"
#include "cpfeed/v1/shard.pb.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace cpfeed {
namespace {

void Use(const Shard& shard) {
  CF_CHECK(
      static_cast<int64_t>(LocalIndex(*shard.plan, shard.cp_rank).size()) ==
      shard.num_tokens);
  CF_CHECK(static_cast<int64_t>(SourceIndex(shard).size()) == shard.num_tokens);
  CF_CHECK(shard.local.cu_seqlens_padded.back() <= shard.num_tokens);
}

// The payload as it arrives at a client, with a cursor of a byte in front.
void Gather(v1::StepHeader header, const Buffer& payload, bool decodes) {
  header.set_payload_bytes(payload.size() + 1);
  header.set_cursor_bytes(1);
  auto gather = StepGather::Begin(header, 1 << 20);
  const bool gathered = gather.ok() &&
                        gather->Append(Buffer::CopyOf("c", 1)).ok() &&
                        gather->Append(payload).ok() && gather->complete();
  CF_CHECK(gathered || !decodes);
  if (!gathered) return;
  CF_CHECK(!gather->Append(Buffer::CopyOf("x", 1)).ok());  // More than it has.
  CF_CHECK(gather->payload().Slice(1, payload.size()).Checksum() ==
           payload.Checksum());
}

void Run(testing::FuzzInput input) {
  const int cp_size = input.Byte() % 9 + 1;
  const bool keep_checksums = input.Byte() % 4 == 0;
  const size_t fragment_size = input.Byte() + 1;
  v1::StepHeader header;
  if (!header.ParseFromString(input.Counted())) return;
  for (v1::ShardHeader& chunk : *header.mutable_chunks()) {
    if (keep_checksums) break;
    for (v1::TensorSpec& spec : *chunk.mutable_tensors()) {
      spec.clear_checksum();
    }
  }
  const Buffer payload = testing::Fragments(input.Rest(), fragment_size);
  const absl::StatusOr<StepShard> step = DecodeStep(header, cp_size, payload);
  Gather(header, payload, step.ok());
  if (!step.ok()) return;
  for (const Shard& shard : step->chunks) Use(shard);
  CheckStepHeader(header).IgnoreError();
  const EncodedStep again = EncodeStep(*step, header.cp_rank());
  CF_CHECK(DecodeStep(again.header, cp_size, again.payload).ok());
  const EncodedStep index = SelectTensors(again, {"index"});
  CF_CHECK(DecodeStep(index.header, cp_size, index.payload).ok());
}

}  // namespace
}  // namespace cpfeed

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cpfeed::testing::QuietProtobuf();
  cpfeed::Run(cpfeed::testing::FuzzInput(data, size));
  return 0;
}
