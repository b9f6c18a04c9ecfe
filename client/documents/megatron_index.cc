#include "client/documents/megatron_index.h"

#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/documents/document_store.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

constexpr absl::string_view kMagic("MMIDIDX\0\0", 9);
constexpr int64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;

absl::Status Malformed(absl::string_view message) {
  return InvalidArgument(kInputMalformed, message);
}

template <class T>
T Load(absl::string_view bytes, int64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <class T>
int64_t Entry(absl::string_view array, int64_t index) {
  return static_cast<int64_t>(
      Load<T>(array, index * static_cast<int64_t>(sizeof(T))));
}

absl::StatusOr<IntegerType> TypeOfCode(int code) {
  switch (code) {
    case 1:
      return IntegerType::kUint8;
    case 2:
      return IntegerType::kInt8;
    case 3:
      return IntegerType::kInt16;
    case 4:
      return IntegerType::kInt32;
    case 5:
      return IntegerType::kInt64;
    case 8:
      return IntegerType::kUint16;
    default:
      return Malformed(absl::StrCat("token type has the code ", code,
                                    "; must be that of an integer: 1, 2, 3, "
                                    "4, 5 or 8"));
  }
}

// Bytes of the three arrays, or nothing where that overflows.
std::optional<int64_t> ArrayBytes(uint64_t sequences, uint64_t entries) {
  if (sequences >> 62 != 0 || entries >> 62 != 0) return std::nullopt;
  const auto a = CheckedMul(static_cast<int64_t>(sequences), 4 + 8);
  const auto b = CheckedMul(static_cast<int64_t>(entries), 8);
  return a && b ? CheckedAdd(*a, *b) : std::nullopt;
}

}  // namespace

absl::StatusOr<MegatronIndex> MegatronIndex::Parse(absl::string_view contents,
                                                   int64_t bin_size) {
  const auto size = static_cast<int64_t>(contents.size());
  if (size < kHeaderBytes || !absl::StartsWith(contents, kMagic)) {
    return Malformed("file does not begin as the index of a Megatron dataset");
  }
  const auto version = Load<uint64_t>(contents, 9);
  if (version != 1) {
    return Malformed(
        absl::StrCat("index is of version ", version, "; must be 1"));
  }
  MegatronIndex index;
  CF_ASSIGN_OR_RETURN(index.type_, TypeOfCode(Load<uint8_t>(contents, 17)));
  const auto sequences = Load<uint64_t>(contents, 18);
  const auto entries = Load<uint64_t>(contents, 26);
  const std::optional<int64_t> bytes = ArrayBytes(sequences, entries);
  const int64_t available = size - kHeaderBytes;
  // With or without the modes.
  if (!bytes || (available != *bytes &&
                 available - *bytes != static_cast<int64_t>(sequences))) {
    return Malformed(absl::StrCat(
        "index of ", sequences, " sequences and ", entries,
        " entries of documents must have ",
        bytes ? absl::StrCat(*bytes) : "over 2^63",
        " bytes behind its header, or one more for each sequence; file has ",
        available));
  }
  if (entries == 0) {
    return Malformed("document index has 0 entries; must have at least 1");
  }
  index.num_sequences_ = static_cast<int64_t>(sequences);
  index.num_documents_ = static_cast<int64_t>(entries) - 1;
  index.lengths_ = contents.substr(kHeaderBytes, 4 * sequences);
  index.offsets_ = contents.substr(kHeaderBytes + 4 * sequences, 8 * sequences);
  index.first_sequences_ =
      contents.substr(kHeaderBytes + 12 * sequences, 8 * entries);
  CF_RETURN_IF_ERROR(index.CheckSequences(bin_size));
  CF_RETURN_IF_ERROR(index.CheckDocuments());
  return index;
}

absl::Status MegatronIndex::CheckSequences(int64_t bin_size) const {
  for (int64_t i = 0; i < num_sequences_; ++i) {
    const int64_t length = SequenceLength(i), offset = SequenceOffset(i);
    const int64_t bytes = length * IntegerSize(type_);  // Below 2^34.
    if (length < 0 || offset < 0 || offset > bin_size ||
        bytes > bin_size - offset) {
      return Malformed(absl::StrCat(
          "sequence ", i, " has ", length, " tokens from byte ", offset,
          "; must lie inside the ", bin_size, " bytes of the .bin file"));
    }
  }
  return absl::OkStatus();
}

absl::Status MegatronIndex::CheckDocuments() const {
  int64_t previous = 0;
  for (int64_t d = 0; d <= num_documents_; ++d) {
    const int64_t first = FirstSequence(d);
    const bool bound = (d == 0 && first != 0) ||
                       (d == num_documents_ && first != num_sequences_);
    if (bound || first < previous || first > num_sequences_) {
      return Malformed(absl::StrCat(
          "document index [", d, "] is ", first,
          "; must go from 0 to num_sequences = ", num_sequences_,
          " and not decrease (the entry before is ", previous, ")"));
    }
    previous = first;
  }
  return absl::OkStatus();
}

int64_t MegatronIndex::SequenceLength(int64_t sequence) const {
  return Entry<int32_t>(lengths_, sequence);
}

int64_t MegatronIndex::SequenceOffset(int64_t sequence) const {
  return Entry<int64_t>(offsets_, sequence);
}

int64_t MegatronIndex::FirstSequence(int64_t document) const {
  return Entry<int64_t>(first_sequences_, document);
}

}  // namespace cpfeed
