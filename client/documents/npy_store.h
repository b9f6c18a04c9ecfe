// NumPy arrays of token ids.

#ifndef CPFEED_CLIENT_DOCUMENTS_NPY_STORE_H_
#define CPFEED_CLIENT_DOCUMENTS_NPY_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/documents/document_store.h"
#include "client/documents/mapped_file.h"
#include "client/documents/npy_header.h"

namespace cpfeed {

// An .npy file. Of a two-dimensional array every row is a document. A
// one-dimensional one is a stream of tokens: a document ends behind each
// `end_token_id` (and at the end of the stream), or it is one document where
// no such id is given. Finds the documents of a stream on the way (8 bytes of
// memory each).
class NpyStore : public DocumentStore {
 public:
  // Errors: those of MappedFile::Open and ParseNpyHeader.
  static absl::StatusOr<std::unique_ptr<NpyStore>> Open(
      const std::string& path, std::optional<int64_t> end_token_id);

  absl::StatusOr<bool> Has(int64_t index) override;
  absl::StatusOr<int64_t> Count() override;
  absl::StatusOr<int64_t> Length(int64_t index) override;
  absl::StatusOr<Document> Read(int64_t index, int64_t begin,
                                int64_t end) override;
  std::string Name(int64_t index) const override;
  uint64_t Fingerprint() const override;

 private:
  NpyStore(std::unique_ptr<const MappedFile> file, NpyHeader header,
           std::optional<int64_t> end_token_id);

  bool IsStream() const { return header_.shape.size() == 1; }
  // Looks for the ends of documents in the next part of a stream.
  absl::Status Scan();
  absl::Status AppendTo(std::vector<int64_t>& out, int64_t begin,
                        int64_t count) const;
  int64_t Begin(int64_t index) const;  // In tokens of the array.

  std::unique_ptr<const MappedFile> file_;
  NpyHeader header_;
  std::optional<int64_t> end_token_id_;
  std::vector<int64_t> ends_;  // Of the documents of a stream.
  int64_t scanned_ = 0;        // Tokens of it in which all ends are known.
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_NPY_STORE_H_
