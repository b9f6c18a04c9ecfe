#include "client/documents/document_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/checked_math.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

using Json = nlohmann::json;

// As many documents are announced to the store at once.
constexpr int64_t kHintedTogether = 256;

uint64_t SeedOfEpoch(uint64_t seed, int64_t epoch) {
  DigestBuilder digest;
  digest.UpdateInt64({static_cast<int64_t>(seed), epoch});
  return digest.Finish();
}

absl::Status BadState(absl::string_view message) {
  return InvalidArgument(kBadOption, message);
}

absl::StatusOr<int64_t> CountIn(const Json& state, const char* name) {
  const auto found = state.find(name);
  if (found == state.end() || !found->is_number_integer() ||
      (found->is_number_unsigned() && found->get<uint64_t>() >> 63 != 0) ||
      found->get<int64_t>() < 0) {
    return BadState(absl::StrCat("state of documents has no ", name,
                                 " that is an integer in [0, 2^63)"));
  }
  return found->get<int64_t>();
}

// Checks that what the state was taken with is what we have.
absl::Status ExpectSame(const Json& state, const char* name, const Json& ours) {
  const auto found = state.find(name);
  if (found == state.end()) {
    return BadState(absl::StrCat("state of documents has no ", name));
  }
  if (*found == ours) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition, kCursorMismatch,
      absl::StrCat("state was taken with ", name, " = ", found->dump(),
                   "; must be ", ours.dump(), " as here"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DocumentSource>> DocumentSource::Create(
    std::unique_ptr<DocumentStore> store,
    const DocumentSourceOptions& options) {
  if (options.epochs < 0) {
    return InvalidArgument(
        kBadOption,
        absl::StrCat("epochs is ", options.epochs, "; must be at least 0"));
  }
  if (options.max_tokens < 1) {
    return InvalidArgument(kBadOption,
                           absl::StrCat("max_tokens is ", options.max_tokens,
                                        "; must be at least 1"));
  }
  return std::unique_ptr<DocumentSource>(
      new DocumentSource(std::move(store), options));
}

absl::Status DocumentSource::PrepareOrder() {
  if (order_) return absl::OkStatus();
  CF_ASSIGN_OR_RETURN(const int64_t count, store_->Count());
  if (count > 0)
    order_.emplace(count, SeedOfEpoch(options_.seed, place_.epoch));
  return absl::OkStatus();
}

absl::StatusOr<bool> DocumentSource::HasAt(int64_t position) {
  if (!options_.shuffle) return store_->Has(position);
  CF_RETURN_IF_ERROR(PrepareOrder());
  CF_ASSIGN_OR_RETURN(const int64_t count, store_->Count());
  return position < count;
}

int64_t DocumentSource::IndexAt(int64_t position) const {
  return options_.shuffle ? order_->At(position) : position;
}

absl::Status DocumentSource::GiveHint() {
  if (place_.position < hinted_) return absl::OkStatus();
  std::vector<int64_t> indices;
  for (hinted_ = place_.position; hinted_ < place_.position + kHintedTogether;
       ++hinted_) {
    CF_ASSIGN_OR_RETURN(const bool has, HasAt(hinted_));
    if (!has) break;
    indices.push_back(IndexAt(hinted_));
  }
  store_->WillRead(indices);
  return absl::OkStatus();
}

absl::StatusOr<bool> DocumentSource::Accept(int64_t index, int64_t length) {
  if (length <= options_.max_tokens) return true;
  switch (options_.long_documents) {
    case LongDocuments::kCut:
      if (place_.piece == 0) ++losses_.cut_documents;
      return true;
    case LongDocuments::kDrop:
      ++losses_.dropped_documents;
      losses_.dropped_tokens += length;
      return false;
    case LongDocuments::kRefuse:
      return InvalidArgument(
          kBatchTooLarge,
          absl::StrCat(store_->Name(index), ": document has ", length,
                       " tokens; must be at most ", options_.max_tokens,
                       ", unless long documents are dropped or cut"));
  }
  CF_CHECK(false);
}

absl::StatusOr<std::optional<Document>> DocumentSource::ReadPiece(
    int64_t index, int64_t length) {
  const std::optional<int64_t> begin =
      CheckedMul(place_.piece, options_.max_tokens);
  if (!begin || *begin > length || (place_.piece > 0 && *begin == length)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, kCursorMismatch,
                     absl::StrCat("state is at piece ", place_.piece, " of ",
                                  store_->Name(index), ", which has only ",
                                  length, " tokens"));
  }
  const int64_t end = *begin + std::min(options_.max_tokens, length - *begin);
  absl::StatusOr<Document> document = store_->Read(index, *begin, end);
  if (!document.ok()) return document.status();
  if (end == length) {
    ++place_.position;
    place_.piece = 0;
  } else {
    ++place_.piece;
  }
  return std::optional<Document>(*std::move(document));
}

absl::StatusOr<std::optional<Document>> DocumentSource::Next() {
  while (true) {
    CF_ASSIGN_OR_RETURN(const bool has, HasAt(place_.position));
    if (!has) return std::optional<Document>();
    CF_RETURN_IF_ERROR(GiveHint());
    const int64_t index = IndexAt(place_.position);
    CF_ASSIGN_OR_RETURN(const int64_t length, store_->Length(index));
    CF_ASSIGN_OR_RETURN(const bool accepted, Accept(index, length));
    if (!accepted) {
      ++place_.position;
      continue;
    }
    last_index_ = index;
    return ReadPiece(index, length);
  }
}

bool DocumentSource::NextEpoch() {
  if (options_.epochs != 0 && place_.epoch + 1 >= options_.epochs) return false;
  ++place_.epoch;
  place_.position = place_.piece = hinted_ = 0;
  order_.reset();
  return true;
}

std::string DocumentSource::LastName() const {
  return last_index_ ? store_->Name(*last_index_) : "before the first document";
}

std::string DocumentSource::StateAt(const DocumentPlace& place) const {
  return Json({{"version", 1},
               {"inputs", absl::StrCat(absl::Hex(fingerprint_))},
               {"shuffle", options_.shuffle},
               {"seed", options_.seed},
               {"max_tokens", options_.max_tokens},
               {"epoch", place.epoch},
               {"position", place.position},
               {"piece", place.piece}})
      .dump();
}

absl::Status DocumentSource::Restore(absl::string_view state) {
  const Json json = Json::parse(state.begin(), state.end(), nullptr,
                                /*allow_exceptions=*/false);
  if (!json.is_object())
    return BadState("state of documents is no JSON object");
  CF_RETURN_IF_ERROR(ExpectSame(json, "version", 1));
  CF_RETURN_IF_ERROR(
      ExpectSame(json, "inputs", absl::StrCat(absl::Hex(fingerprint_))));
  CF_RETURN_IF_ERROR(ExpectSame(json, "shuffle", options_.shuffle));
  if (options_.shuffle) {
    CF_RETURN_IF_ERROR(ExpectSame(json, "seed", options_.seed));
  }
  CF_RETURN_IF_ERROR(ExpectSame(json, "max_tokens", options_.max_tokens));
  CF_ASSIGN_OR_RETURN(const int64_t epoch, CountIn(json, "epoch"));
  CF_ASSIGN_OR_RETURN(const int64_t position, CountIn(json, "position"));
  CF_ASSIGN_OR_RETURN(const int64_t piece, CountIn(json, "piece"));
  place_.epoch = epoch;
  place_.position = position;
  place_.piece = piece;
  hinted_ = 0;
  order_.reset();
  last_index_.reset();
  return absl::OkStatus();
}

}  // namespace cpfeed
