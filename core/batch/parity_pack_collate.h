// Collating samples into a batch as NeMo AutoModel's data side does it.

#ifndef CPFEED_CORE_BATCH_PARITY_PACK_COLLATE_H_
#define CPFEED_CORE_BATCH_PARITY_PACK_COLLATE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/batch/parity.h"
#include "core/batch/parity_pack.h"
#include "core/batch/parity_pack_sample.h"
#include "core/tensor/tensor.h"

namespace cpfeed {

// A dict of tensors. Lengths are rectangular there: the rows of seq_lens and
// seq_lens_padded are filled with -1000.
struct ParityBatch {
  std::vector<NamedTensor> tensors;  // In the order of the dict's keys.
  std::string qkv_format;            // "thd", or "" for no such key.
};

// `packed_sequence_thd_collater`: rows of one width, int64 [B, S], and their
// lengths [B, longest list]. Where the first sample has no seq_lens every
// sample becomes a row of one sequence, as wide as the longest. No samples give
// an empty dict.
//
// Errors (reasons):
//   KeyError      A sample lacks a field that is needed.
//   RuntimeError  Rows of different width; the message has both.
absl::StatusOr<ParityBatch> PackedSequenceThdCollate(
    std::vector<ParitySample> samples);

// `default_collater`: every field of the first sample, padded at its end to the
// longest one, int64 [B, S]; and padding_mask, which automodel_0_4 takes from
// token values and automodel_0_7 from attention_mask where there is one. S is a
// multiple of `pad_seq_len_divisible` where that is given and not 0.
//
// Errors (reasons):
//   IndexError  No samples, or the first one's list has no last token by which
//               to pad.
//   KeyError    A later sample lacks a field.
//   TypeError   A field that is a number (automodel_0_7 stacks those that are
//               numbers in every sample).
//   BAD_OPTION  pad_seq_len_divisible is negative or 2^31 or more.
absl::StatusOr<ParityBatch> DefaultCollate(
    absl::Span<const ParitySample> samples,
    std::optional<int64_t> pad_seq_len_divisible, Parity parity);

// `pack_features_for_thd` (automodel_0_7): loose sequences behind each other,
// without padding; labels are -100 where a sample has none.
//
// Errors (reasons):
//   ValueError   No samples, an empty one, or another number of labels.
//   KeyError     A sample lacks input_ids.
//   ImportError  automodel_0_4 has no such function.
absl::StatusOr<ParityPack> PackFeaturesForThd(
    absl::Span<const ParitySample> features, Parity parity);

// A pack as a sample, for PackedSequenceThdCollate.
ParitySample ToSample(const ParityPack& pack);

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_PARITY_PACK_COLLATE_H_
