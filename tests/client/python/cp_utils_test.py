"""cpfeed.torch.cp_utils: torch.nn modules under context parallel."""

import gc
import os
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.nn import functional

from tests.client.python import torch_ops_wheel

ROWS, WIDTH, WIDE, WORDS = 2, 16, 32, 50


class Attention(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(WIDE, 2 * WIDE)
        self.out = torch.nn.Linear(WIDE, WIDE)

    def forward(self, x, attention_mask=None, is_causal=False):
        assert attention_mask is None
        heads = self.qkv(x).reshape(*x.shape[:2], 8, 8).transpose(1, 2)
        q, k, v = heads.split([4, 2, 2], dim=1)
        rows = functional.scaled_dot_product_attention(
            q, k, v, is_causal=is_causal, enable_gqa=True)
        return self.out(rows.transpose(1, 2).reshape(x.shape))


class Layer(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDE)
        self.self_attn = Attention()

    def forward(self, x):
        mask = torch.zeros(ROWS, 1, WIDTH, WIDTH)
        return x + self.self_attn(self.norm(x), attention_mask=mask)


class Decoder(torch.nn.Module):

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.embed = torch.nn.Embedding(WORDS, WIDE)
        self.places = torch.nn.Embedding(WIDTH, WIDE)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(2))
        self.head = torch.nn.Linear(WIDE, WORDS)
        self.double()

    def forward(self, ids, positions):
        x = self.embed(ids) + self.places(positions)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def loss_of(model, ids, positions, labels):
    return functional.cross_entropy(model(ids, positions).flatten(0, 1),
                                    labels.flatten(),
                                    reduction="sum") / (ROWS * WIDTH)


def batch():
    ids = torch.arange(ROWS * WIDTH).reshape(ROWS, WIDTH) * 7 % WORDS
    return {"input_ids": ids, "labels": (ids + 1) % WORDS}


def run_rank(rank, store, path):
    sys.path.insert(0, path)
    from cpfeed.torch import cp_utils
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, 2), rank=rank,
                            world_size=2)
    for method in ("allgather", "alltoall"):
        decoder_equals_one_process(cp_utils, method, hooks_alone=False)
    decoder_equals_one_process(cp_utils, "allgather", hooks_alone=True)
    multi_head_attention_goes_over_ranks(cp_utils, rank)
    refusals(cp_utils)
    batches_are_made(cp_utils, rank)
    dist.destroy_process_group()
    gc.collect()


def decoder_equals_one_process(cp_utils, method, hooks_alone):
    """With `hooks_alone` attention goes over ranks by attach_cp_sdpa_hooks and
    not by the context."""
    world = dist.group.WORLD
    one = Decoder()
    cp_utils.attach_context_parallel_hooks(one)
    whole = cp_utils._build_position_ids(batch(), "cpu")
    expected = loss_of(one, whole["input_ids"], whole["position_ids"],
                       whole["labels"])
    expected.backward()
    model = Decoder()
    assert len(cp_utils.attach_context_parallel_hooks(model)) == 2
    assert not cp_utils.attach_context_parallel_hooks(model)
    names = ("input_ids", "labels", "position_ids")
    mine = cp_utils._build_position_ids(batch(), "cpu")
    tensors = [mine[name] for name in names]
    context = cp_utils.create_context_parallel_ctx(
        world, tensors, [1, 1, 1], tensors[:2], method)
    if hooks_alone:
        assert len(cp_utils.attach_cp_sdpa_hooks(model, world)) == 4
        assert not cp_utils.attach_cp_sdpa_hooks(model, world)
        with context:
            pass
        parts = [x.clone() for x in tensors[:2]]
        rank, size = dist.get_rank(), WIDTH // 4
        parts.append(torch.cat([whole["position_ids"].narrow(1, r * size, size)
                                for r in (rank, 3 - rank)], 1))
        loss = loss_of(model, parts[0], parts[2], parts[1])
        loss.backward()
    else:
        train = cp_utils.get_train_context(False, False, context)
        with train():
            assert tensors[2].shape == (1, WIDTH // 2)
            loss = loss_of(model, tensors[0], tensors[2], tensors[1])
            loss.backward()
    assert tensors[0].shape == (ROWS, WIDTH // 2)  # Not restored.
    assert torch.equal(tensors[2], whole["position_ids"])
    total = loss.detach().clone()
    dist.all_reduce(total)
    torch.testing.assert_close(total, expected.detach())
    for ours, theirs in zip(model.parameters(), one.parameters()):
        dist.all_reduce(ours.grad)
        torch.testing.assert_close(ours.grad, theirs.grad)


def multi_head_attention_goes_over_ranks(cp_utils, rank):
    torch.manual_seed(5)
    module = torch.nn.MultiheadAttention(WIDE, 4, batch_first=True).double()
    whole = torch.randn(1, WIDTH, WIDE, dtype=torch.float64)
    expected, _ = module(whole, whole, whole, need_weights=False)
    x = whole.clone()
    with cp_utils.create_context_parallel_ctx(dist.group.WORLD, [x], [1], []):
        out, _ = module(x, x, x, need_weights=False)
    size = WIDTH // 4
    torch.testing.assert_close(out, torch.cat(
        [expected.narrow(1, r * size, size) for r in (rank, 3 - rank)], 1))


def batches_are_made(cp_utils, rank):
    mesh = torch.distributed.device_mesh.init_device_mesh(
        "cpu", (1, 2), mesh_dim_names=("dp", "cp"))
    whole = batch()
    mine = {**batch(), "attention_mask": torch.ones(ROWS, WIDTH)}
    mask = torch.ones(ROWS, WIDTH)
    context, mine = cp_utils.make_cp_batch_and_ctx(mesh, mine, mask)
    with context():
        assert mine["position_ids"].shape == mask[:1].shape == (1, WIDTH // 2)
    assert "attention_mask" not in mine
    assert mine["position_ids"].tolist() == [list(range(WIDTH))]
    size = WIDTH // 4
    assert torch.equal(mine["labels"], torch.cat(
        [whole["labels"].narrow(1, r * size, size) for r in (rank, 3 - rank)],
        1))
    refused("KeyError", lambda: cp_utils.make_cp_batch_and_ctx(
        mesh, {"input_ids": whole["input_ids"]}))
    packed = {**whole, "position_ids": torch.arange(WIDTH).expand(ROWS, WIDTH),
              "seq_lens": torch.tensor([[5, 8], [16, -1000]]),
              "seq_lens_padded": torch.tensor([[8, 8], [16, -1000]])}
    context, te = cp_utils.make_cp_batch_and_ctx(mesh, packed, use_te=True)
    slots = [0, 8, 16, 32]
    index = [place for begin, end in zip(slots, slots[1:])
             for r in (rank, 3 - rank)
             for place in range(begin + r * (end - begin) // 4,
                                begin + (r + 1) * (end - begin) // 4)]
    ids = whole["input_ids"].flatten()
    assert torch.equal(te["input_ids"], ids[index])
    assert te["cu_seqlens"].tolist() == slots
    assert (te["cp_size"], te["cp_rank"], te["qkv_format"]) == (2, rank, "thd")
    chunk = cp_utils.make_cp_batch_for_te(None, packed)
    assert torch.equal(chunk["input_ids"], ids)
    again = cp_utils._shard_thd_chunk_for_te(chunk, mesh["cp"], "thd", -1000, 0)
    assert torch.equal(again["input_ids"], te["input_ids"])
    refused("ValueError", lambda: cp_utils.make_cp_batch_for_te(
        None, packed, "bshd"))
    refused("ValueError", lambda: cp_utils._shard_thd_chunk_for_te(
        chunk, mesh["cp"], "bshd", -1000, 0))


def refused(reason, call):
    from cpfeed.errors import UsageError
    try:
        call()
    except UsageError as error:
        assert error.reason == reason, error
        return
    raise AssertionError(f"not refused: {reason}")


def refusals(cp_utils):
    world = dist.group.WORLD
    create = cp_utils.create_context_parallel_ctx
    x = torch.zeros(1, 6)

    def enter(context):
        with context:
            pass

    refused("BAD_OPTION", lambda: create(world, [], [], [], "addtoall"))
    refused("SHAPE_MISMATCH", lambda: create(world, [x], [], []))
    refused("BAD_OPTION", lambda: create(world, [x], [1], [x.clone()]))
    refused("NOT_DIVISIBLE", lambda: enter(create(world, [x], [1], [])))
    refused("SHAPE_MISMATCH", lambda: enter(create(world, [x], [2], [])))
    grad = torch.zeros(1, 8, requires_grad=True)
    refused("BAD_OPTION", lambda: enter(create(world, [grad], [1], [])))
    refused("NOT_SUPPORTED",
            lambda: cp_utils.get_train_context(False, True))
    train = cp_utils.get_train_context(True, False)
    enter(train())
    refused("", lambda: enter(train()))
    q = torch.zeros(1, 1, 2, 4)
    with create(world, [], [], []):
        refused("MASK_NOT_SUPPORTED",
                lambda: functional.scaled_dot_product_attention(
                    q, q, q, attn_mask=torch.zeros(2, 2)))
        refused("NOT_SUPPORTED",
                lambda: functional.scaled_dot_product_attention(
                    q, q, q, dropout_p=0.5))


class CpUtilsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.path, _ = torch_ops_wheel.unpacked()
        sys.path.insert(0, cls.path)

    def test_two_processes_equal_one(self):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(
                run_rank, (os.path.join(folder, "store"), self.path), 2)

    def test_linear_attention_is_handed_positions(self):
        from cpfeed.torch import cp_utils
        seen = []

        class Linear(torch.nn.Module):
            def forward(self, x):
                seen.append(self._cached_position_ids)
                return x

        class Hybrid(torch.nn.Module):
            layer_type = "linear_attention"

            def __init__(self):
                super().__init__()
                self.linear_attn = Linear()

            def forward(self, x, position_ids=None):
                return self.linear_attn(x)

        model = torch.nn.Sequential(Hybrid())
        self.assertEqual(
            len(cp_utils.attach_linear_attn_position_hooks(model)), 2)
        self.assertFalse(cp_utils.attach_linear_attn_position_hooks(model))
        positions = torch.arange(3)
        model[0](torch.zeros(3), position_ids=positions)
        model[0](torch.zeros(3))
        self.assertIs(seen[0], positions)
        self.assertIsNone(seen[1])


if __name__ == "__main__":
    unittest.main()
