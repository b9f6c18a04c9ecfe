#include "core/batch/packer_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/checked_math.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

constexpr int64_t kIgnoreLabel = -100;

// The tensors of a batch while they are filled, all padding at first.
class RowWriter {
 public:
  explicit RowWriter(const PackOptions& options) : options_(options) {
    const int64_t size = options.rows * options.row_width;
    input_ids_.assign(size, options.padding_token_id);
    labels_.assign(size, kIgnoreLabel);
    if (options.position_ids) position_ids_.resize(size);
    real_.row_splits.push_back(0);
    padded_.row_splits.push_back(0);
  }

  void WriteRow(absl::Span<const Document> documents);
  PackedRows Finish() &&;

 private:
  void WriteLabels(const Document& document, int64_t at);
  void AddSlot(int64_t real, int64_t padded);
  void EndRow(int64_t used);
  void WritePositions();

  const PackOptions& options_;
  std::vector<int64_t> input_ids_, labels_, position_ids_;
  RaggedLengths real_, padded_;
  PackCounts counts_{.batches = 1};
  double heaviest_row_ = 0;  // Area.
};

void RowWriter::WriteLabels(const Document& document, int64_t at) {
  const std::vector<int64_t>& ids = document.input_ids;
  auto out = labels_.begin() + at;
  if (document.labels) {
    CF_CHECK(document.labels->size() == ids.size());
    std::copy(document.labels->begin(), document.labels->end(), out);
  } else if (!ids.empty()) {
    out = std::copy(ids.begin() + 1, ids.end(), out);
    *out = document.next_token.value_or(kIgnoreLabel);
  }
}

void RowWriter::AddSlot(int64_t real, int64_t padded) {
  real_.values.push_back(real);
  padded_.values.push_back(padded);
}

void RowWriter::WriteRow(absl::Span<const Document> documents) {
  const int64_t row_begin = counts_.rows * options_.row_width;
  int64_t used = 0;
  double area = 0;
  for (const Document& document : documents) {
    const auto real = static_cast<int64_t>(document.input_ids.size());
    const int64_t padded = RoundUp(real, options_.slot_multiple);
    CF_CHECK(used + padded <= options_.row_width);
    std::copy(document.input_ids.begin(), document.input_ids.end(),
              input_ids_.begin() + row_begin + used);
    WriteLabels(document, row_begin + used);
    AddSlot(real, padded);
    used += padded;
    area += 0.5 * static_cast<double>(real) * static_cast<double>(real + 1);
    counts_.tokens += real;
    ++counts_.sequences;
    if (!document.next_token) ++counts_.documents;
  }
  counts_.area += area;
  heaviest_row_ = std::max(heaviest_row_, area);
  EndRow(used);
}

void RowWriter::EndRow(int64_t used) {
  const int64_t tail = options_.row_width - used;
  if (used == 0 || (tail > 0 && options_.row_tail == RowTail::kEmptySlot)) {
    AddSlot(0, tail);
  } else if (options_.row_tail == RowTail::kExtendLastSlot) {
    padded_.values.back() += tail;
  }
  if (options_.position_ids) WritePositions();
  real_.row_splits.push_back(static_cast<int64_t>(real_.values.size()));
  padded_.row_splits.push_back(static_cast<int64_t>(padded_.values.size()));
  ++counts_.rows;
}

// Also behind the last slot: its positions go on where auto_fill extends it.
void RowWriter::WritePositions() {
  auto at = position_ids_.begin() + counts_.rows * options_.row_width;
  const auto row_end = at + options_.row_width;
  for (auto i = padded_.row_splits.back();
       i < static_cast<int64_t>(padded_.values.size()); ++i) {
    std::iota(at, at + padded_.values[i], 0);
    at += padded_.values[i];
  }
  std::iota(at, row_end, padded_.values.back());
}

PackedRows RowWriter::Finish() && {
  counts_.padding = counts_.rows * options_.row_width - counts_.tokens;
  counts_.heaviest_area = heaviest_row_ * static_cast<double>(counts_.rows);
  counts_.label_tokens =
      static_cast<int64_t>(labels_.size()) -
      std::count(labels_.begin(), labels_.end(), kIgnoreLabel);
  const Shape shape = {options_.rows, options_.row_width};
  PackedRows packed;
  packed.counts = counts_;
  packed.batch.input_ids = Tensor::FromVector(shape, std::move(input_ids_));
  packed.batch.labels = Tensor::FromVector(shape, std::move(labels_));
  if (options_.position_ids) {
    packed.batch.position_ids =
        Tensor::FromVector(shape, std::move(position_ids_));
  }
  packed.batch.seq_lens = std::move(real_);
  packed.batch.seq_lens_padded = std::move(padded_);
  return packed;
}

}  // namespace

PackCounts& PackCounts::operator+=(const PackCounts& other) {
  batches += other.batches;
  rows += other.rows;
  sequences += other.sequences;
  documents += other.documents;
  tokens += other.tokens;
  padding += other.padding;
  label_tokens += other.label_tokens;
  area += other.area;
  heaviest_area += other.heaviest_area;
  return *this;
}

double PackCounts::FillRatio() const {
  const int64_t positions = tokens + padding;
  return positions == 0 ? 1.0 : static_cast<double>(tokens) / positions;
}

double PackCounts::AreaImbalance() const {
  return area == 0 ? 1.0 : heaviest_area / area;
}

PackedRows BuildPackedRows(absl::Span<const std::vector<Document>> rows,
                           const PackOptions& options) {
  CF_CHECK(static_cast<int64_t>(rows.size()) <= options.rows);
  RowWriter writer(options);
  for (const std::vector<Document>& row : rows) writer.WriteRow(row);
  for (int64_t i = static_cast<int64_t>(rows.size()); i < options.rows; ++i) {
    writer.WriteRow({});
  }
  return std::move(writer).Finish();
}

}  // namespace cpfeed
