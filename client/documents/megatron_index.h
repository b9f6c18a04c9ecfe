// The index file (.idx) of Megatron's indexed datasets.

#ifndef CPFEED_CLIENT_DOCUMENTS_MEGATRON_INDEX_H_
#define CPFEED_CLIENT_DOCUMENTS_MEGATRON_INDEX_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/documents/integer_array.h"

namespace cpfeed {

// A view of an index. All of it is little-endian and not aligned:
//   9 bytes "MMIDIDX\0\0", uint64 version 1, uint8 code of the token type,
//   uint64 number of sequences, uint64 number of entries of the document index
//   int32 [sequences]   tokens of each sequence
//   int64 [sequences]   byte of the .bin file at which it begins
//   int64 [documents + 1]  first sequence of each document, and the end
//   int8 [sequences]    a mode of each sequence; optional, not used
// A document is its sequences behind each other.
class MegatronIndex {
 public:
  // `contents` outlives the index; `bin_size` is the size of the .bin file in
  // bytes. Everything is checked here, so what the functions below return lies
  // inside the files.
  //
  // Errors:
  //   INVALID_ARGUMENT  The rules above are broken, a sequence lies outside the
  //                     .bin file, or the tokens are floats (reason
  //                     INPUT_MALFORMED; the message names the sequence).
  static absl::StatusOr<MegatronIndex> Parse(absl::string_view contents,
                                             int64_t bin_size);

  IntegerType type() const { return type_; }
  int64_t num_sequences() const { return num_sequences_; }
  int64_t num_documents() const { return num_documents_; }

  int64_t SequenceLength(int64_t sequence) const;  // Tokens.
  int64_t SequenceOffset(int64_t sequence) const;  // Bytes.
  // `document` may be num_documents: the end of the last one.
  int64_t FirstSequence(int64_t document) const;

 private:
  absl::Status CheckSequences(int64_t bin_size) const;
  absl::Status CheckDocuments() const;

  absl::string_view lengths_, offsets_, first_sequences_;
  IntegerType type_ = IntegerType::kInt32;
  int64_t num_sequences_ = 0;
  int64_t num_documents_ = 0;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_MEGATRON_INDEX_H_
