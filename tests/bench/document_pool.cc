#include "tests/bench/document_pool.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace cpfeed::bench {
namespace {

constexpr int64_t kPoolTokens = 1 << 22;
constexpr int64_t kVocabulary = 128'000;

class DocumentPool final : public DocumentStore {
 public:
  DocumentPool(int64_t count, int64_t mean_tokens, int64_t max_tokens) {
    std::mt19937_64 random(20'260'102);
    tokens_.reserve(kPoolTokens);
    for (int64_t i = 0; i < kPoolTokens; ++i) {
      tokens_.push_back(1 + static_cast<int64_t>(random() % kVocabulary));
    }
    // The mean of exp(N(mu, 1)) is exp(mu + 1/2).
    std::lognormal_distribution<double> length(
        std::log(static_cast<double>(mean_tokens)) - 0.5, 1.0);
    const int64_t longest = std::min(max_tokens, kPoolTokens);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t tokens =
          std::clamp<int64_t>(static_cast<int64_t>(length(random)), 1, longest);
      const auto begin =
          static_cast<int64_t>(random() % (kPoolTokens - tokens + 1));
      documents_.emplace_back(begin, tokens);
    }
  }

  absl::StatusOr<bool> Has(int64_t index) override {
    return index < static_cast<int64_t>(documents_.size());
  }
  absl::StatusOr<int64_t> Count() override {
    return static_cast<int64_t>(documents_.size());
  }
  absl::StatusOr<int64_t> Length(int64_t index) override {
    return documents_[index].second;
  }
  absl::StatusOr<Document> Read(int64_t index, int64_t begin,
                                int64_t end) override {
    const auto first = tokens_.begin() + documents_[index].first;
    Document document{.input_ids = {first + begin, first + end}};
    if (end < documents_[index].second) document.next_token = first[end];
    return document;
  }
  std::string Name(int64_t index) const override {
    return absl::StrCat("document ", index);
  }
  uint64_t Fingerprint() const override { return documents_.size(); }

 private:
  std::vector<int64_t> tokens_;
  std::vector<std::pair<int64_t, int64_t>> documents_;  // Begin, tokens.
};

}  // namespace

std::unique_ptr<DocumentStore> MakeDocumentPool(int64_t count,
                                                int64_t mean_tokens,
                                                int64_t max_tokens) {
  return std::make_unique<DocumentPool>(count, mean_tokens, max_tokens);
}

}  // namespace cpfeed::bench
