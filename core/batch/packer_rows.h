// Writes documents that share rows into the tensors of a batch.

#ifndef CPFEED_CORE_BATCH_PACKER_ROWS_H_
#define CPFEED_CORE_BATCH_PACKER_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/batch/document.h"
#include "core/batch/packed_batch.h"
#include "core/batch/packer_options.h"

namespace cpfeed {

// How full batches are. All in tokens or numbers of things.
struct PackCounts {
  int64_t batches = 0;
  int64_t rows = 0;
  int64_t sequences = 0;     // Slots of a document, or of a piece of one.
  int64_t documents = 0;     // Those that end there: a cut one counts once.
  int64_t tokens = 0;        // Real ones, end tokens included.
  int64_t padding = 0;       // The other positions of the rows.
  int64_t label_tokens = 0;  // Labels that are not -100.
  // Query-key pairs under the causal mask inside each sequence, and what they
  // were if each row had those of the heaviest row of its batch.
  double area = 0;
  double heaviest_area = 0;

  PackCounts& operator+=(const PackCounts& other);

  // Real tokens / positions, in [0, 1]; 1 where there is no position.
  double FillRatio() const;

  // How much longer batches last than if all rows of a batch were alike: the
  // heaviest row of each over the mean row. At least 1.
  double AreaImbalance() const;
};

struct PackedRows {
  PackedBatch batch;
  PackCounts counts;
};

// One batch of options.rows rows; `rows[i]` are the documents of row i, in
// order, and rows that are not given are empty. int64 [B, S] each:
//   input_ids     tokens, options.padding_token_id behind them in each slot
//   labels        the document's own, or its tokens shifted by one: the last
//                 one is next_token, or -100 at the end of a document; -100 in
//                 padding
//   position_ids  if options.position_ids: 0, 1, ... in every slot, on through
//                 its padding
// The documents of a row, each rounded up to options.slot_multiple, fit it.
//
// Example: row_width 8, slot_multiple 2, documents {5, 6, 7} and {8, 9}
//   input_ids        5 6 7 0 8 9 0 0       seq_lens         3, 2
//   labels           6 7 x x 9 x x x       seq_lens_padded  4, 4
//   position_ids     0 1 2 3 0 1 2 3       (kExtendLastSlot; x = -100)
PackedRows BuildPackedRows(absl::Span<const std::vector<Document>> rows,
                           const PackOptions& options);

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_PACKER_ROWS_H_
