// Steps on the wire, for tests of who reads them.

#ifndef CPFEED_TESTS_CORE_WIRE_ENCODED_STEPS_H_
#define CPFEED_TESTS_CORE_WIRE_ENCODED_STEPS_H_

#include <string>
#include <vector>

#include "core/batch/packed_batch.h"
#include "core/plan/layout_spec.h"
#include "core/shard/shard.h"
#include "core/tensor/buffer.h"
#include "core/tensor/tensor.h"
#include "core/wire/shard_codec.h"

namespace cpfeed::testing {

// All bytes.
std::string StringOf(const Buffer& buffer);

// The shards of all ranks of a batch, which must be valid.
std::vector<StepShard> CutOf(const PackedBatch& batch,
                             const BatchOptions& options,
                             const LayoutSpec& layout, int cp_size);

// Slots [a a a . b b b b] and [c c c c c c c c] in two chunks, on two ranks,
// with three components of positions.
std::vector<StepShard> TwoChunks();

// What rank 1 gets of them.
EncodedStep EncodedTwoChunks();

// The step with one tensor of its first chunk replaced (or left out, where
// `tensor` is empty) by somebody who knows how to compute a checksum.
EncodedStep Replaced(const EncodedStep& step, const std::string& name,
                     const Tensor& tensor);

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CORE_WIRE_ENCODED_STEPS_H_
