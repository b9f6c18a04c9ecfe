"""cpfeed.torch.ops: the C++ operators, on one process and on two."""

import contextlib
import gc
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.nn import functional

from tests.client.python import torch_ops_wheel

REAL, PADDED = [[5, 8], [3, 12]], [[8, 8], [4, 12]]
TOTAL, HEADS, KV_HEADS, DIM = 32, 4, 2, 8
# Exchange and layout; hierarchical over two ranks is all-to-all inside.
CASES = [("ring", "HEAD_TAIL_PER_SEQUENCE"),
         ("allgather", "HEAD_TAIL_PER_SEQUENCE"), ("allgather", "BALANCED"),
         ("alltoall", "HEAD_TAIL_PER_SEQUENCE"), ("alltoall", "BALANCED"),
         ("hierarchical", "HEAD_TAIL_PER_SEQUENCE"),
         ("planned", "HEAD_TAIL_PER_SEQUENCE"), ("planned", "BALANCED"),
         ("planned", "HEAD_TAIL_PER_ROW")]


def qkv(dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(TOTAL, heads, DIM, generator=generator, dtype=dtype)
            .requires_grad_() for heads in (HEADS, KV_HEADS, KV_HEADS)]


def dense(q, k, v):
    """torch's own attention, document by document; padding gives 0."""
    out = torch.zeros_like(q)
    begin = 0
    for real, padded in zip(sum(REAL, []), sum(PADDED, [])):
        part = slice(begin, begin + real)
        heads = [x[part].transpose(0, 1)[None] for x in (q, k, v)]
        rows = functional.scaled_dot_product_attention(
            *heads, is_causal=True, enable_gqa=True)
        out = torch.cat([out[:begin], rows[0].transpose(0, 1),
                         out[begin + real:]])
        begin += padded
    return out


def weights():
    return torch.linspace(-1, 1, TOTAL * HEADS * DIM, dtype=torch.float64
                         ).reshape(TOTAL, HEADS, DIM)


class Decoder(torch.nn.Module):
    """Two layers of plain torch.nn; `attend` is all that knows of ranks."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        wide = HEADS * DIM
        self.embed = torch.nn.Embedding(50, wide)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(wide)
                                         for _ in range(2))
        self.projections = torch.nn.ModuleList(
            torch.nn.Linear(wide, (HEADS + 2 * KV_HEADS) * DIM)
            for _ in range(2))
        self.outs = torch.nn.ModuleList(torch.nn.Linear(wide, wide)
                                        for _ in range(2))
        self.head = torch.nn.Linear(wide, 50)
        self.double()

    def forward(self, ids, attend):
        x = self.embed(ids)
        for norm, projection, out in zip(self.norms, self.projections,
                                         self.outs):
            heads = projection(norm(x)).reshape(len(ids), -1, DIM)
            rows = attend(*heads.split([HEADS, KV_HEADS, KV_HEADS], dim=1))
            x = x + out(rows.reshape(len(ids), -1))
        return self.head(x)


def loss_of(logits, labels, count):
    return functional.cross_entropy(logits, labels, reduction="sum",
                                    ignore_index=-100) / count


def tokens():
    ids = torch.arange(TOTAL) * 7 % 50
    labels = torch.full((TOTAL,), -100)
    begin = 0
    for real, padded in zip(sum(REAL, []), sum(PADDED, [])):
        labels[begin:begin + real - 1] = ids[begin + 1:begin + real]
        begin += padded
    return ids, labels, int((labels != -100).sum())


def run_rank(rank, store, path):
    sys.path.insert(0, path)
    from cpfeed.errors import UsageError
    from cpfeed.torch import ops
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, 2), rank=rank,
                            world_size=2)
    group = ops.cp_group(dist.group.WORLD)
    assert (group.rank(), group.size()) == (rank, 2)
    for exchange, layout in CASES:
        attention_equals_dense(ops, group, exchange, layout)
        decoder_equals_one_process(ops, group, exchange, layout)
    plan = ops.plan_shards([[8 + 8 * rank]], cp_size=2)
    try:
        ops.check_plan(plan, group)
        raise AssertionError("different plans agreed")
    except UsageError as error:
        assert error.reason == "PLAN_MISMATCH", error
    del group
    dist.destroy_process_group()
    gc.collect()


def attention_equals_dense(ops, group, exchange, layout):
    plan = ops.plan_shards(REAL, PADDED, cp_size=2, layout=layout)
    ops.check_plan(plan, group)
    whole = qkv()
    expected = dense(*whole)
    (expected * weights()).sum().backward()
    grads = [x.grad for x in whole]
    leaves = qkv()
    parts = [ops.shard_by_plan(x, plan, group.rank()) for x in leaves]
    before = group.bytes_received()
    out, _ = ops.cp_attention(*parts, plan, group, exchange=exchange)
    assert group.bytes_received() > before, "nothing came from the other rank"
    torch.testing.assert_close(
        out, ops.shard_by_plan(expected.detach(), plan, group.rank()))
    (out * ops.shard_by_plan(weights(), plan, group.rank())).sum().backward()
    for leaf, grad in zip(leaves, grads):
        dist.all_reduce(leaf.grad)
        torch.testing.assert_close(leaf.grad, grad)


def decoder_equals_one_process(ops, group, exchange, layout):
    ids, labels, count = tokens()
    one = Decoder()
    expected = loss_of(one(ids, dense), labels, count)
    expected.backward()
    plan = ops.plan_shards(REAL, PADDED, cp_size=2, layout=layout)
    ids, labels = (ops.shard_by_plan(x, plan, group.rank())
                   for x in (ids, labels))
    model = Decoder()
    loss = loss_of(
        model(ids, lambda q, k, v: ops.cp_attention(
            q, k, v, plan, group, exchange=exchange)[0]), labels, count)
    loss.backward()
    total = loss.detach().clone()
    dist.all_reduce(total)
    torch.testing.assert_close(total, expected.detach())
    for mine, other in zip(model.parameters(), one.parameters()):
        dist.all_reduce(mine.grad)
        torch.testing.assert_close(mine.grad, other.grad)


class TorchOpsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.path, cls.wheel = torch_ops_wheel.unpacked()
        sys.path.insert(0, cls.path)
        from cpfeed.torch import ops
        cls.ops = ops

    def test_one_process_equals_torch(self):
        for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-5)):
            plan = self.ops.plan_shards(REAL, PADDED, cp_size=1)
            group = self.ops.cp_group()
            ours, theirs = qkv(dtype), qkv(dtype)
            out, lse = self.ops.cp_attention(*ours, plan, group)
            expected = dense(*theirs)
            torch.testing.assert_close(out, expected, atol=tolerance, rtol=0)
            self.assertEqual(float(lse[5, 0]), float("-inf"))  # A pad row.
            (out * weights().to(dtype)).sum().backward()
            (expected * weights().to(dtype)).sum().backward()
            for mine, other in zip(ours, theirs):
                torch.testing.assert_close(mine.grad, other.grad,
                                           atol=10 * tolerance, rtol=0)

    def test_gradients_are_those_of_differences(self):
        plan = self.ops.plan_shards([[3, 4]], cp_size=1)
        group = self.ops.cp_group()
        inputs = [x[:7, :2, :3].detach().clone().requires_grad_()
                  for x in qkv()]
        self.assertTrue(torch.autograd.gradcheck(
            lambda q, k, v: self.ops.cp_attention(q, k, v, plan, group)[0],
            inputs))
        wide = self.ops.plan_shards([[3, 4]], cp_size=2, layout="BALANCED",
                                    token_multiple=3)
        self.assertTrue(torch.autograd.gradcheck(
            lambda x: self.ops.shard_by_plan(x, wide, 1), inputs[:1]))

    def test_shards_by_plan(self):
        plan = self.ops.plan_shards([[3]], [[8]], cp_size=2)
        rows = self.ops.shard_by_plan(torch.arange(8), plan, 0)
        self.assertEqual(rows.tolist(), [0, 1, 6, 7])
        self.assertEqual(plan.index(1).tolist(), [2, 3, 4, 5])
        padded = self.ops.plan_shards([[3]], cp_size=2, layout="BALANCED",
                                      token_multiple=4)
        parts = [self.ops.shard_by_plan(torch.tensor([5, 6, 7]), padded, rank,
                                        fill=-1) for rank in range(2)]
        self.assertEqual(sorted(torch.cat(parts).tolist()),
                         [-1] * 5 + [5, 6, 7])

    def test_refusals_have_code_and_reason(self):
        from cpfeed.errors import UsageError
        plan = self.ops.plan_shards([[8]], cp_size=1)
        group = self.ops.cp_group()
        q = torch.zeros(8, 2, 4)
        for call, reason in (
                (lambda: self.ops.plan_shards([[6]], cp_size=2),
                 "NOT_DIVISIBLE"),
                (lambda: self.ops.plan_shards([[6]], cp_size=0), "BAD_OPTION"),
                (lambda: self.ops.plan_shards([[6]], [[3, 3]], cp_size=1),
                 "LENGTHS_INCONSISTENT"),
                (lambda: self.ops.shard_by_plan(q[:5], plan, 0),
                 "SHAPE_MISMATCH"),
                (lambda: self.ops.shard_by_plan(q, plan, 1), "BAD_OPTION"),
                (lambda: self.ops.cp_attention(q[:5], q, q, plan, group),
                 "SHAPE_MISMATCH"),
                (lambda: self.ops.cp_attention(q, q, q, plan, group,
                                               exchange="pigeon"),
                 "BAD_OPTION")):
            with self.assertRaises(UsageError) as caught:
                call()
            self.assertEqual(caught.exception.reason, reason)
            self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")

    def test_plan_of_a_batch(self):
        import cpfeed
        import numpy as np
        ours = self.ops.plan_shards(REAL, PADDED, cp_size=2, layout="STRIPED",
                                    stripe_width=2)

        def batch_plan(digest):
            cu, cu_padded = (np.cumsum([0, *sum(rows, [])], dtype=np.int32)
                             for rows in (REAL, PADDED))
            none = np.zeros(0, np.int32)
            sharding = cpfeed.session_spec(cp_size=2).sharding
            sharding.stripe_width = 2
            return cpfeed.ShardPlan(
                digest=digest, layout="STRIPED", sharding=sharding, cp_rank=0,
                cp_size=2, total_tokens=TOTAL, num_tokens=TOTAL // 2,
                num_label_tokens=0, max_seqlen=12, max_seqlen_padded=12,
                cu_seqlens=cu, cu_seqlens_padded=cu_padded,
                local_cu_seqlens=none, local_cu_seqlens_padded=none,
                sequences_per_row=np.array([2, 2], np.int32), segments=none)

        digest = ours.digest() % (1 << 64)
        again = self.ops.plan_of(batch_plan(digest))
        self.assertEqual(again.index(1).tolist(), ours.index(1).tolist())
        with self.assertRaises(cpfeed.ChecksumMismatch) as caught:
            self.ops.plan_of(batch_plan(digest ^ 1))
        self.assertEqual(caught.exception.reason, "PLAN_MISMATCH")

    def test_page_prints_what_it_shows(self):
        page = pathlib.Path("docs/torch_ops.md").read_text()
        self.assertIn("\nclient/torch_ops/make_wheel dist\n", page)
        code, shown = (re.search(f"^```{kind}\n(.*?)^```$", page,
                                 re.M | re.S).group(1)
                       for kind in ("python", "output"))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "docs/torch_ops.md", "exec"), {})
        self.assertEqual(out.getvalue(), shown)

    def test_two_processes_equal_one(self):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(
                run_rank, (os.path.join(folder, "store"), self.path), 2)

    def test_wheel_has_no_path_of_the_build_machine(self):
        paths = {os.getcwd(), sys.prefix, os.path.expanduser("~"),
                 os.path.realpath(torch_ops_wheel.LIBRARY).split("/bazel")[0],
                 "/home/", "/dev/shm", "execroot"} - {"/"}
        with zipfile.ZipFile(self.wheel) as wheel:
            for name in wheel.namelist():
                data = wheel.read(name)
                for path in paths:
                    self.assertNotIn(path.encode(), data, name)
            metadata, = (wheel.read(name).decode() for name in wheel.namelist()
                         if name.endswith("METADATA"))
        torch_version = torch.__version__.split("+")[0]
        self.assertIn(f"Requires-Dist: torch=={torch_version}\n", metadata)

    def import_error(self, init):
        """What importing the ops says where the wheel is `init`."""
        with tempfile.TemporaryDirectory() as folder:
            if init is not None:
                package = pathlib.Path(folder, "cpfeed_torch_ops")
                package.mkdir()
                (package / "__init__.py").write_text(init)
            done = subprocess.run(
                [sys.executable, "-c", "import cpfeed.torch.ops"], text=True,
                capture_output=True, timeout=60,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(
                    [folder, os.path.abspath("client/python")])})
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def test_without_the_wheel_tells_how_to_get_it(self):
        self.assertIn("client/torch_ops/make_wheel", self.import_error(None))

    def test_wheel_for_another_torch_is_refused(self):
        self.assertIn("built for cpfeed 0.1.0 and torch 1.2.3",
                      self.import_error('VERSION = "0.1.0"\n'
                                        'TORCH_VERSION = "1.2.3"\n'))


if __name__ == "__main__":
    unittest.main()
