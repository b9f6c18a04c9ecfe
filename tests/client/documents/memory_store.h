// Documents in memory.

#ifndef CPFEED_TESTS_CLIENT_DOCUMENTS_MEMORY_STORE_H_
#define CPFEED_TESTS_CLIENT_DOCUMENTS_MEMORY_STORE_H_

#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/documents/document_store.h"

namespace cpfeed::testing {

class MemoryStore : public DocumentStore {
 public:
  explicit MemoryStore(std::vector<std::vector<int64_t>> documents,
                       uint64_t fingerprint = 1)
      : documents_(std::move(documents)), fingerprint_(fingerprint) {}

  absl::StatusOr<bool> Has(int64_t index) override {
    return index < static_cast<int64_t>(documents_.size());
  }
  absl::StatusOr<int64_t> Count() override {
    return static_cast<int64_t>(documents_.size());
  }
  absl::StatusOr<int64_t> Length(int64_t index) override {
    return static_cast<int64_t>(documents_.at(index).size());
  }
  absl::StatusOr<Document> Read(int64_t index, int64_t begin,
                                int64_t end) override {
    const std::vector<int64_t>& ids = documents_.at(index);
    Document document;
    document.input_ids.assign(ids.begin() + begin, ids.begin() + end);
    if (end < static_cast<int64_t>(ids.size())) document.next_token = ids[end];
    return document;
  }
  std::string Name(int64_t index) const override {
    return absl::StrCat("document ", index);
  }
  uint64_t Fingerprint() const override { return fingerprint_; }

 private:
  std::vector<std::vector<int64_t>> documents_;
  uint64_t fingerprint_;
};

// Documents of random lengths in [1, max_length]. Tokens count up through all
// of them from 1.
inline std::vector<std::vector<int64_t>> CountingDocuments(int64_t count,
                                                           int64_t max_length) {
  std::mt19937 random(11);
  std::vector<std::vector<int64_t>> documents;
  int64_t next = 1;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t>& ids =
        documents.emplace_back(1 + random() % max_length);
    std::iota(ids.begin(), ids.end(), next);
    next += static_cast<int64_t>(ids.size());
  }
  return documents;
}

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CLIENT_DOCUMENTS_MEMORY_STORE_H_
