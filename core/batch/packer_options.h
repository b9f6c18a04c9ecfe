// How documents are packed into rows.

#ifndef CPFEED_CORE_BATCH_PACKER_OPTIONS_H_
#define CPFEED_CORE_BATCH_PACKER_OPTIONS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "core/batch/packer_strategy.h"

namespace cpfeed {

// A document that does not fit a row.
enum class LongDocuments : int8_t {
  kRefuse,  // An error.
  kDrop,    // Left out and counted.
  // Cut at the row's width. Labels are shifted before the cut, so no target is
  // lost; but attention does not reach back over it.
  kCut,
};

// What becomes of the positions behind the last slot of a row.
enum class RowTail : int8_t {
  kExtendLastSlot,  // They are padding of the last slot.
  kEmptySlot,       // They are a slot of their own, of real length 0.
  // They belong to no slot: the slots sum below the row's width and the batch
  // must be converted with auto_fill.
  kAutoFill,
};

// The rows that are missing in the last batch before a flush.
enum class LastBatch : int8_t {
  kFill,  // Rows without any document (real length 0).
  kDrop,  // The batch is left out and its documents are counted as dropped.
};

struct PackOptions {
  int64_t row_width = 0;  // S, in tokens.
  int64_t rows = 1;       // B; B * S < 2^31.

  // Every slot is rounded up to a multiple of it: 2 * cp_size for
  // HEAD_TAIL_PER_SEQUENCE. Divides row_width.
  int64_t slot_multiple = 1;

  PackStrategy strategy = PackStrategy::kBestFitDecreasing;

  // How far the packer looks ahead: it reads this many tokens (padding of slots
  // included; whole batches, at least one batch and at most 4096 rows if that
  // is more) before it packs them. This bounds its memory, 8 bytes a token, and
  // twice that with labels of their own; and its positions.
  int64_t lookahead_tokens = int64_t{1} << 22;

  LongDocuments long_documents = LongDocuments::kRefuse;
  RowTail row_tail = RowTail::kExtendLastSlot;
  LastBatch last_batch = LastBatch::kFill;

  // Goes behind each document that does not end with it already. Documents
  // that bring labels of their own are taken as they are.
  std::optional<int64_t> end_token_id;
  int64_t padding_token_id = 0;
  bool position_ids = true;  // Whether batches carry them.
};

// Errors:
//   INVALID_ARGUMENT  An option is out of its range (reason BAD_OPTION), or
//                     slot_multiple does not divide row_width (NOT_DIVISIBLE).
absl::Status ValidatePackOptions(const PackOptions& options);

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_PACKER_OPTIONS_H_
