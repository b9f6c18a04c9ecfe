// Batches in the parity modes.

#ifndef CPFEED_CLIENT_DOCUMENTS_PARITY_BATCHER_H_
#define CPFEED_CLIENT_DOCUMENTS_PARITY_BATCHER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/batch/document.h"
#include "core/batch/packer.h"
#include "core/batch/packer_options.h"
#include "core/batch/packer_rows.h"
#include "core/batch/parity.h"
#include "core/batch/parity_pack.h"

namespace cpfeed {

// What Packer is natively: documents in, batches of rows out, by ParityPacker.
// The last batch before a flush has fewer rows, or is dropped.
class ParityBatcher {
 public:
  // Of `options` these count: row_width, rows, padding_token_id, end_token_id,
  // last_batch, and long_documents, which is kDrop or kRefuse.
  //
  // Errors:
  //   INVALID_ARGUMENT  As ValidatePackOptions and ParityPacker::Create say, or
  //                     long documents are to be cut (reason BAD_OPTION).
  static absl::StatusOr<ParityBatcher> Create(const PackOptions& options,
                                              int64_t cp_size, Parity parity);

  // As Packer's, but Next must be asked until it gives nothing before another
  // document is added. Returns 1.
  //
  // Errors: those of ParityPacker::Add.
  absl::StatusOr<int64_t> Add(Document document);

  // Errors: those of ParityPacker::Finish, unless batches were made of the
  // documents before Restore.
  absl::Status Flush();

  std::optional<PackedRows> Next();
  PackerPosition position() const { return {.next = first_needed_}; }
  void Restore(const PackerPosition& position);
  const PackLosses& losses() const { return losses_; }

 private:
  ParityBatcher(const PackOptions& options,
                const ParityPackOptions& parity_options, Parity parity,
                ParityPacker packer);

  PackOptions options_;
  ParityPackOptions parity_options_;
  Parity parity_;
  ParityPacker packer_;
  PackLosses losses_;
  int64_t next_number_ = 0;
  int64_t first_open_ = 0;    // First document of the pack that is open.
  int64_t first_needed_ = 0;  // First document that no taken batch holds.
  bool flushing_ = false;
  bool restored_ = false;          // And not flushed since.
  std::vector<ParityPack> packs_;  // Closed, not taken.
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_PARITY_BATCHER_H_
