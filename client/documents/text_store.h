// Text files: each file is one document.

#ifndef CPFEED_CLIENT_DOCUMENTS_TEXT_STORE_H_
#define CPFEED_CLIENT_DOCUMENTS_TEXT_STORE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/documents/document_store.h"
#include "client/documents/tokenizer.h"

namespace cpfeed {

// Files with byte-level tokens (a token a byte), or by a tokenizer, which takes
// a file as a whole.
class TextStore : public DocumentStore {
 public:
  // Files as tokenizers get them are at most this long, in bytes.
  static constexpr int64_t kMaxTokenizedBytes = int64_t{256} << 20;

  // Without `tokenizer`: byte-level tokens. The paths stay in their order.
  //
  // Errors:
  //   NOT_FOUND, ...    What the operating system says of a file.
  //   INVALID_ARGUMENT  A path is no regular file.
  static absl::StatusOr<std::unique_ptr<TextStore>> Open(
      std::vector<std::string> paths, std::shared_ptr<Tokenizer> tokenizer);

  absl::StatusOr<bool> Has(int64_t index) override;
  absl::StatusOr<int64_t> Count() override;
  absl::StatusOr<int64_t> Length(int64_t index) override;
  absl::StatusOr<Document> Read(int64_t index, int64_t begin,
                                int64_t end) override;
  void WillRead(absl::Span<const int64_t> indices) override;
  std::string Name(int64_t index) const override;
  uint64_t Fingerprint() const override;

 private:
  struct File {
    std::string path;
    int64_t size = 0;  // Bytes.
  };

  TextStore(std::vector<File> files, std::shared_ptr<Tokenizer> tokenizer)
      : files_(std::move(files)), tokenizer_(std::move(tokenizer)) {}

  // Bytes [begin, end) of a file.
  absl::StatusOr<std::string> ReadBytes(int64_t index, int64_t begin,
                                        int64_t end) const;
  absl::StatusOr<const std::vector<int64_t>*> Tokens(int64_t index);
  absl::Status Tokenize(int64_t index);

  std::vector<File> files_;
  std::shared_ptr<Tokenizer> tokenizer_;  // Null for byte-level tokens.
  std::deque<int64_t> upcoming_;          // To be tokenized in one go.
  std::map<int64_t, std::vector<int64_t>> tokens_;  // Of some documents.
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_TEXT_STORE_H_
