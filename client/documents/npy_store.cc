#include "client/documents/npy_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/documents/integer_array.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// Tokens in which ends of documents are looked for at once.
constexpr int64_t kScannedTogether = 1 << 14;

}  // namespace

absl::StatusOr<std::unique_ptr<NpyStore>> NpyStore::Open(
    const std::string& path, std::optional<int64_t> end_token_id) {
  CF_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  absl::StatusOr<NpyHeader> header = ParseNpyHeader(file->contents());
  if (!header.ok()) return Annotate(header.status(), path);
  return std::unique_ptr<NpyStore>(
      new NpyStore(std::move(file), *std::move(header), end_token_id));
}

NpyStore::NpyStore(std::unique_ptr<const MappedFile> file, NpyHeader header,
                   std::optional<int64_t> end_token_id)
    : file_(std::move(file)),
      header_(std::move(header)),
      end_token_id_(end_token_id) {}

absl::Status NpyStore::AppendTo(std::vector<int64_t>& out, int64_t begin,
                                int64_t count) const {
  const absl::Status status = AppendTokens(
      file_->contents(), header_.type,
      header_.data_offset + begin * IntegerSize(header_.type), count, out);
  return Annotate(status, absl::StrCat(file_->path(), " from token ", begin));
}

absl::Status NpyStore::Scan() {
  const int64_t size = header_.shape[0];
  const int64_t count =
      end_token_id_ ? std::min(kScannedTogether, size - scanned_) : size;
  if (end_token_id_) {
    std::vector<int64_t> tokens;
    CF_RETURN_IF_ERROR(AppendTo(tokens, scanned_, count));
    for (int64_t i = 0; i < count; ++i) {
      if (tokens[i] == *end_token_id_) ends_.push_back(scanned_ + i + 1);
    }
  }
  scanned_ += count;
  if (scanned_ == size && (ends_.empty() || ends_.back() < size)) {
    ends_.push_back(size);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> NpyStore::Has(int64_t index) {
  if (!IsStream()) return index < header_.shape[0];
  while (index >= static_cast<int64_t>(ends_.size())) {
    if (scanned_ == header_.shape[0]) return false;
    CF_RETURN_IF_ERROR(Scan());
  }
  return true;
}

absl::StatusOr<int64_t> NpyStore::Count() {
  if (!IsStream()) return header_.shape[0];
  while (scanned_ < header_.shape[0]) CF_RETURN_IF_ERROR(Scan());
  return static_cast<int64_t>(ends_.size());
}

int64_t NpyStore::Begin(int64_t index) const {
  if (!IsStream()) return index * header_.shape[1];
  return index == 0 ? 0 : ends_[index - 1];
}

absl::StatusOr<int64_t> NpyStore::Length(int64_t index) {
  return IsStream() ? ends_[index] - Begin(index) : header_.shape[1];
}

absl::StatusOr<Document> NpyStore::Read(int64_t index, int64_t begin,
                                        int64_t end) {
  CF_ASSIGN_OR_RETURN(const int64_t length, Length(index));
  const bool whole = end == length;
  Document document;
  CF_RETURN_IF_ERROR(AppendTo(document.input_ids, Begin(index) + begin,
                              end - begin + (whole ? 0 : 1)));
  if (!whole) {
    document.next_token = document.input_ids.back();
    document.input_ids.pop_back();
  }
  return document;
}

std::string NpyStore::Name(int64_t index) const {
  return absl::StrCat(file_->path(), IsStream() ? " document " : " row ",
                      index);
}

uint64_t NpyStore::Fingerprint() const {
  DigestBuilder digest;
  digest.UpdateInt64({static_cast<int64_t>(file_->Fingerprint()),
                      end_token_id_.has_value(), end_token_id_.value_or(0)});
  return digest.Finish();
}

}  // namespace cpfeed
