// Batches on the wire.

#ifndef CPFEED_CORE_WIRE_BATCH_CODEC_H_
#define CPFEED_CORE_WIRE_BATCH_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/batch/packed_batch.h"
#include "core/tensor/buffer.h"
#include "cpfeed/v1/ingest.pb.h"

namespace cpfeed {

// The most bytes of a producer's own state.
inline constexpr int64_t kMaxProducerStateBytes = 64 << 10;

// The most bytes of a batch_id: it comes back in the header of every shard.
inline constexpr int64_t kMaxBatchIdBytes = 256;

// A batch with what travels beside it.
struct WireBatch {
  PackedBatch batch;
  std::string producer_state;
};

// Checks a header before anything of its payload is accepted, and returns the
// bytes that the payload will have, at most `max_batch_bytes`.
//
// Errors:
//   INVALID_ARGUMENT  The header contradicts itself, or announces more than
//                     `max_batch_bytes` (reason BATCH_TOO_LARGE).
absl::StatusOr<int64_t> CheckBatchHeader(const v1::BatchHeader& header,
                                         int64_t max_batch_bytes);

// Reads a batch out of its header, which CheckBatchHeader has passed, and its
// whole payload. The batch shares the payload's bytes. Rules between tensors
// are left to ValidateBatch.
//
// Errors:
//   INVALID_ARGUMENT  The payload has another size; lengths have no shape that
//                     lengths may have, or are more than memory is charged for;
//                     there are no input_ids.
//   DATA_LOSS         A checksum does not agree.
absl::StatusOr<WireBatch> DecodeBatch(const v1::BatchHeader& header,
                                      const Buffer& payload);

// The same for a small batch. A row without seq_lens is one sequence, one
// without seq_lens_padded has no padding, also where other rows have them.
absl::StatusOr<WireBatch> DecodeSmallBatch(const v1::PutBatchRequest& request);

// A batch as header and payload, which shares the batch's bytes. The caller
// fills in sequence, batch_id and data_epoch.
struct EncodedBatch {
  v1::BatchHeader header;
  Buffer payload;
};
EncodedBatch EncodeBatch(const PackedBatch& batch,
                         const std::string& producer_state);

}  // namespace cpfeed

#endif  // CPFEED_CORE_WIRE_BATCH_CODEC_H_
