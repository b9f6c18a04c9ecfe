// Hugging Face tokenizers, through Python.

#ifndef CPFEED_CLIENT_DOCUMENTS_PROCESS_TOKENIZER_H_
#define CPFEED_CLIENT_DOCUMENTS_PROCESS_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/documents/child_process.h"
#include "client/documents/tokenizer.h"

namespace cpfeed {

// The tokenizer of a `tokenizer.json`, run by the package `tokenizers` in a
// Python process (tokenize.py). Bytes that are not UTF-8 count as U+FFFD.
class ProcessTokenizer : public Tokenizer {
 public:
  // `python` is the interpreter; see FindPython.
  //
  // Errors:
  //   FAILED_PRECONDITION  There is no such Python, or it lacks the package;
  //                        the message says how to get it.
  //   INVALID_ARGUMENT     The file is no tokenizer.
  //   NOT_FOUND, ...       What the operating system says of the file.
  static absl::StatusOr<std::shared_ptr<Tokenizer>> Start(
      const std::string& tokenizer_json, const std::string& python);

  // Errors:
  //   UNAVAILABLE  The process ended.
  //   INTERNAL     The tokenizer failed on a text; the message says how.
  absl::StatusOr<std::vector<std::vector<int64_t>>> Encode(
      absl::Span<const std::string> texts) override;

  // Of the file's contents.
  uint64_t Fingerprint() const override { return fingerprint_; }

 private:
  ProcessTokenizer(std::unique_ptr<ChildProcess> process, uint64_t fingerprint)
      : process_(std::move(process)), fingerprint_(fingerprint) {}

  // Nothing where the process reports success, else what it says.
  absl::Status ReadOutcome(absl::StatusCode code_of_failure);
  absl::StatusOr<std::vector<int64_t>> ReadIds();

  std::unique_ptr<ChildProcess> process_;
  uint64_t fingerprint_;
};

// The Python of the environment that tools/setup --python makes: bin/python3 in
// .venv-python of the current folder or of the first folder above it, or above
// this program, that has one. Where there is none, "python3".
std::string FindPython();

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_PROCESS_TOKENIZER_H_
