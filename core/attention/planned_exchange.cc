#include "core/attention/planned_exchange.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/attention/block_attention.h"
#include "core/attention/block_attention_grad.h"
#include "core/attention/gathered_attention.h"
#include "core/attention/row_runs.h"
#include "core/attention/tensor_bytes.h"
#include "core/attention/tile_plan.h"
#include "core/base/status_macros.h"
#include "core/plan/transfer_table.h"
#include "core/plan/visible_keys.h"

namespace cpfeed {
namespace {

// Rows of this rank that `peer` gets.
struct Send {
  int peer = 0;
  int64_t num_rows = 0;
  std::vector<RowRun> runs;
};

// What one rank sends, receives and has.
struct Transfers {
  std::vector<Send> sends;
  std::vector<KvTransfer> receives;
  std::vector<RowRun> queries;  // The rank's runs.
  std::vector<RowRun> local;    // Those of sequences that need no other rank,
  std::vector<RowRun> shared;   // and the rest.
  // The shared runs, packed, then what each rank sends.
  std::vector<RowBuffer> buffers;
  int64_t num_rows = 0;  // Of the buffers.
};

// Runs with these lengths as rows of a buffer that has nothing else.
RowBuffer Packed(std::vector<RowRun> runs) {
  int64_t row = 0;
  for (RowRun& run : runs) {
    run.row = row;
    row += run.length;
  }
  return {row, std::move(runs)};
}

std::vector<RowRun> RunsOf(const KvTransfer& transfer) {
  std::vector<RowRun> runs;
  for (const KvRun& run : transfer.runs) {
    runs.push_back({run.sequence, run.owner_row, run.begin, run.length});
  }
  return runs;
}

Transfers PlanTransfers(const ShardPlan& plan, const AttentionMask& mask,
                        int rank) {
  // Positions are below 2^31: more adds nothing, and could overflow.
  const TransferTable table(
      plan, {.left = mask.left,
             .right = std::min<int64_t>(mask.right,
                                        std::numeric_limits<int32_t>::max())});
  Transfers transfers{.receives = table.ReceivedBy(rank),
                      .queries = RankRuns(plan, rank)};
  for (const KvTransfer& transfer : table.SentBy(rank)) {
    transfers.sends.push_back(
        {transfer.peer, transfer.num_rows, RunsOf(transfer)});
  }
  std::vector<bool> is_shared(plan.lengths.num_sequences());
  for (const KvTransfer& transfer : transfers.receives) {
    for (const KvRun& run : transfer.runs) is_shared[run.sequence] = true;
  }
  for (const RowRun& run : transfers.queries) {
    (is_shared[run.sequence] ? transfers.shared : transfers.local)
        .push_back(run);
  }
  transfers.buffers.push_back(Packed(transfers.shared));
  for (const KvTransfer& transfer : transfers.receives) {
    transfers.buffers.push_back(Packed(RunsOf(transfer)));
  }
  for (const RowBuffer& buffer : transfers.buffers) {
    transfers.num_rows += buffer.num_rows;
  }
  return transfers;
}

// Copies the rows of `runs` to `packed`, behind each other.
void PackRows(const at::Tensor& tensor, absl::Span<const RowRun> runs,
              const at::Tensor& packed) {
  int64_t row = 0;
  for (const RowRun& run : runs) {
    packed.narrow(0, row, run.length)
        .copy_(tensor.narrow(0, run.row, run.length));
    row += run.length;
  }
}

// Adds rows that lie behind each other to those of `runs`.
void AddPacked(const at::Tensor& packed, absl::Span<const RowRun> runs,
               const at::Tensor& into) {
  int64_t row = 0;
  for (const RowRun& run : runs) {
    into.narrow(0, run.row, run.length).add_(packed.narrow(0, row, run.length));
    row += run.length;
  }
}

at::Tensor RowsLike(const at::Tensor& tensor, int64_t rows) {
  return at::empty({rows, tensor.size(1), tensor.size(2)}, tensor.options());
}

// The rows of the buffers, on their way.
class KvGather {
 public:
  absl::Status Start(const AttentionInputs& inputs, const Transfers& transfers,
                     Communicator& group) {
    std::vector<SendPart> sends;
    std::vector<ReceivePart> receives;
    for (const at::Tensor& tensor : {inputs.k, inputs.v}) {
      for (const Send& send : transfers.sends) {
        sent_.push_back(RowsLike(tensor, send.num_rows));
        PackRows(tensor, send.runs, sent_.back());
        sends.push_back({send.peer, BytesOf(sent_.back())});
      }
      const at::Tensor& rows =
          gathered_.emplace_back(RowsLike(tensor, transfers.num_rows));
      PackRows(tensor, transfers.shared, rows);
      int64_t row = transfers.buffers[0].num_rows;
      for (const KvTransfer& transfer : transfers.receives) {
        receives.push_back({transfer.peer, MutableBytesOf(rows.narrow(
                                               0, row, transfer.num_rows))});
        row += transfer.num_rows;
      }
    }
    CF_ASSIGN_OR_RETURN(pending_, group.StartExchange(sends, receives));
    return absl::OkStatus();
  }

  absl::StatusOr<GatheredKv> Finish() {
    CF_RETURN_IF_ERROR(pending_->Wait());
    return GatheredKv{gathered_[0], gathered_[1]};
  }

 private:
  std::vector<at::Tensor> sent_;
  std::vector<at::Tensor> gathered_;
  std::unique_ptr<PendingExchange> pending_;
};

// The reverse: brings the gradients `all` of the buffers home, and adds to
// `own` what all ranks, this one first, have for its rows.
absl::Status SumHome(const KvGrad& all, const Transfers& transfers,
                     Communicator& group, const KvGrad& own) {
  std::vector<at::Tensor> received;
  std::vector<SendPart> sends;
  std::vector<ReceivePart> receives;
  for (const at::Tensor& tensor : {all.dk, all.dv}) {
    int64_t row = transfers.buffers[0].num_rows;
    for (const KvTransfer& transfer : transfers.receives) {
      sends.push_back(
          {transfer.peer, BytesOf(tensor.narrow(0, row, transfer.num_rows))});
      row += transfer.num_rows;
    }
    for (const Send& send : transfers.sends) {
      received.push_back(RowsLike(tensor, send.num_rows));
      receives.push_back({send.peer, MutableBytesOf(received.back())});
    }
  }
  CF_RETURN_IF_ERROR(group.Exchange(sends, receives));
  AddPacked(all.dk, transfers.shared, own.dk);
  AddPacked(all.dv, transfers.shared, own.dv);
  const size_t count = transfers.sends.size();
  for (size_t i = 0; i < count; ++i) {
    AddPacked(received[i], transfers.sends[i].runs, own.dk);
    AddPacked(received[count + i], transfers.sends[i].runs, own.dv);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PlannedExchange::CheckSupport(const ShardPlan&,
                                           const AttentionMask&,
                                           const AttentionHeads&) const {
  return absl::OkStatus();
}

absl::StatusOr<AttentionOutput> PlannedExchange::Forward(
    const AttentionInputs& inputs, const ShardPlan& plan,
    Communicator& group) const {
  const Transfers transfers = PlanTransfers(plan, inputs.mask, group.rank());
  KvGather gather;
  CF_RETURN_IF_ERROR(gather.Start(inputs, transfers, group));
  BlockAttention attention(inputs.q, inputs.v.size(2), inputs.scale);
  attention.Add(PlanTiles(transfers.queries, transfers.local, inputs.mask),
                inputs.k, inputs.v);
  CF_ASSIGN_OR_RETURN(const GatheredKv kv, gather.Finish());
  AddGathered(transfers.queries, transfers.buffers, kv, inputs.mask, attention);
  return AttentionOutput{attention.Output(), attention.lse()};
}

absl::StatusOr<AttentionGrads> PlannedExchange::Backward(
    const AttentionInputs& inputs, const AttentionOutput& output,
    const at::Tensor& dout, const ShardPlan& plan, Communicator& group) const {
  const Transfers transfers = PlanTransfers(plan, inputs.mask, group.rank());
  KvGather gather;
  CF_RETURN_IF_ERROR(gather.Start(inputs, transfers, group));
  BlockAttentionGrad attention(inputs.q, output.out, output.lse, dout,
                               inputs.scale);
  const KvGrad own = KvGrad::Zeros(inputs.k.size(0), inputs.k, inputs.v);
  attention.Add(PlanTiles(transfers.queries, transfers.local, inputs.mask),
                inputs.k, inputs.v, own);
  CF_ASSIGN_OR_RETURN(const GatheredKv kv, gather.Finish());
  const KvGrad all = AddGatheredGrad(transfers.queries, transfers.buffers, kv,
                                     inputs.mask, attention);
  CF_RETURN_IF_ERROR(SumHome(all, transfers, group, own));
  return AttentionGrads{attention.dq(), own.dk, own.dv};
}

}  // namespace cpfeed
