#include "core/attention/planned_exchange.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/attention/gathered_attention.h"
#include "core/attention/row_runs.h"
#include "core/attention/tensor_bytes.h"
#include "core/base/status_macros.h"
#include "core/plan/transfer_table.h"
#include "core/plan/visible_keys.h"

namespace cpfeed {
namespace {

// What one rank sends and receives.
struct Transfers {
  std::vector<KvTransfer> sends;
  std::vector<KvTransfer> receives;
  // The rank's own shard, then what each rank sends it.
  std::vector<RowBuffer> buffers;

  const RowBuffer& own() const { return buffers[0]; }
  int64_t num_rows() const {
    int64_t rows = 0;
    for (const RowBuffer& buffer : buffers) rows += buffer.num_rows;
    return rows;
  }
};

// The runs as rows of a buffer that has nothing else.
RowBuffer Packed(const KvTransfer& transfer) {
  RowBuffer buffer;
  for (const KvRun& run : transfer.runs) {
    buffer.runs.push_back(
        {run.sequence, buffer.num_rows, run.begin, run.length});
    buffer.num_rows += run.length;
  }
  return buffer;
}

Transfers PlanTransfers(const ShardPlan& plan, const AttentionMask& mask,
                        int rank) {
  // Positions are below 2^31: more adds nothing, and could overflow.
  const TransferTable table(
      plan, {.left = mask.left,
             .right = std::min<int64_t>(mask.right,
                                        std::numeric_limits<int32_t>::max())});
  Transfers transfers{.sends = table.SentBy(rank),
                      .receives = table.ReceivedBy(rank)};
  transfers.buffers.push_back(
      {plan.ranks[rank].num_tokens, RankRuns(plan, rank)});
  for (const KvTransfer& transfer : transfers.receives) {
    transfers.buffers.push_back(Packed(transfer));
  }
  return transfers;
}

// The rows of a transfer, behind each other.
at::Tensor PackRows(const at::Tensor& tensor, const KvTransfer& transfer) {
  const at::Tensor packed = at::empty(
      {transfer.num_rows, tensor.size(1), tensor.size(2)}, tensor.options());
  int64_t row = 0;
  for (const KvRun& run : transfer.runs) {
    packed.narrow(0, row, run.length)
        .copy_(tensor.narrow(0, run.owner_row, run.length));
    row += run.length;
  }
  return packed;
}

// Adds rows that lie behind each other to those of a transfer.
void AddPacked(const at::Tensor& packed, const KvTransfer& transfer,
               const at::Tensor& into) {
  int64_t row = 0;
  for (const KvRun& run : transfer.runs) {
    into.narrow(0, run.owner_row, run.length)
        .add_(packed.narrow(0, row, run.length));
    row += run.length;
  }
}

// The rows of the buffers.
absl::StatusOr<GatheredKv> GatherKv(const AttentionInputs& inputs,
                                    const Transfers& transfers,
                                    Communicator& group) {
  std::vector<at::Tensor> sent, gathered;
  std::vector<SendPart> sends;
  std::vector<ReceivePart> receives;
  for (const at::Tensor& tensor : {inputs.k, inputs.v}) {
    for (const KvTransfer& transfer : transfers.sends) {
      sent.push_back(PackRows(tensor, transfer));
      sends.push_back({transfer.peer, BytesOf(sent.back())});
    }
    gathered.push_back(
        at::empty({transfers.num_rows(), tensor.size(1), tensor.size(2)},
                  tensor.options()));
    int64_t row = transfers.own().num_rows;
    gathered.back().narrow(0, 0, row).copy_(tensor);
    for (const KvTransfer& transfer : transfers.receives) {
      receives.push_back({transfer.peer, MutableBytesOf(gathered.back().narrow(
                                             0, row, transfer.num_rows))});
      row += transfer.num_rows;
    }
  }
  CF_RETURN_IF_ERROR(group.Exchange(sends, receives));
  return GatheredKv{gathered[0], gathered[1]};
}

// The reverse: adds what the other ranks have for this rank's rows to its own
// part of `all`, and returns that.
absl::StatusOr<KvGrad> SumHome(const KvGrad& all, const Transfers& transfers,
                               Communicator& group) {
  std::vector<at::Tensor> received;
  std::vector<SendPart> sends;
  std::vector<ReceivePart> receives;
  const int64_t own_rows = transfers.own().num_rows;
  for (const at::Tensor& tensor : {all.dk, all.dv}) {
    int64_t row = own_rows;
    for (const KvTransfer& transfer : transfers.receives) {
      sends.push_back(
          {transfer.peer, BytesOf(tensor.narrow(0, row, transfer.num_rows))});
      row += transfer.num_rows;
    }
    for (const KvTransfer& transfer : transfers.sends) {
      received.push_back(
          at::empty({transfer.num_rows, tensor.size(1), tensor.size(2)},
                    tensor.options()));
      receives.push_back({transfer.peer, MutableBytesOf(received.back())});
    }
  }
  CF_RETURN_IF_ERROR(group.Exchange(sends, receives));
  const KvGrad own = {all.dk.narrow(0, 0, own_rows),
                      all.dv.narrow(0, 0, own_rows)};
  const size_t count = transfers.sends.size();
  for (size_t i = 0; i < count; ++i) {
    AddPacked(received[i], transfers.sends[i], own.dk);
    AddPacked(received[count + i], transfers.sends[i], own.dv);
  }
  return own;
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
  CF_ASSIGN_OR_RETURN(const GatheredKv kv, GatherKv(inputs, transfers, group));
  return AttendGathered(inputs, transfers.own().runs, transfers.buffers, kv);
}

absl::StatusOr<AttentionGrads> PlannedExchange::Backward(
    const AttentionInputs& inputs, const AttentionOutput& output,
    const at::Tensor& dout, const ShardPlan& plan, Communicator& group) const {
  const Transfers transfers = PlanTransfers(plan, inputs.mask, group.rank());
  CF_ASSIGN_OR_RETURN(const GatheredKv kv, GatherKv(inputs, transfers, group));
  const GatheredGrads all = GatheredBackward(
      inputs, output, dout, transfers.own().runs, transfers.buffers, kv);
  CF_ASSIGN_OR_RETURN(const KvGrad own, SumHome(all.kv, transfers, group));
  return AttentionGrads{all.dq, own.dk, own.dv};
}

}  // namespace cpfeed
