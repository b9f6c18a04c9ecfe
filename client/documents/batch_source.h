// Documents to packed batches: what `cpfeed pack` and `cpfeed feed` send.

#ifndef CPFEED_CLIENT_DOCUMENTS_BATCH_SOURCE_H_
#define CPFEED_CLIENT_DOCUMENTS_BATCH_SOURCE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/documents/document_source.h"
#include "client/documents/document_store.h"
#include "client/documents/parity_batcher.h"
#include "core/batch/packed_batch.h"
#include "core/batch/packer.h"
#include "core/batch/packer_options.h"
#include "core/batch/packer_rows.h"
#include "core/batch/parity.h"

namespace cpfeed {

struct BatchSourceOptions {
  PackOptions pack;
  // In a parity mode pack's options count as parity_batcher.h says.
  Parity parity = Parity::kNative;
  int64_t cp_size = 1;  // Parity modes only; natively pack.slot_multiple.

  bool shuffle = false;  // Another order in each epoch, by `seed`.
  uint64_t seed = 0;
  int64_t epochs = 1;  // 0: without end.
};

struct SourceBatch {
  PackedBatch batch;
  PackCounts counts;  // Of this batch: documents, tokens, padding, ...
  int64_t epoch = 0;  // Of all its documents; batches do not cross epochs.
};

// Reads, packs and says where it stands. The same documents and options give
// the same batches on every machine. Not thread-safe.
//
// Example:
//   CF_ASSIGN_OR_RETURN(auto store, OpenDocuments({.paths = {"docs"}}));
//   CF_ASSIGN_OR_RETURN(auto source, BatchSource::Create(
//       std::move(store), {.pack = {.row_width = 4096, .rows = 2}}));
//   if (resume) CF_RETURN_IF_ERROR(source->Restore(saved_state));
//   while (true) {
//     CF_ASSIGN_OR_RETURN(auto batch, source->Next());
//     if (!batch) break;
//     Send(batch->batch, /*producer_state=*/source->State());
//   }
class BatchSource {
 public:
  // Errors:
  //   INVALID_ARGUMENT  Options: see ValidatePackOptions, ParityBatcher::Create
  //                     and DocumentSource::Create.
  static absl::StatusOr<std::unique_ptr<BatchSource>> Create(
      std::unique_ptr<DocumentStore> store, const BatchSourceOptions& options);

  // The next batch, or nothing after the last epoch.
  //
  // Errors: those of DocumentSource::Next, Packer::Add and ParityBatcher, with
  // the name of the document, and
  //   INVALID_ARGUMENT  No document of an epoch can be packed (reason
  //                     BATCH_MALFORMED).
  absl::StatusOr<std::optional<SourceBatch>> Next();

  // Where the source stands behind the last batch that Next gave: a JSON text,
  // in practice below 1 KiB, and below 64 KiB with up to 4096 rows a batch.
  std::string State() const;

  // Goes on where `state` was taken, by this source or another one with the
  // same inputs and options (but for epochs). Reads the documents that the
  // packer held again.
  //
  // Errors:
  //   INVALID_ARGUMENT     `state` is none of State's (reason BAD_OPTION).
  //   FAILED_PRECONDITION  Inputs or options are others (CURSOR_MISMATCH).
  absl::Status Restore(absl::string_view state);

  // Of the batches that Next gave.
  const PackCounts& totals() const { return totals_; }
  // Of the documents that were read since Create or Restore.
  PackLosses losses() const;

 private:
  using Batcher = std::variant<Packer, ParityBatcher>;

  // A document that became sequences, and where it was read.
  struct Entry {
    int64_t number = 0;  // Of its first sequence.
    DocumentPlace place;
  };

  static absl::StatusOr<Batcher> MakeBatcher(const BatchSourceOptions& options);

  BatchSource(std::unique_ptr<DocumentSource> source,
              const BatchSourceOptions& options, Batcher batcher);

  absl::Status AddDocument();
  absl::Status EndEpoch();
  PackerPosition position() const;
  void ForgetEntries();

  std::unique_ptr<DocumentSource> source_;
  BatchSourceOptions options_;
  Batcher batcher_;
  std::deque<Entry> entries_;  // Back to the first one that is needed.
  int64_t next_number_ = 0;
  bool epoch_read_ = false;   // All documents of the epoch are in the batcher.
  bool epoch_began_ = false;  // A batch of the epoch was given, maybe earlier.
  PackCounts totals_;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_BATCH_SOURCE_H_
