#include "core/wire/step_gather.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/wire/shard_tensors.h"
#include "core/wire/tensor_codec.h"

namespace cpfeed {

absl::StatusOr<StepGather> StepGather::Begin(const v1::StepHeader& header,
                                             int64_t max_bytes) {
  if (header.payload_bytes() > max_bytes) {
    return MakeError(absl::StatusCode::kResourceExhausted, kBatchTooLarge,
                     absl::StrCat("payload has ", header.payload_bytes(),
                                  " bytes; must be at most ", max_bytes));
  }
  StepGather gather;
  int64_t left = header.payload_bytes() - header.cursor_bytes();
  if (header.cursor_bytes() > 0) {
    gather.parts_.push_back({.bytes = header.cursor_bytes()});
  }
  for (const v1::ShardHeader& chunk : header.chunks()) {
    CF_ASSIGN_OR_RETURN(const int64_t bytes,
                        CheckTensorSpecs(chunk.tensors(), kMaxShardTensors));
    if (bytes > left) break;
    left -= bytes;
    for (const v1::TensorSpec& spec : chunk.tensors()) {
      const int64_t size = SpecBytes(spec);
      if (size > 0) gather.parts_.push_back({.spec = &spec, .bytes = size});
    }
  }
  if (left != 0 || header.cursor_bytes() < 0) {
    return InvalidArgument(
        kProtocolError,
        absl::StrCat("payload_bytes is ", header.payload_bytes(),
                     "; must be what the cursor (", header.cursor_bytes(),
                     " bytes) and the tensors have"));
  }
  gather.BeginPart();
  return gather;
}

void StepGather::BeginPart() {
  if (complete()) return;
  missing_ = parts_[part_].bytes;
  next_ = nullptr;
  digest_.reset();
}

absl::Status StepGather::Append(const Buffer& piece) {
  for (const Buffer::Fragment& fragment : piece.fragments()) {
    const std::byte* from = fragment.data;
    int64_t left = fragment.size;
    while (left > 0) {
      if (complete()) {
        return InvalidArgument(kProtocolError,
                               absl::StrCat("payload has more than the ", size_,
                                            " bytes that its header says"));
      }
      const int64_t taken = std::min(left, missing_);
      CF_RETURN_IF_ERROR(Take(from, taken));
      from += taken;
      left -= taken;
    }
  }
  return absl::OkStatus();
}

absl::Status StepGather::Take(const std::byte* from, int64_t size) {
  const Part& part = parts_[part_];
  if (next_ == nullptr) {
    Buffer memory;
    std::tie(memory, next_) = Buffer::Allocate(part.bytes);
    payload_.Append(memory);
    if (part.spec != nullptr && part.spec->checksum() != 0) {
      digest_ = std::make_unique<DigestBuilder>();
    }
  }
  std::memcpy(next_, from, static_cast<size_t>(size));
  if (digest_ != nullptr) digest_->Update(next_, size);
  next_ += size;
  missing_ -= size;
  size_ += size;
  return missing_ == 0 ? EndPart() : absl::OkStatus();
}

absl::Status StepGather::EndPart() {
  if (digest_ != nullptr) {
    const v1::TensorSpec& spec = *parts_[part_].spec;
    CF_RETURN_IF_ERROR(
        CompareChecksum(spec.name(), digest_->Finish(), spec.checksum()));
  }
  ++part_;
  BeginPart();
  return absl::OkStatus();
}

}  // namespace cpfeed
