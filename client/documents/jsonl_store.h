// JSON lines: each line is one document.

#ifndef CPFEED_CLIENT_DOCUMENTS_JSONL_STORE_H_
#define CPFEED_CLIENT_DOCUMENTS_JSONL_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/documents/document_store.h"
#include "client/documents/mapped_file.h"
#include "client/documents/tokenizer.h"

namespace cpfeed {

// A file of lines as json_document.h describes them; blank lines are left out.
// Finds its lines on the way (8 bytes of memory a line): only Count, which a
// shuffled order asks for, reads to the end.
class JsonlStore : public DocumentStore {
 public:
  // `tokenizer`, not null, is for documents that are texts.
  //
  // Errors: those of MappedFile::Open.
  static absl::StatusOr<std::unique_ptr<JsonlStore>> Open(
      const std::string& path, std::shared_ptr<Tokenizer> tokenizer);

  absl::StatusOr<bool> Has(int64_t index) override;
  absl::StatusOr<int64_t> Count() override;
  absl::StatusOr<int64_t> Length(int64_t index) override;
  absl::StatusOr<Document> Read(int64_t index, int64_t begin,
                                int64_t end) override;
  std::string Name(int64_t index) const override;
  uint64_t Fingerprint() const override;

 private:
  struct Line {
    int64_t begin = 0;   // Byte of the file.
    int64_t number = 0;  // From 1, blank lines counted.
  };

  JsonlStore(std::unique_ptr<const MappedFile> file,
             std::shared_ptr<Tokenizer> tokenizer)
      : file_(std::move(file)), tokenizer_(std::move(tokenizer)) {}

  // Finds the next line that is not blank; false at the end of the file.
  bool FindLine();
  absl::string_view LineAt(int64_t begin) const;
  // Parses the document, unless it is the one that was parsed last.
  absl::Status Load(int64_t index);

  std::unique_ptr<const MappedFile> file_;
  std::shared_ptr<Tokenizer> tokenizer_;
  std::vector<Line> lines_;
  int64_t scanned_ = 0;        // Bytes in which all lines are known.
  int64_t scanned_lines_ = 0;  // How many, blank ones too.
  int64_t loaded_index_ = -1;
  Document loaded_;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_JSONL_STORE_H_
