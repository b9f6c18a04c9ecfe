#include "client/documents/megatron_store.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/documents/integer_array.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {

absl::StatusOr<std::unique_ptr<MegatronStore>> MegatronStore::Open(
    const std::string& prefix) {
  CF_ASSIGN_OR_RETURN(auto idx, MappedFile::Open(prefix + ".idx"));
  CF_ASSIGN_OR_RETURN(auto bin, MappedFile::Open(prefix + ".bin"));
  absl::StatusOr<MegatronIndex> index =
      MegatronIndex::Parse(idx->contents(), bin->size());
  if (!index.ok()) return Annotate(index.status(), idx->path());
  return std::unique_ptr<MegatronStore>(
      new MegatronStore(std::move(idx), std::move(bin), *std::move(index)));
}

absl::StatusOr<bool> MegatronStore::Has(int64_t index) {
  return index < index_.num_documents();
}

absl::StatusOr<int64_t> MegatronStore::Count() {
  return index_.num_documents();
}

absl::StatusOr<int64_t> MegatronStore::Length(int64_t index) {
  int64_t length = 0;  // At most 2^31 for each of the sequences.
  for (int64_t s = index_.FirstSequence(index);
       s < index_.FirstSequence(index + 1); ++s) {
    length += index_.SequenceLength(s);
  }
  return length;
}

absl::StatusOr<Document> MegatronStore::Read(int64_t index, int64_t begin,
                                             int64_t end) {
  CF_ASSIGN_OR_RETURN(const int64_t length, Length(index));
  const int64_t read_end = std::min(end + 1, length);
  Document document;
  int64_t sequence_begin = 0;  // In tokens of the document.
  for (int64_t s = index_.FirstSequence(index);
       s < index_.FirstSequence(index + 1); ++s) {
    const int64_t sequence_end = sequence_begin + index_.SequenceLength(s);
    const int64_t from = std::max(begin, sequence_begin);
    const int64_t to = std::min(read_end, sequence_end);
    if (from < to) {
      const absl::Status status =
          AppendTokens(bin_->contents(), index_.type(),
                       index_.SequenceOffset(s) +
                           (from - sequence_begin) * IntegerSize(index_.type()),
                       to - from, document.input_ids);
      if (!status.ok()) {
        return Annotate(status,
                        absl::StrCat(Name(index), " from token ", from));
      }
    }
    sequence_begin = sequence_end;
  }
  if (end < length) {
    document.next_token = document.input_ids.back();
    document.input_ids.pop_back();
  }
  return document;
}

std::string MegatronStore::Name(int64_t index) const {
  return absl::StrCat(bin_->path(), " document ", index);
}

uint64_t MegatronStore::Fingerprint() const {
  DigestBuilder digest;
  digest.UpdateInt64({static_cast<int64_t>(idx_->Fingerprint()),
                      static_cast<int64_t>(bin_->Fingerprint())});
  return digest.Finish();
}

}  // namespace cpfeed
