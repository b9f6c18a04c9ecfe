#include "client/documents/jsonl_store.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/documents/json_document.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

std::vector<int64_t> Slice(const std::vector<int64_t>& values, int64_t begin,
                           int64_t end) {
  return std::vector<int64_t>(values.begin() + begin, values.begin() + end);
}

}  // namespace

absl::StatusOr<std::unique_ptr<JsonlStore>> JsonlStore::Open(
    const std::string& path, std::shared_ptr<Tokenizer> tokenizer) {
  CF_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  return std::unique_ptr<JsonlStore>(
      new JsonlStore(std::move(file), std::move(tokenizer)));
}

absl::string_view JsonlStore::LineAt(int64_t begin) const {
  const absl::string_view rest = file_->contents().substr(begin);
  return rest.substr(0, rest.find('\n'));
}

bool JsonlStore::FindLine() {
  while (scanned_ < file_->size()) {
    const int64_t begin = scanned_;
    const absl::string_view line = LineAt(begin);
    scanned_ += static_cast<int64_t>(line.size()) + 1;
    ++scanned_lines_;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    lines_.push_back({begin, scanned_lines_});
    return true;
  }
  return false;
}

absl::StatusOr<bool> JsonlStore::Has(int64_t index) {
  while (index >= static_cast<int64_t>(lines_.size())) {
    if (!FindLine()) return false;
  }
  return true;
}

absl::StatusOr<int64_t> JsonlStore::Count() {
  while (FindLine()) {
  }
  return static_cast<int64_t>(lines_.size());
}

absl::Status JsonlStore::Load(int64_t index) {
  if (index == loaded_index_) return absl::OkStatus();
  absl::StatusOr<JsonDocument> parsed =
      ParseJsonDocument(LineAt(lines_[index].begin));
  if (!parsed.ok()) return Annotate(parsed.status(), Name(index));
  if (parsed->text) {
    CF_ASSIGN_OR_RETURN(auto encoded, tokenizer_->Encode({*parsed->text}));
    parsed->document.input_ids = std::move(encoded.front());
  }
  loaded_ = std::move(parsed->document);
  loaded_index_ = index;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> JsonlStore::Length(int64_t index) {
  CF_RETURN_IF_ERROR(Load(index));
  return static_cast<int64_t>(loaded_.input_ids.size());
}

absl::StatusOr<Document> JsonlStore::Read(int64_t index, int64_t begin,
                                          int64_t end) {
  CF_RETURN_IF_ERROR(Load(index));
  Document document;
  document.input_ids = Slice(loaded_.input_ids, begin, end);
  if (loaded_.labels) document.labels = Slice(*loaded_.labels, begin, end);
  if (loaded_.loss_mask) {
    document.loss_mask = Slice(*loaded_.loss_mask, begin, end);
  }
  if (end < static_cast<int64_t>(loaded_.input_ids.size())) {
    document.next_token = loaded_.input_ids[end];
  }
  return document;
}

std::string JsonlStore::Name(int64_t index) const {
  return absl::StrCat(file_->path(), " line ", lines_[index].number);
}

uint64_t JsonlStore::Fingerprint() const {
  DigestBuilder digest;
  digest.UpdateInt64({static_cast<int64_t>(file_->Fingerprint()),
                      static_cast<int64_t>(tokenizer_->Fingerprint())});
  return digest.Finish();
}

}  // namespace cpfeed
