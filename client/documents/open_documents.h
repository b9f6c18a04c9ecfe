// From paths to documents: which format a file is in.

#ifndef CPFEED_CLIENT_DOCUMENTS_OPEN_DOCUMENTS_H_
#define CPFEED_CLIENT_DOCUMENTS_OPEN_DOCUMENTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/documents/document_store.h"
#include "client/documents/tokenizer.h"

namespace cpfeed {

enum class DocumentFormat : int8_t { kAuto, kText, kJsonl, kNpy, kMegatron };

// "auto", "text", "jsonl", "npy", "megatron".
absl::string_view DocumentFormatName(DocumentFormat format);

// Errors:
//   INVALID_ARGUMENT  `name` is no format; the message lists them.
absl::StatusOr<DocumentFormat> ParseDocumentFormat(absl::string_view name);

struct DocumentInputs {
  // Files, folders, or for Megatron datasets the name without .bin and .idx.
  std::vector<std::string> paths;
  DocumentFormat format = DocumentFormat::kAuto;
  // For texts; null: byte-level tokens.
  std::shared_ptr<Tokenizer> tokenizer;
  // Where the documents of a one-dimensional NumPy array end.
  std::optional<int64_t> end_token_id;
};

// Opens all inputs, in their order. With kAuto a file's format is that of its
// ending (.jsonl, .npy, .bin or .idx; else text) and a folder is one of text
// files. Of a folder all files of the format are taken, at any depth, by path;
// names that begin with a dot are left out, and with text also files that do
// not look like text (see list_files.h).
//
// Errors:
//   INVALID_ARGUMENT  There is no input, a folder has no such file, or a file
//                     is not in its format.
//   NOT_FOUND, ...    What the operating system says of a path.
absl::StatusOr<std::unique_ptr<DocumentStore>> OpenDocuments(
    const DocumentInputs& inputs);

// Whether the documents' tokens are bytes: texts without a tokenizer, by path
// and format.
bool HasByteTokens(const DocumentInputs& inputs);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_OPEN_DOCUMENTS_H_
