// A step's payload on its way in: gathered and checked piece by piece.

#ifndef CPFEED_CORE_WIRE_STEP_GATHER_H_
#define CPFEED_CORE_WIRE_STEP_GATHER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/digest.h"
#include "core/tensor/buffer.h"
#include "cpfeed/v1/shard.pb.h"

namespace cpfeed {

// Copies each piece as it arrives to where its tensor is to lie, and sums it up
// there: the bytes come out of the network's memory once, while the cache still
// has them, and each tensor is one aligned fragment in the end.
class StepGather {
 public:
  // `header` outlives the gather and is not changed. A tensor's memory is
  // allocated when its first byte arrives.
  //
  // Errors:
  //   INVALID_ARGUMENT    A tensor's spec is wrong, or all of them and the
  //                       cursor have not payload_bytes together.
  //   RESOURCE_EXHAUSTED  payload_bytes is above `max_bytes`.
  static absl::StatusOr<StepGather> Begin(const v1::StepHeader& header,
                                          int64_t max_bytes);

  StepGather(StepGather&&) = default;

  // Errors:
  //   INVALID_ARGUMENT  More arrives than the header says.
  //   DATA_LOSS         The checksum of a tensor that is whole now does not
  //                     agree.
  absl::Status Append(const Buffer& piece);

  int64_t size() const { return size_; }  // Bytes that arrived.
  bool complete() const { return part_ == parts_.size(); }

  // The whole payload, once complete: a fragment for the cursor, if one leads,
  // and for each tensor that has bytes.
  const Buffer& payload() const { return payload_; }

 private:
  // What the next byte belongs to: the cursor or a tensor that has bytes.
  struct Part {
    const v1::TensorSpec* spec = nullptr;  // Null for the cursor.
    int64_t bytes = 0;
  };

  StepGather() = default;
  void BeginPart();
  absl::Status Take(const std::byte* from, int64_t size);
  absl::Status EndPart();

  std::vector<Part> parts_;
  size_t part_ = 0;            // parts_[part_] is the one that fills.
  std::byte* next_ = nullptr;  // Where its next byte goes.
  int64_t missing_ = 0;        // Its bytes that did not arrive yet.
  std::unique_ptr<DigestBuilder> digest_;
  Buffer payload_;
  int64_t size_ = 0;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_WIRE_STEP_GATHER_H_
