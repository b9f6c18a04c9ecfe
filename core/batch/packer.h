// Packs a stream of documents into a stream of batches.
//
// The packer works in rounds. A round holds as many documents as fill
// lookahead_tokens (whole batches), shares them out over rows, and gives the
// fullest rows away as batches; what is left over goes into the next round,
// where it goes first. So every document leaves within a few rounds, memory is
// bounded, and the same documents in the same order give the same batches.

#ifndef CPFEED_CORE_BATCH_PACKER_H_
#define CPFEED_CORE_BATCH_PACKER_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/batch/document.h"
#include "core/batch/packer_options.h"
#include "core/batch/packer_rows.h"

namespace cpfeed {

// Where a packer stands, in numbers of the sequences that Add made (the first
// is 0): enough to go on from the same documents.
struct PackerPosition {
  std::vector<int64_t> held;  // From earlier rounds, ascending.
  int64_t next = 0;           // All from here on are to be added again.
  int64_t batches_taken = 0;  // Of the round that `held` begins.
};

// Documents that Add did not pack. In documents and tokens.
struct PackLosses {
  int64_t dropped_documents = 0;  // Too long, or in a dropped last batch.
  int64_t dropped_tokens = 0;
  int64_t cut_documents = 0;    // Packed, but in pieces.
  int64_t empty_documents = 0;  // Without any token; left out.
};

// Not thread-safe. To be used as
//   for each document: Add(document); while (batch = Next()) use(batch);
//   Flush(); while (batch = Next()) use(batch);
class Packer {
 public:
  // Errors: those of ValidatePackOptions.
  static absl::StatusOr<Packer> Create(const PackOptions& options);

  // Takes one more document: adds its end token and cuts or drops it as the
  // options say. Returns the number of sequences that it became, which have
  // consecutive numbers; 0 where it was empty or dropped.
  //
  // Errors:
  //   INVALID_ARGUMENT  The document does not fit a row and is to be refused
  //                     (BATCH_TOO_LARGE), has another number of labels than
  //                     of tokens (SHAPE_MISMATCH), or a loss_mask
  //                     (MASK_NOT_SUPPORTED).
  absl::StatusOr<int64_t> Add(Document document);

  // Ends a round early: Next gives all that is held, and then nothing until
  // documents are added again. For the end of the documents or of an epoch.
  void Flush() { flushing_ = true; }

  // The next batch, or nothing where it takes another document (or, after
  // Flush, where there are no more).
  std::optional<PackedRows> Next();

  // The position behind the last batch that Next gave.
  PackerPosition position() const;

  // Goes on from `position` in a new packer with the same options: Add must be
  // given the documents from any number up to the first held one on (its
  // sequence counts as number 0 of this position), ignores those that are
  // neither held nor new, and Next leaves out the batches already taken.
  void Restore(const PackerPosition& position);

  const PackLosses& losses() const { return losses_; }

 private:
  struct Sequence {
    int64_t number = 0;
    int64_t slot = 0;  // Tokens with padding.
    Document document;
  };
  using Row = std::vector<Sequence>;

  explicit Packer(const PackOptions& options);

  // Cuts `document` where it does not fit; empty where it is dropped.
  absl::StatusOr<std::vector<Document>> Fit(Document document);
  void Enqueue(Document document);

  bool FillRound();  // True when the next sequence does not fit any more.
  void BeginRound();
  void PackRound();
  std::vector<Row> AssignRound();  // Empties the round.
  // Leaves the `keep` rows that go first, by age, and returns the others.
  std::vector<Row> SplitOff(std::vector<Row>& rows, int64_t keep) const;
  static void SortByArea(std::vector<Row>& rows);
  void HoldOver(std::vector<Row> rows);
  void Drop(const std::vector<Row>& rows);
  PackedRows TakeBatch();

  PackOptions options_;
  int64_t round_tokens_ = 0;  // Slots that a round holds.
  PackLosses losses_;

  int64_t next_number_ = 0;
  bool flushing_ = false;
  std::deque<Sequence> incoming_;  // Added, in no round yet.

  // The round at hand: what was held over into it, and its first new number.
  std::vector<int64_t> held_;
  int64_t first_new_ = 0;
  std::vector<Sequence> round_;  // By number. Packed: what is held over.
  int64_t round_used_ = 0;       // Sum of their slots.
  std::deque<Row> ready_;        // Rows of the packed round, to be taken.
  int64_t batches_taken_ = 0;    // Of the packed round.
  int64_t batches_to_skip_ = 0;  // Of the next round to be packed.
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_PACKER_H_
