// Documents one after the other, epoch by epoch.

#ifndef CPFEED_CLIENT_DOCUMENTS_DOCUMENT_SOURCE_H_
#define CPFEED_CLIENT_DOCUMENTS_DOCUMENT_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/documents/document_store.h"
#include "client/documents/permutation.h"
#include "core/batch/document.h"
#include "core/batch/packer.h"
#include "core/batch/packer_options.h"

namespace cpfeed {

struct DocumentSourceOptions {
  bool shuffle = false;  // Another order in each epoch, by `seed`.
  uint64_t seed = 0;
  int64_t epochs = 1;  // 0: without end.

  // Longer documents are refused, dropped (and counted), or come in pieces of
  // this many tokens. So no document is ever whole in memory that is too long.
  int64_t max_tokens = 0;  // At least 1.
  LongDocuments long_documents = LongDocuments::kRefuse;
};

// A place in the epochs of a source.
struct DocumentPlace {
  int64_t epoch = 0;     // From 0.
  int64_t position = 0;  // Documents before it in the epoch's order.
  int64_t piece = 0;     // Pieces before it of that document.
};

// Reads a store's documents in their order or a shuffled one. Not thread-safe.
class DocumentSource {
 public:
  // Errors:
  //   INVALID_ARGUMENT  An option is out of its range (reason BAD_OPTION).
  static absl::StatusOr<std::unique_ptr<DocumentSource>> Create(
      std::unique_ptr<DocumentStore> store,
      const DocumentSourceOptions& options);

  // The next document of the epoch, or a piece of one (Document::next_token
  // says that more follows). Nothing at the end of the epoch.
  //
  // Errors: those of DocumentStore, and
  //   INVALID_ARGUMENT  A document is too long (reason BATCH_TOO_LARGE; the
  //                     message has its name and both lengths).
  absl::StatusOr<std::optional<Document>> Next();

  // Begins the next epoch; false, and nothing is changed, after the last one.
  bool NextEpoch();

  // The place of the document that Next gave last, as in error messages.
  std::string LastName() const;

  // Where the source stands.
  const DocumentPlace& place() const { return place_; }
  // A place for Restore in another process: a JSON text of less than 300 bytes.
  std::string StateAt(const DocumentPlace& place) const;

  // Goes to the place of `state`; in constant time, but for stores that find
  // their documents on the way.
  //
  // Errors:
  //   INVALID_ARGUMENT     `state` is none of StateAt's (reason BAD_OPTION).
  //   FAILED_PRECONDITION  The inputs, the order or max_tokens are others
  //                        (CURSOR_MISMATCH; the message has both).
  absl::Status Restore(absl::string_view state);

  const PackLosses& losses() const { return losses_; }

 private:
  DocumentSource(std::unique_ptr<DocumentStore> store,
                 const DocumentSourceOptions& options)
      : store_(std::move(store)),
        options_(options),
        fingerprint_(store_->Fingerprint()) {}

  // Whether there is a document at `position` of the epoch's order.
  absl::StatusOr<bool> HasAt(int64_t position);
  int64_t IndexAt(int64_t position) const;
  absl::Status PrepareOrder();
  absl::Status GiveHint();
  // False where the document is left out.
  absl::StatusOr<bool> Accept(int64_t index, int64_t length);
  absl::StatusOr<std::optional<Document>> ReadPiece(int64_t index,
                                                    int64_t length);

  std::unique_ptr<DocumentStore> store_;
  DocumentSourceOptions options_;

  uint64_t fingerprint_;
  DocumentPlace place_;
  std::optional<Permutation> order_;  // Of this epoch, when shuffled.
  int64_t hinted_ = 0;                // The store was told of those below.
  std::optional<int64_t> last_index_;
  PackLosses losses_;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_DOCUMENT_SOURCE_H_
