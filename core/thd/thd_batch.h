// A batch in THD layout: all tokens in one stream, sequences behind each other.
//
// Row-major [B, S, ...] and THD [T, ...] are the same bytes, so conversion
// moves no payload. Where auto_pad inserts positions, the description says so
// and the shard executor fills them while it gathers; the padded stream itself
// never exists in memory.

#ifndef CPFEED_CORE_THD_THD_BATCH_H_
#define CPFEED_CORE_THD_THD_BATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/batch/packed_lengths.h"
#include "core/tensor/tensor.h"

namespace cpfeed {

// How a token tensor continues over inserted padding.
enum class PadFill {
  kZero,         // 0, 0.0, false.
  kOne,          // true: masks of padding.
  kPaddingId,    // BatchOptions::padding_token_id.
  kIgnoreLabel,  // -100.
  kContinue,     // Last value of the slot + 1, + 2, ... for each component.
};

// One token-aligned tensor of the whole batch. `tensor` is the caller's, of
// shape [outer..., B, S, inner...] (axes before and behind the token axes).
// A generated tensor has no bytes: its values follow from the layout.
struct ThdTensor {
  enum class Origin {
    kInput,        // `tensor` holds it.
    kPositions,    // int64: 0, 1, ... in every slot, on through its padding.
    kPaddingMask,  // bool: true behind the real length inside a slot.
  };
  std::string name;
  Origin origin = Origin::kInput;
  DType dtype = DType::kInvalid;
  Tensor tensor;  // Where origin is kInput.
  Shape outer;    // Dimensions before the token axes, often none.
  Shape inner;    // Dimensions behind them, often none.
  PadFill fill = PadFill::kZero;
};

// One chunk: consecutive rows as one THD stream of `total_tokens` positions.
struct ThdChunk {
  // Slots of the stream after auto_fill and auto_pad; row_splits count from
  // the chunk's first row.
  PackedLengths lengths;
  // [num_sequences]: how many positions of each slot come from the input; the
  // other padded[i] - source[i] at its tail were inserted by auto_pad.
  std::vector<int64_t> source;
  // Position of the chunk's first token in the batch's B * S stream. The chunk
  // covers source_tokens positions from there without a gap.
  int64_t source_begin = 0;
  int64_t source_tokens = 0;

  int64_t total_tokens = 0;                // T of the padded stream, < 2^31.
  std::vector<int32_t> cu_seqlens;         // [num_sequences + 1], real lengths
  std::vector<int32_t> cu_seqlens_padded;  // [num_sequences + 1], slots
  int32_t max_seqlen = 0;                  // Widest real length.
  int32_t max_seqlen_padded = 0;           // Widest slot.
};

struct ThdBatch {
  int64_t num_rows = 0;   // B
  int64_t row_width = 0;  // S of the input
  int64_t padding_token_id = 0;
  std::vector<ThdChunk> chunks;
  // input_ids, labels, position_ids, padding_mask, then the extras.
  std::vector<ThdTensor> tensors;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_THD_THD_BATCH_H_
