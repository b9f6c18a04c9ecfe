// Any PutBatchRequest becomes a batch that is checked, or an error.
//
// Input: PutBatchRequest.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/batch/validate_batch.h"
#include "core/tensor/dtype.h"
#include "core/wire/batch_codec.h"
#include "core/wire/tensor_codec.h"
#include "cpfeed/v1/ingest.pb.h"
#include "cpfeed/v1/tensor.pb.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace cpfeed {
namespace {

// What is taken may be told, and told again.
void TellAgain(const v1::Tensor& proto) {
  const absl::StatusOr<NamedTensor> tensor = TensorFromProto(proto);
  if (!tensor.ok()) return;
  const DType dtype = tensor->tensor.dtype;
  for (const bool as_numbers : {false, true}) {
    const absl::StatusOr<NamedTensor> again =
        TensorFromProto(TensorToProto(*tensor, as_numbers));
    // A bool of bytes may be 2, and a NaN has more bits than its number.
    if (as_numbers && (dtype == DType::kBool || IsFloat(dtype))) continue;
    CF_CHECK(again.ok());
    CF_CHECK(again->tensor.bytes.Checksum() == tensor->tensor.bytes.Checksum());
  }
}

void Run(testing::FuzzInput input) {
  v1::PutBatchRequest request;
  if (!request.ParseFromString(input.Rest())) return;
  for (v1::Tensor& tensor : *request.mutable_tensors()) {
    TellAgain(tensor);
    tensor.mutable_spec()->clear_checksum();
    TellAgain(tensor);
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
