#include "core/attention/head_exchange.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include "core/attention/attention_heads.h"
#include "core/attention/index_tensor.h"
#include "core/attention/tensor_bytes.h"
#include "core/base/status_macros.h"

namespace cpfeed {

HeadExchange::HeadExchange(const ShardPlan& plan, int first_rank, int size,
                           Communicator& group)
    : first_rank_(first_rank),
      size_(size),
      group_(group),
      place_(group.rank() - first_rank) {
  CF_CHECK(place_ >= 0 && place_ < size);
  std::vector<RowBuffer> shards;
  for (int rank = first_rank; rank < first_rank + size; ++rank) {
    rows_.push_back(plan.ranks[rank].num_tokens);
    all_rows_ += rows_.back();
    shards.push_back({rows_.back(), RankRuns(plan, rank)});
  }
  order_ = OrderRows(shards);
}

absl::StatusOr<std::vector<at::Tensor>> HeadExchange::ToHeads(
    absl::Span<const at::Tensor> tensors) {
  std::vector<at::Tensor> sent, received;
  std::vector<SendPart> sends;
  std::vector<ReceivePart> receives;
  for (const at::Tensor& tensor : tensors) {
    const int64_t heads = tensor.size(1);
    received.push_back(at::empty(
        {all_rows_, HeadsAt(heads, size_, place_).count, tensor.size(2)},
        tensor.options()));
    int64_t row = 0;
    for (int peer = 0; peer < size_; ++peer) {
      const HeadRange theirs = HeadsAt(heads, size_, peer);
      sent.push_back(tensor.narrow(1, theirs.begin, theirs.count).contiguous());
      sends.push_back({first_rank_ + peer, BytesOf(sent.back())});
      receives.push_back(
          {first_rank_ + peer,
           MutableBytesOf(received.back().narrow(0, row, rows_[peer]))});
      row += rows_[peer];
    }
  }
  CF_RETURN_IF_ERROR(group_.Exchange(sends, receives));
  for (at::Tensor& tensor : received) {
    tensor = at::index_select(tensor, 0,
                              IndexTensor(order_.source, tensor.device()));
  }
  return received;
}

absl::StatusOr<std::vector<at::Tensor>> HeadExchange::ToRows(
    absl::Span<const Share> shares) {
  std::vector<at::Tensor> sent, received;
  std::vector<SendPart> sends;
  std::vector<ReceivePart> receives;
  for (const Share& share : shares) {
    const at::Tensor& rows = share.rows;
    const at::Tensor& by_rank =
        sent.emplace_back(at::full({all_rows_, rows.size(1), rows.size(2)},
                                   share.padding, rows.options()));
    by_rank.index_copy_(0, IndexTensor(order_.source, rows.device()), rows);
    int64_t row = 0;
    for (int peer = 0; peer < size_; ++peer) {
      const at::Tensor& theirs = received.emplace_back(at::empty(
          {own_rows(), HeadsAt(share.heads, size_, peer).count, rows.size(2)},
          rows.options()));
      sends.push_back(
          {first_rank_ + peer, BytesOf(by_rank.narrow(0, row, rows_[peer]))});
      receives.push_back({first_rank_ + peer, MutableBytesOf(theirs)});
      row += rows_[peer];
    }
  }
  CF_RETURN_IF_ERROR(group_.Exchange(sends, receives));
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < shares.size(); ++i) {
    const at::Tensor& rows = shares[i].rows;
    const at::Tensor& result = results.emplace_back(
        at::zeros({own_rows(), shares[i].heads, rows.size(2)}, rows.options()));
    for (int peer = 0; peer < size_; ++peer) {
      const HeadRange theirs = HeadsAt(shares[i].heads, size_, peer);
      result.narrow(1, theirs.begin, theirs.count)
          .add_(received[i * size_ + peer]);
    }
  }
  return results;
}

}  // namespace cpfeed
