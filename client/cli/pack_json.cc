#include "client/cli/pack_json.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/tensor.h"

namespace cpfeed {
namespace {

constexpr int64_t kSentinel = -1000;

// A list of numbers, then as many sentinels as it lacks of `width`.
void AppendList(absl::Span<const int64_t> values, size_t width,
                std::string& line) {
  absl::string_view separator;
  line += '[';
  for (size_t i = 0; i < std::max(values.size(), width); ++i) {
    absl::StrAppend(&line, separator,
                    i < values.size() ? values[i] : kSentinel);
    separator = ",";
  }
  line += ']';
}

void AppendTensor(absl::string_view name, const Tensor& tensor,
                  std::string& line) {
  const int64_t width = tensor.shape[1];
  const absl::Span<const int64_t> values = tensor.Values<int64_t>();
  absl::StrAppend(&line, line.size() == 1 ? "" : ",", "\"", name, "\":[");
  for (int64_t row = 0; row < tensor.shape[0]; ++row) {
    if (row > 0) line += ',';
    AppendList(values.subspan(row * width, width), 0, line);
  }
  line += ']';
}

void AppendLengths(absl::string_view name, const RaggedLengths& lengths,
                   bool rectangular, std::string& line) {
  const absl::Span<const int64_t> values = lengths.values;
  const auto row_at = [&](size_t row) {
    return values.subspan(lengths.row_splits[row], lengths.row_splits[row + 1] -
                                                       lengths.row_splits[row]);
  };
  const size_t num_rows = lengths.row_splits.size() - 1;
  size_t width = 0;
  for (size_t row = 0; rectangular && row < num_rows; ++row) {
    width = std::max(width, row_at(row).size());
  }
  absl::StrAppend(&line, ",\"", name, "\":[");
  for (size_t row = 0; row < num_rows; ++row) {
    if (row > 0) line += ',';
    AppendList(row_at(row), width, line);
  }
  line += ']';
}

}  // namespace

std::string PackedBatchLine(const PackedBatch& batch, Parity parity) {
  const bool native = parity == Parity::kNative;
  std::string line = "{";
  AppendTensor("input_ids", batch.input_ids, line);
  AppendTensor("labels", batch.labels, line);
  if (!batch.position_ids.empty()) {
    AppendTensor("position_ids", batch.position_ids, line);
  }
  AppendLengths("seq_lens", *batch.seq_lens, !native, line);
  AppendLengths("seq_lens_padded", *batch.seq_lens_padded, !native, line);
  absl::StrAppend(&line, native ? "}" : ",\"qkv_format\":\"thd\"}");
  return line;
}

Json PackStatisticsJson(const PackCounts& counts, const PackLosses& losses) {
  return {{"status", "OK"},
          {"batches", counts.batches},
          {"rows", counts.rows},
          {"sequences", counts.sequences},
          {"documents", counts.documents},
          {"tokens", counts.tokens},
          {"padding", counts.padding},
          {"label_tokens", counts.label_tokens},
          {"fill_ratio", counts.FillRatio()},
          {"area_imbalance", counts.AreaImbalance()},
          {"dropped_documents", losses.dropped_documents},
          {"dropped_tokens", losses.dropped_tokens},
          {"cut_documents", losses.cut_documents},
          {"empty_documents", losses.empty_documents}};
}

std::string PackStatisticsText(const PackCounts& counts,
                               const PackLosses& losses) {
  return absl::StrFormat(
      "batches    %d of %d rows in all\n"
      "documents  %d in %d sequences (%d were cut; %d more dropped, %d empty)\n"
      "tokens     %d, %d of them with a label (%d dropped)\n"
      "padding    %d, rows are full to %.2f %%\n"
      "area       heaviest row of a batch over the mean: %.3f\n",
      counts.batches, counts.rows, counts.documents, counts.sequences,
      losses.cut_documents, losses.dropped_documents, losses.empty_documents,
      counts.tokens, counts.label_tokens, losses.dropped_tokens, counts.padding,
      100 * counts.FillRatio(), counts.AreaImbalance());
}

}  // namespace cpfeed
