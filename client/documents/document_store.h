// Documents of one input, readable in any order.

#ifndef CPFEED_CLIENT_DOCUMENTS_DOCUMENT_STORE_H_
#define CPFEED_CLIENT_DOCUMENTS_DOCUMENT_STORE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/batch/document.h"

namespace cpfeed {

// Reasons of errors that lie in the input files.
inline constexpr char kInputMalformed[] = "INPUT_MALFORMED";
inline constexpr char kInputChanged[] = "INPUT_CHANGED";

// Documents numbered from 0. Holds no document in memory for longer than it
// takes to read the next one. Not thread-safe.
//
// Errors of all functions:
//   INVALID_ARGUMENT     The input breaks the rules of its format
//                        (INPUT_MALFORMED); the message says where.
//   FAILED_PRECONDITION  The input changed while it was read (INPUT_CHANGED).
//   Others               What the operating system says on reading it.
class DocumentStore {
 public:
  virtual ~DocumentStore() = default;

  // Whether there is a document `index` (at least 0). May have to read the
  // input up to there.
  virtual absl::StatusOr<bool> Has(int64_t index) = 0;

  // How many there are. May have to read all of the input.
  virtual absl::StatusOr<int64_t> Count() = 0;

  // Tokens of a document that is there.
  virtual absl::StatusOr<int64_t> Length(int64_t index) = 0;

  // Its tokens [begin, end), which lie inside; next_token is set unless `end`
  // is the document's end.
  virtual absl::StatusOr<Document> Read(int64_t index, int64_t begin,
                                        int64_t end) = 0;

  // Hint: these documents are read next, in this order.
  virtual void WillRead(absl::Span<const int64_t> indices) {
    static_cast<void>(indices);
  }

  // The document as in error messages: a file, and a place in it.
  virtual std::string Name(int64_t index) const = 0;

  // A digest that differs for other input: of names without folders, and of
  // sizes; not of contents.
  virtual uint64_t Fingerprint() const = 0;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_DOCUMENT_STORE_H_
