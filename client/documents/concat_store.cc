#include "client/documents/concat_store.h"

#include <algorithm>

#include "core/base/digest.h"
#include "core/base/status_macros.h"

namespace cpfeed {

absl::StatusOr<bool> ConcatStore::Has(int64_t index) {
  // A store is counted only when something behind it is asked for.
  for (size_t i = 0; i < stores_.size(); ++i) {
    if (i + 1 < begins_.size() && index >= begins_[i + 1]) continue;
    CF_ASSIGN_OR_RETURN(const bool has, stores_[i]->Has(index - begins_[i]));
    if (has) return true;
    if (i + 1 == begins_.size()) {
      CF_ASSIGN_OR_RETURN(const int64_t count, stores_[i]->Count());
      begins_.push_back(begins_[i] + count);
    }
  }
  return false;
}

absl::StatusOr<int64_t> ConcatStore::Count() {
  for (size_t i = begins_.size() - 1; i < stores_.size(); ++i) {
    CF_ASSIGN_OR_RETURN(const int64_t count, stores_[i]->Count());
    begins_.push_back(begins_[i] + count);
  }
  return begins_.back();
}

ConcatStore::Place ConcatStore::PlaceOf(int64_t index) const {
  // The last store that begins at or before it; empty stores begin there too.
  const auto behind = std::upper_bound(begins_.begin(), begins_.end(), index);
  const size_t store =
      std::min<size_t>(behind - begins_.begin(), stores_.size()) - 1;
  return {store, index - begins_[store]};
}

absl::StatusOr<int64_t> ConcatStore::Length(int64_t index) {
  const Place place = PlaceOf(index);
  return stores_[place.store]->Length(place.index);
}

absl::StatusOr<Document> ConcatStore::Read(int64_t index, int64_t begin,
                                           int64_t end) {
  const Place place = PlaceOf(index);
  return stores_[place.store]->Read(place.index, begin, end);
}

void ConcatStore::WillRead(absl::Span<const int64_t> indices) {
  std::vector<std::vector<int64_t>> by_store(stores_.size());
  for (const int64_t index : indices) {
    const Place place = PlaceOf(index);
    by_store[place.store].push_back(place.index);
  }
  for (size_t i = 0; i < stores_.size(); ++i) {
    if (!by_store[i].empty()) stores_[i]->WillRead(by_store[i]);
  }
}

std::string ConcatStore::Name(int64_t index) const {
  const Place place = PlaceOf(index);
  return stores_[place.store]->Name(place.index);
}

uint64_t ConcatStore::Fingerprint() const {
  DigestBuilder digest;
  for (const auto& store : stores_) {
    digest.UpdateInt64({static_cast<int64_t>(store->Fingerprint())});
  }
  return digest.Finish();
}

}  // namespace cpfeed
