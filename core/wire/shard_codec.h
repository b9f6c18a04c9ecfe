// Shards on the wire.

#ifndef CPFEED_CORE_WIRE_SHARD_CODEC_H_
#define CPFEED_CORE_WIRE_SHARD_CODEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/shard/shard.h"
#include "core/tensor/buffer.h"
#include "core/wire/tensor_codec.h"
#include "cpfeed/v1/shard.pb.h"

namespace cpfeed {

// A rank's step as header and payload. The payload shares the shard's bytes.
struct EncodedStep {
  v1::StepHeader header;
  Buffer payload;
};

// Encodes all tensors of `shard`; the caller fills in what core does not know
// (step, producer, ...). Checksums are computed here, once for all consumers.
EncodedStep EncodeStep(const StepShard& shard, int cp_rank);

// Whether a consumer will take a header that EncodeStep made. The batch is to
// be refused if not.
//
// Errors:
//   INVALID_ARGUMENT  With what the caller fills in it is above kMaxHeaderBytes
//                     (reason BATCH_TOO_LARGE).
absl::Status CheckStepHeader(const v1::StepHeader& header);

// The part of `step`, which EncodeStep made, that a consumer asked for: lengths
// and segments always, token tensors by name (empty means all), "index" on
// request. Shares bytes.
EncodedStep SelectTensors(const EncodedStep& step,
                          const std::vector<std::string>& names);

// Reads a step back. `payload` is without the cursor that may lead it.
//
// The plan is planned anew from the lengths, which is cheap, and its digest
// compared, so that a consumer knows what every rank holds and that client and
// server agree on it. A plan is made only where the payload is as large as its
// claims. What does not travel: ThdChunk::source_begin is 0 and
// ThdChunk::num_label_tokens is 0.
//
// Errors:
//   INVALID_ARGUMENT  Header and payload do not fit, to each other or to the
//                     plan; the message names the chunk.
//   DATA_LOSS         A checksum or the plan digest does not agree.
absl::StatusOr<StepShard> DecodeStep(const v1::StepHeader& header, int cp_size,
                                     const Buffer& payload,
                                     Checksums checksums = Checksums::kCompare);

// Rows [begin, end) of a token tensor of one shard, 0 <= begin <= end <= its
// rows. `token_axis` is the axis of the local rows.
Tensor TokenRange(const Tensor& tensor, int token_axis, int64_t begin,
                  int64_t end);

// Whether `name` is one of the tensors that describe the shard, which are not
// token-aligned.
bool IsShardDescription(absl::string_view name);

}  // namespace cpfeed

#endif  // CPFEED_CORE_WIRE_SHARD_CODEC_H_
