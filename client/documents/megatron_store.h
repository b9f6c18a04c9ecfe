// Megatron's indexed datasets: a .bin file of tokens and its .idx file.

#ifndef CPFEED_CLIENT_DOCUMENTS_MEGATRON_STORE_H_
#define CPFEED_CLIENT_DOCUMENTS_MEGATRON_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "client/documents/document_store.h"
#include "client/documents/mapped_file.h"
#include "client/documents/megatron_index.h"

namespace cpfeed {

// Documents of the dataset `PREFIX.bin`, `PREFIX.idx`; both are mapped.
class MegatronStore : public DocumentStore {
 public:
  // Errors: those of MappedFile::Open and MegatronIndex::Parse.
  static absl::StatusOr<std::unique_ptr<MegatronStore>> Open(
      const std::string& prefix);

  absl::StatusOr<bool> Has(int64_t index) override;
  absl::StatusOr<int64_t> Count() override;
  absl::StatusOr<int64_t> Length(int64_t index) override;
  absl::StatusOr<Document> Read(int64_t index, int64_t begin,
                                int64_t end) override;
  std::string Name(int64_t index) const override;
  uint64_t Fingerprint() const override;

 private:
  MegatronStore(std::unique_ptr<const MappedFile> idx,
                std::unique_ptr<const MappedFile> bin, MegatronIndex index)
      : idx_(std::move(idx)), bin_(std::move(bin)), index_(index) {}

  std::unique_ptr<const MappedFile> idx_, bin_;
  MegatronIndex index_;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_MEGATRON_STORE_H_
