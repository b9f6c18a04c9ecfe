// A batch as a data loader sends it: rows of packed sequences (BSHD).

#ifndef CPFEED_CORE_BATCH_PACKED_BATCH_H_
#define CPFEED_CORE_BATCH_PACKED_BATCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"

namespace cpfeed {

// A ragged array of lengths, one list a row.
struct RaggedLengths {
  std::vector<int64_t> values;      // Row after row.
  std::vector<int64_t> row_splits;  // [num_rows + 1]
};

// A tensor with one element (of any inner shape) for each token. The rows are
// the axis before `sequence_axis`, so axes [sequence_axis - 1, sequence_axis]
// have the sizes [B, S].
struct TokenTensor {
  std::string name;
  Tensor tensor;
  int sequence_axis = 1;  // At least 1.
};

// B rows of S positions. Nothing is checked here; see validate_batch.h. A
// tensor that is not there is empty().
struct PackedBatch {
  Tensor input_ids;       // [B, S] int32 or int64, or [B, S, H] float
  Tensor labels;          // [B, S] integer; mandatory; already shifted
  Tensor position_ids;    // [B, S] or [n_rope, B, S] integer; optional
  Tensor attention_mask;  // [B, S], [B, S, S] or [B, 1, S, S]; optional
  Tensor padding_mask;    // [B, S], True where a position is padding; optional

  // Any further token-aligned tensors (loss_mask and whatever else).
  std::vector<TokenTensor> extras;

  // Real lengths and slot lengths of the sequences of each row. Without either
  // every row is one sequence. May hold sentinels (see BatchOptions).
  std::optional<RaggedLengths> seq_lens;
  std::optional<RaggedLengths> seq_lens_padded;
};

// What auto_pad makes divisible, and by what: the layout says (see
// core/plan/layout.h).
struct PadRule {
  enum class Scope {
    kNone,  // Nothing needs padding.
    kSlot,  // Each slot.
    kRow,   // The sum of the slots of each row; its last slot grows.
    kChunk  // The sum of the slots of each chunk; its last slot grows.
  };
  Scope scope = Scope::kNone;
  int64_t multiple = 1;  // In tokens, at least 1.
};

// How a batch is to be read and mended.
struct BatchOptions {
  int64_t num_chunks = 1;        // Consecutive groups of rows; divides B.
  int64_t padding_token_id = 0;  // Fills input_ids where auto_pad inserts.
  // Marks filler in rectangular seq_lens arrays; negative.
  int64_t seq_lens_padding_value = -1000;
  // A row whose slots sum below S gets its last slot extended.
  bool auto_fill = false;
  // Slots grow at their tail until `pad_rule` holds.
  bool auto_pad = false;
  PadRule pad_rule;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_PACKED_BATCH_H_
