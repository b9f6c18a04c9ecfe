// Any PutBatchRequest becomes a batch that is checked, or an error.
//
// Input: PutBatchRequest.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/batch/validate_batch.h"
#include "core/wire/batch_codec.h"
#include "cpfeed/v1/ingest.pb.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace cpfeed {
namespace {

void Run(testing::FuzzInput input) {
  v1::PutBatchRequest request;
  if (!request.ParseFromString(input.Rest())) return;
  for (v1::Tensor& tensor : *request.mutable_tensors()) {
    tensor.mutable_spec()->clear_checksum();
  }
  const absl::StatusOr<WireBatch> batch = DecodeSmallBatch(request);
  if (!batch.ok()) return;
  const bool valid =
      ValidateBatch(batch->batch, {.auto_fill = true, .auto_pad = true}).ok();
  // It goes the way of the large ones.
  const EncodedBatch encoded = EncodeBatch(batch->batch, batch->producer_state);
  if (!CheckBatchHeader(encoded.header, int64_t{1} << 40).ok()) return;
  const absl::StatusOr<WireBatch> again =
      DecodeBatch(encoded.header, encoded.payload);
  CF_CHECK(!valid || again.ok());
}

}  // namespace
}  // namespace cpfeed

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cpfeed::testing::QuietProtobuf();
  cpfeed::Run(cpfeed::testing::FuzzInput(data, size));
  return 0;
}
