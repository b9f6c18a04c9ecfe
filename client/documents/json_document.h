// One document as a line of JSON.

#ifndef CPFEED_CLIENT_DOCUMENTS_JSON_DOCUMENT_H_
#define CPFEED_CLIENT_DOCUMENTS_JSON_DOCUMENT_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/batch/document.h"

namespace cpfeed {

// A document with its tokens, or with a text that is still to be tokenized.
struct JsonDocument {
  Document document;
  std::optional<std::string> text;  // Where there are no tokens.
};

// Reads one of
//   [5, 6, 7]
//   {"input_ids": [5, 6, 7]}, also under the name "tokens"; optional "labels"
//     (already shifted) and "loss_mask" of the same length
//   {"text": "..."}
// Other keys are ignored, but for an "attention_mask", which must be all ones.
// Where there are tokens a text is ignored.
//
// Errors:
//   INVALID_ARGUMENT  This is no JSON, has none of these forms, or a token is
//                     no integer in [0, 2^63) (labels in [-2^63, 2^63)); reason
//                     INPUT_MALFORMED.
absl::StatusOr<JsonDocument> ParseJsonDocument(absl::string_view line);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_JSON_DOCUMENT_H_
