#include "client/documents/parity_batcher.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/packed_batch.h"
#include "core/batch/parity_pack_sample.h"
#include "core/tensor/tensor.h"

namespace cpfeed {
namespace {

constexpr int64_t kIgnoreLabel = -100;

// Without labels of its own the document gets its end token and shifted ones.
ParitySample ToSample(Document document, std::optional<int64_t> end_token_id) {
  std::vector<int64_t>& ids = document.input_ids;
  ParitySample sample;
  if (document.labels) {
    sample.Set("labels", *std::move(document.labels));
  } else {
    if (end_token_id && (ids.empty() || ids.back() != *end_token_id)) {
      ids.push_back(*end_token_id);
    }
    std::vector<int64_t> labels;
    if (!ids.empty()) {
      labels.assign(ids.begin() + 1, ids.end());
      labels.push_back(kIgnoreLabel);
    }
    sample.Set("labels", std::move(labels));
  }
  sample.Set("input_ids", std::move(ids));
  if (document.loss_mask) {
    sample.Set("loss_mask", *std::move(document.loss_mask));
  }
  return sample;
}

void AppendRow(const std::vector<int64_t>& row, std::vector<int64_t>& out) {
  out.insert(out.end(), row.begin(), row.end());
}

void AppendRow(const std::vector<int64_t>& row, RaggedLengths& out) {
  if (out.row_splits.empty()) out.row_splits.push_back(0);
  AppendRow(row, out.values);
  out.row_splits.push_back(static_cast<int64_t>(out.values.size()));
}

PackedRows ToRows(const std::vector<ParityPack>& packs, int64_t row_width) {
  std::vector<int64_t> input_ids, labels, position_ids;
  PackedRows rows;
  PackedBatch& batch = rows.batch;
  batch.seq_lens.emplace();
  batch.seq_lens_padded.emplace();
  rows.counts.batches = 1;
  for (const ParityPack& pack : packs) {
    AppendRow(pack.input_ids, input_ids);
    AppendRow(pack.labels, labels);
    AppendRow(pack.position_ids, position_ids);
    AppendRow(pack.seq_lens, *batch.seq_lens);
    AppendRow(pack.seq_lens_padded, *batch.seq_lens_padded);
    ++rows.counts.rows;
    for (const int64_t length : pack.seq_lens) rows.counts.tokens += length;
    rows.counts.sequences += static_cast<int64_t>(pack.seq_lens.size());
    for (const int64_t label : pack.labels) {
      if (label != kIgnoreLabel) ++rows.counts.label_tokens;
    }
  }
  rows.counts.documents = rows.counts.sequences;  // None is cut.
  rows.counts.padding = rows.counts.rows * row_width - rows.counts.tokens;
  const Shape shape = {rows.counts.rows, row_width};
  batch.input_ids = Tensor::FromVector(shape, std::move(input_ids));
  batch.labels = Tensor::FromVector(shape, std::move(labels));
  batch.position_ids = Tensor::FromVector(shape, std::move(position_ids));
  return rows;
}

}  // namespace

absl::StatusOr<ParityBatcher> ParityBatcher::Create(const PackOptions& options,
                                                    int64_t cp_size,
                                                    Parity parity) {
  PackOptions checked = options;
  checked.slot_multiple = 1;
  CF_RETURN_IF_ERROR(ValidatePackOptions(checked));
  if (options.long_documents == LongDocuments::kCut) {
    return InvalidArgument(kBadOption,
                           absl::StrCat("long documents are to be cut; must be "
                                        "refused or dropped in ",
                                        ParityName(parity)));
  }
  const ParityPackOptions parity_options{
      .packed_sequence_size = options.row_width,
      .padding_idx = options.padding_token_id,
      .drop_long_samples = options.long_documents == LongDocuments::kDrop,
      .cp_size = cp_size};
  CF_ASSIGN_OR_RETURN(ParityPacker packer,
                      ParityPacker::Create(parity_options, parity));
  return ParityBatcher(options, parity_options, parity, std::move(packer));
}

ParityBatcher::ParityBatcher(const PackOptions& options,
                             const ParityPackOptions& parity_options,
                             Parity parity, ParityPacker packer)
    : options_(options),
      parity_options_(parity_options),
      parity_(parity),
      packer_(std::move(packer)) {}

absl::StatusOr<int64_t> ParityBatcher::Add(Document document) {
  const ParitySample sample =
      ToSample(std::move(document), options_.end_token_id);
  const auto size =
      static_cast<int64_t>(sample.Find("input_ids")->values.size());
  CF_RETURN_IF_ERROR(packer_.Add(sample));
  if (size > options_.row_width) {
    ++losses_.dropped_documents;
    losses_.dropped_tokens += size;
  }
  std::vector<ParityPack> closed = packer_.TakePacks();
  if (!closed.empty()) first_open_ = next_number_;
  std::move(closed.begin(), closed.end(), std::back_inserter(packs_));
  ++next_number_;
  return 1;
}

absl::Status ParityBatcher::Flush() {
  const absl::Status status = packer_.Finish();
  if (!status.ok() && !restored_) return status;
  restored_ = false;
  std::vector<ParityPack> closed = packer_.TakePacks();
  std::move(closed.begin(), closed.end(), std::back_inserter(packs_));
  first_open_ = next_number_;
  flushing_ = true;
  // The next epoch begins like the first one.
  CF_ASSIGN_OR_RETURN(packer_, ParityPacker::Create(parity_options_, parity_));
  return absl::OkStatus();
}

std::optional<PackedRows> ParityBatcher::Next() {
  const auto available = static_cast<int64_t>(packs_.size());
  CF_CHECK(available <= options_.rows);
  const bool whole = available == options_.rows;
  if (!whole && !flushing_) return std::nullopt;
  std::vector<ParityPack> packs = std::exchange(packs_, {});
  first_needed_ = first_open_;
  if (!whole) {
    flushing_ = false;
    if (packs.empty()) return std::nullopt;
    if (options_.last_batch == LastBatch::kDrop) {
      for (const ParityPack& pack : packs) {
        losses_.dropped_documents += static_cast<int64_t>(pack.seq_lens.size());
        for (const int64_t n : pack.seq_lens) losses_.dropped_tokens += n;
      }
      return std::nullopt;
    }
  }
  return ToRows(packs, options_.row_width);
}

void ParityBatcher::Restore(const PackerPosition& position) {
  CF_CHECK(next_number_ == 0);
  // The open pack's first document is the first one that comes.
  first_open_ = first_needed_ = position.next;
  restored_ = true;
}

}  // namespace cpfeed
