// Several inputs as one.

#ifndef CPFEED_CLIENT_DOCUMENTS_CONCAT_STORE_H_
#define CPFEED_CLIENT_DOCUMENTS_CONCAT_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/documents/document_store.h"

namespace cpfeed {

// The documents of each store behind those of the store before it.
class ConcatStore : public DocumentStore {
 public:
  explicit ConcatStore(std::vector<std::unique_ptr<DocumentStore>> stores)
      : stores_(std::move(stores)) {}

  absl::StatusOr<bool> Has(int64_t index) override;
  absl::StatusOr<int64_t> Count() override;
  absl::StatusOr<int64_t> Length(int64_t index) override;
  absl::StatusOr<Document> Read(int64_t index, int64_t begin,
                                int64_t end) override;
  void WillRead(absl::Span<const int64_t> indices) override;
  std::string Name(int64_t index) const override;
  uint64_t Fingerprint() const override;

 private:
  struct Place {
    size_t store = 0;
    int64_t index = 0;  // In that store.
  };

  // Of a document that is there: Has was asked for it.
  Place PlaceOf(int64_t index) const;

  std::vector<std::unique_ptr<DocumentStore>> stores_;
  // First document of each store whose predecessors are counted.
  std::vector<int64_t> begins_ = {0};
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_CONCAT_STORE_H_
