#include "client/worker/step_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "client/worker/token_feature.h"
#include "core/attention/dense_reference.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

std::vector<double> Features(FeatureKind kind, const ExpectedSequence& document,
                             int64_t heads, int64_t head_dim) {
  std::vector<double> features;
  for (size_t i = 0; i < document.tokens.size(); ++i) {
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t c = 0; c < head_dim; ++c) {
        features.push_back(TokenFeature(kind, document.tokens[i],
                                        document.positions[i], head, c));
      }
    }
  }
  return features;
}

std::vector<double> OneDeviceOutput(const ExpectedSequence& document,
                                    const AttentionShape& shape) {
  const auto features = [&](FeatureKind kind, int64_t heads) {
    return Features(kind, document, heads, shape.head_dim);
  };
  return DenseAttention(
             {.tokens = static_cast<int64_t>(document.tokens.size()),
              .num_heads = shape.num_heads,
              .num_kv_heads = shape.num_kv_heads,
              .head_dim = shape.head_dim,
              .value_dim = shape.head_dim,
              .scale = shape.scale(),
              .left = -1,
              .right = 0,
              .q = features(FeatureKind::kQuery, shape.num_heads),
              .k = features(FeatureKind::kKey, shape.num_kv_heads),
              .v = features(FeatureKind::kValue, shape.num_kv_heads)})
      .out;
}

// The rows of a chunk's stream positions, from whichever rank has them.
class StreamRows {
 public:
  // Errors: DATA_LOSS where two ranks have one position.
  static absl::StatusOr<StreamRows> Collect(const ChunkOutputs& chunk,
                                            int64_t row_width) {
    StreamRows stream;
    for (const int64_t slot : chunk.plan->lengths.padded) {
      stream.rows_.resize(stream.rows_.size() + slot);
    }
    for (int rank = 0; rank < chunk.plan->cp_size; ++rank) {
      const float* row = chunk.ranks[rank].data();
      for (const int32_t position : LocalIndex(*chunk.plan, rank)) {
        if (position >= 0) {
          if (stream.rows_[position] != nullptr) {
            return absl::DataLossError(
                absl::StrCat("position ", position, " came from two ranks"));
          }
          stream.rows_[position] = row;
        }
        row += row_width;
      }
    }
    return stream;
  }

  const float* at(int64_t position) const { return rows_[position]; }

 private:
  std::vector<const float*> rows_;
};

// Compares the rows from stream position `begin` on with a document's outputs.
absl::StatusOr<double> CompareDocument(const StreamRows& rows, int64_t begin,
                                       const std::vector<double>& expected,
                                       int64_t row_width) {
  double most = 0;
  for (size_t i = 0; i < expected.size(); i += row_width) {
    const int64_t position = static_cast<int64_t>(i) / row_width;
    const float* const row = rows.at(begin + position);
    if (row == nullptr) {
      return absl::DataLossError(
          absl::StrCat("position ", position, " came from no rank"));
    }
    for (int64_t c = 0; c < row_width; ++c) {
      const double difference = std::abs(row[c] - expected[i + c]);
      most = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                    : std::max(most, difference);
    }
  }
  return most;
}

// Compares document `number` of the step, of `tokens` tokens at `begin`.
absl::StatusOr<double> CheckDocument(
    const std::vector<const ExpectedSequence*>& fed, size_t number,
    int64_t tokens, const StreamRows& rows, int64_t begin,
    const AttentionShape& shape) {
  if (number >= fed.size()) {
    return absl::DataLossError(absl::StrCat("step has more documents than the ",
                                            fed.size(),
                                            " of the batch that was fed"));
  }
  const ExpectedSequence& document = *fed[number];
  if (static_cast<int64_t>(document.tokens.size()) != tokens) {
    return absl::DataLossError(absl::StrCat(
        "document ", number, " has ", tokens,
        " tokens; the one that was fed has ", document.tokens.size()));
  }
  auto difference =
      CompareDocument(rows, begin, OneDeviceOutput(document, shape),
                      shape.num_heads * shape.head_dim);
  if (difference.ok()) return difference;
  return Annotate(difference.status(), absl::StrCat("document ", number));
}

}  // namespace

absl::StatusOr<double> MaxDifferenceToOneDevice(
    const std::vector<ExpectedSequence>& documents, const AttentionShape& shape,
    const std::vector<ChunkOutputs>& chunks) {
  const int64_t row_width = shape.num_heads * shape.head_dim;
  // Empty sequences have no rows, and auto_fill makes some that nobody fed.
  std::vector<const ExpectedSequence*> fed;
  for (const ExpectedSequence& document : documents) {
    if (!document.tokens.empty()) fed.push_back(&document);
  }
  double most = 0;
  size_t next = 0;  // Of `fed`.
  for (const ChunkOutputs& chunk : chunks) {
    CF_ASSIGN_OR_RETURN(const StreamRows rows,
                        StreamRows::Collect(chunk, row_width));
    const PackedLengths& lengths = chunk.plan->lengths;
    int64_t begin = 0;
    for (int64_t s = 0; s < lengths.num_sequences(); ++s) {
      if (lengths.real[s] > 0) {
        CF_ASSIGN_OR_RETURN(
            const double difference,
            CheckDocument(fed, next++, lengths.real[s], rows, begin, shape));
        most = std::max(most, difference);
      }
      begin += lengths.padded[s];
    }
  }
  if (next == fed.size()) return most;
  return absl::DataLossError(
      absl::StrCat("step has ", next, " documents; the batch that was fed has ",
                   fed.size()));
}

}  // namespace cpfeed
