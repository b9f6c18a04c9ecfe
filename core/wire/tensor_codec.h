// Tensors on the wire: specs in headers, bytes in payloads.

#ifndef CPFEED_CORE_WIRE_TENSOR_CODEC_H_
#define CPFEED_CORE_WIRE_TENSOR_CODEC_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/buffer.h"
#include "core/tensor/tensor.h"
#include "cpfeed/v1/tensor.pb.h"

namespace cpfeed {

using TensorSpecs = google::protobuf::RepeatedPtrField<v1::TensorSpec>;

// The most tensors of a batch.
inline constexpr int kMaxTensors = 64;

// Checks names, dtypes and shapes, and returns the bytes of all tensors
// together. Allocates nothing.
//
// Errors:
//   INVALID_ARGUMENT  A name is empty, too long or given twice; a dtype is
//                     unknown; a shape is negative or overflows; there are more
//                     than `most_tensors`.
absl::StatusOr<int64_t> CheckTensorSpecs(const TensorSpecs& specs,
                                         int most_tensors = kMaxTensors);

// The bytes of a tensor whose spec CheckTensorSpecs has passed.
int64_t SpecBytes(const v1::TensorSpec& spec);

// DATA_LOSS that names the tensor, unless the two agree.
absl::Status CompareChecksum(absl::string_view tensor, uint64_t computed,
                             uint64_t given);

// Whether a decoder is to compare the checksums of tensors, which reads every
// byte, or the caller has done so.
enum class Checksums { kCompare, kCompared };

// Cuts `payload` into the tensors of `specs`, which CheckTensorSpecs has
// passed. The tensors share the payload's bytes.
//
// Errors:
//   INVALID_ARGUMENT  The payload has another size.
//   DATA_LOSS         A checksum does not agree.
absl::StatusOr<std::vector<NamedTensor>> DecodeTensors(
    const TensorSpecs& specs, const Buffer& payload,
    Checksums checksums = Checksums::kCompare);

// Adds a tensor's spec, its checksum computed, to `specs` and its bytes to
// `payload`. `sequence_axis` 0 is left out.
void EncodeTensor(absl::string_view name, const Tensor& tensor,
                  int sequence_axis, TensorSpecs& specs, Buffer& payload);

// A tensor as a message of its own, with its values as numbers where
// `as_numbers` is set and its dtype has numbers (float16 and bfloat16 have
// none).
v1::Tensor TensorToProto(const NamedTensor& tensor, bool as_numbers);

// The reverse.
//
// Errors:
//   INVALID_ARGUMENT  Spec and values do not agree, values come both as bytes
//                     and as numbers, or the dtype cannot hold a number; the
//                     message has the number's place and the range.
//   DATA_LOSS         The checksum does not agree.
absl::StatusOr<NamedTensor> TensorFromProto(const v1::Tensor& proto);

}  // namespace cpfeed

#endif  // CPFEED_CORE_WIRE_TENSOR_CODEC_H_
