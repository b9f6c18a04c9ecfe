#include "server/metrics/plan_picture.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/wire/shard_codec.h"
#include "core/wire/tensor_codec.h"

namespace cpfeed {
namespace {

constexpr int kMostRanks = 16;
constexpr int64_t kMostColumns = 64;

absl::StatusOr<std::vector<int64_t>> Find(
    const std::vector<NamedTensor>& tensors, absl::string_view name) {
  for (const NamedTensor& named : tensors) {
    if (named.name == name) return *named.tensor.ToInt64();
  }
  return absl::NotFoundError(name);
}

// How many tokens of each of `columns` equal parts of the chunk a rank holds.
absl::StatusOr<std::vector<int64_t>> HeldPerColumn(const HeldStep& held,
                                                   int rank, int64_t total,
                                                   int64_t columns) {
  const EncodedStep described =
      SelectTensors(held.batch.ranks[rank], {"segments"});
  const v1::ShardHeader& chunk = described.header.chunks(0);
  CF_ASSIGN_OR_RETURN(const int64_t bytes, CheckTensorSpecs(chunk.tensors()));
  CF_ASSIGN_OR_RETURN(
      const std::vector<NamedTensor> tensors,
      DecodeTensors(chunk.tensors(), described.payload.Slice(0, bytes)));
  CF_ASSIGN_OR_RETURN(const std::vector<int64_t> segments,
                      Find(tensors, "segments"));
  CF_ASSIGN_OR_RETURN(const std::vector<int64_t> starts,
                      Find(tensors, "cu_seqlens_padded"));
  std::vector<int64_t> tokens(columns);
  for (size_t i = 0; i + 2 < segments.size(); i += 3) {
    int64_t at = starts[segments[i]] + segments[i + 1];
    const int64_t end = at + segments[i + 2];
    while (at < end) {
      const int64_t column = at * columns / total;
      // The first token behind the column.
      const int64_t next = ((column + 1) * total + columns - 1) / columns;
      tokens[column] += std::min(end, next) - at;
      at = std::min(end, next);
    }
  }
  return tokens;
}

}  // namespace

std::string PlanPicture(const HeldStep& held) {
  if (held.batch.ranks.empty() || held.batch.ranks[0].header.chunks().empty()) {
    return "";
  }
  const v1::ShardHeader& first = held.batch.ranks[0].header.chunks(0);
  const int64_t total = first.total_tokens();
  const int64_t columns = std::min(total, kMostColumns);
  std::string picture =
      absl::StrCat("  step ", held.step, ": ", total, " tokens, plan ",
                   absl::Hex(first.plan_digest(), absl::kZeroPad16), "\n");
  const int ranks = static_cast<int>(held.batch.ranks.size());
  for (int rank = 0; rank < std::min(ranks, kMostRanks); ++rank) {
    const auto tokens = HeldPerColumn(held, rank, total, columns);
    absl::StrAppend(&picture, "    rank ", rank, rank < 10 ? "  " : " ");
    for (int64_t c = 0; tokens.ok() && c < columns; ++c) {
      const int64_t begin = (c * total + columns - 1) / columns;
      const int64_t end = ((c + 1) * total + columns - 1) / columns;
      const int64_t here = (*tokens)[c];
      absl::StrAppend(&picture,
                      here == 0 ? "." : (here == end - begin ? "#" : "+"));
    }
    absl::StrAppend(&picture, "\n");
  }
  if (ranks > kMostRanks) {
    absl::StrAppend(&picture, "    ... ", ranks - kMostRanks, " more ranks\n");
  }
  return picture;
}

}  // namespace cpfeed
