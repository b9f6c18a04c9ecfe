#include "core/attention/ring_pass.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "core/attention/block_attention.h"
#include "core/attention/block_attention_grad.h"
#include "core/attention/tensor_bytes.h"
#include "core/attention/tile_plan.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// Keys and values, or their gradients, of a block.
struct Block {
  at::Tensor k;
  at::Tensor v;
};

// The walk of blocks past one place of the ring.
class RingWalk {
 public:
  RingWalk(const AttentionInputs& inputs, const Ring& ring, Communicator& group)
      : inputs_(inputs), ring_(ring), group_(group) {}

  int size() const { return static_cast<int>(ring_.members.size()); }

  // Whose block is here at `step`; at -1 whose comes after the last.
  const Ring::Member& Source(int step) const {
    return ring_.members[(ring_.place + 2 * size() - step) % size()];
  }

  TilePlan Tiles(int step) const {
    return PlanTiles(ring_.members[ring_.place].block.runs,
                     Source(step).block.runs, inputs_.mask);
  }

  // Where the block of the next step arrives: the buffer of two steps ago,
  // whose block has been passed on.
  Block RoomFor(int next_step) {
    Block& room = rooms_[next_step % 2];
    if (!room.k.defined()) room = MakeRoom();
    const int64_t rows = Source(next_step).block.num_rows;
    return {room.k.narrow(0, 0, rows), room.v.narrow(0, 0, rows)};
  }

  // Adds passing `send` on, and `receive` from the place before, to the next
  // Start().
  void Pass(const Block& send, const Block& receive) {
    for (const at::Tensor& tensor : {send.k, send.v}) {
      sends_.push_back({Source(-1).rank, BytesOf(tensor)});
    }
    for (const at::Tensor& tensor : {receive.k, receive.v}) {
      receives_.push_back({Source(1).rank, MutableBytesOf(tensor)});
    }
  }

  absl::StatusOr<std::unique_ptr<PendingExchange>> Start() {
    return group_.StartExchange(std::exchange(sends_, {}),
                                std::exchange(receives_, {}));
  }

 private:
  Block MakeRoom() const {
    int64_t rows = 0;
    for (const Ring::Member& member : ring_.members) {
      rows = std::max(rows, member.block.num_rows);
    }
    const auto room = [&](const at::Tensor& like) {
      return at::empty({rows, like.size(1), like.size(2)}, like.options());
    };
    return {room(inputs_.k), room(inputs_.v)};
  }

  const AttentionInputs& inputs_;
  const Ring& ring_;
  Communicator& group_;
  std::array<Block, 2> rooms_;
  std::vector<SendPart> sends_;
  std::vector<ReceivePart> receives_;
};

Block RoomLike(const KvGrad& grad) {
  return {at::empty_like(grad.dk), at::empty_like(grad.dv)};
}

void AddTo(const KvGrad& into, const Block& from) {
  into.dk.add_(from.k);
  into.dv.add_(from.v);
}

}  // namespace

absl::StatusOr<AttentionOutput> RingForward(const AttentionInputs& inputs,
                                            const Ring& ring,
                                            Communicator& group) {
  RingWalk walk(inputs, ring, group);
  BlockAttention attention(inputs.q, inputs.v.size(2), inputs.scale);
  Block block = {inputs.k, inputs.v};
  for (int step = 0; step < walk.size(); ++step) {
    Block next;
    std::unique_ptr<PendingExchange> pass;
    if (step + 1 < walk.size()) {
      next = walk.RoomFor(step + 1);
      walk.Pass(block, next);
      CF_ASSIGN_OR_RETURN(pass, walk.Start());
    }
    attention.Add(walk.Tiles(step), block.k, block.v);
    if (pass != nullptr) CF_RETURN_IF_ERROR(pass->Wait());
    block = next;
  }
  return AttentionOutput{attention.Output(), attention.lse()};
}

absl::StatusOr<AttentionGrads> RingBackward(const AttentionInputs& inputs,
                                            const AttentionOutput& output,
                                            const at::Tensor& dout,
                                            const Ring& ring,
                                            Communicator& group) {
  RingWalk walk(inputs, ring, group);
  BlockAttentionGrad attention(inputs.q, output.out, output.lse, dout,
                               inputs.scale);
  KvGrad own, travelling;
  Block block = {inputs.k, inputs.v};
  for (int step = 0; step < walk.size(); ++step) {
    const KvGrad grad =
        KvGrad::Zeros(walk.Source(step).block.num_rows, inputs.k, inputs.v);
    Block next, arriving;
    if (step + 1 < walk.size()) {
      next = walk.RoomFor(step + 1);
      walk.Pass(block, next);
    }
    if (step > 1) {  // The gradient of `block`, from who had it before.
      arriving = RoomLike(grad);
      walk.Pass({travelling.dk, travelling.dv}, arriving);
    }
    CF_ASSIGN_OR_RETURN(const auto pass, walk.Start());
    attention.Add(walk.Tiles(step), block.k, block.v, grad);
    CF_RETURN_IF_ERROR(pass->Wait());
    if (step > 1) AddTo(grad, arriving);
    (step == 0 ? own : travelling) = grad;
    block = next;
  }
  if (walk.size() > 1) {
    const Block home = RoomLike(own);
    walk.Pass({travelling.dk, travelling.dv}, home);
    CF_ASSIGN_OR_RETURN(const auto pass, walk.Start());
    CF_RETURN_IF_ERROR(pass->Wait());
    AddTo(own, home);
  }
  return AttentionGrads{attention.dq(), own.dk, own.dv};
}

}  // namespace cpfeed
