"""Shapes and values that frameworks get, against rows sharded here."""

import contextlib
import pathlib
import unittest

import numpy as np
import torch

import cpfeed
from cpfeed.adapters import automodel, megatron, torchtitan
from cpfeed.torch import ShardDataset
from tests.client.python.serving import ServerTest

CP = 2


class Mesh:
    """The part of a DeviceMesh that adapters ask."""

    mesh_dim_names = ("cp",)

    def __init__(self, size, rank):
        self._size, self._rank = size, rank

    def size(self):
        return self._size

    def get_local_rank(self):
        return self._rank

    def __getitem__(self, name):
        assert name == "cp"
        return self


class AdaptersTest(ServerTest):

    def batches(self, batch, **spec):
        """What each rank gets of one batch."""
        self.create(CP, **spec)
        self.feeder([batch]).run()
        got = []
        for rank in range(CP):
            dataset = ShardDataset(self.server.address, "train", cp_rank=rank)
            got.append(next(iter(dataset)))
            dataset.close()
        return got

    def packed(self, **spec):
        """Two rows: slots of 8 (6 real) and 4, and of 12 (12 real)."""
        ids = np.arange(24).reshape(2, 12)
        labels = ids + 1
        labels[0, 5:8] = -100
        return self.batches({
            "input_ids": ids, "labels": labels,
            "loss_mask": np.full((2, 12), 0.5, np.float32),
            "seq_lens": [[6, 4], [12]], "seq_lens_padded": [[8, 4], [12]]},
            **spec)

    # Of rank 0: chunks 0 and 3 of each slot, of 2, 1 and 3 tokens.
    RANK0 = [0, 1, 6, 7, 8, 11, 12, 13, 14, 21, 22, 23]

    def test_automodel(self):
        for rank, batch in enumerate(self.packed()):
            context, made = automodel.make_cp_batch_and_ctx(Mesh(CP, rank),
                                                            batch)
            self.assertIs(context, contextlib.nullcontext)
            self.assertEqual(set(made), {
                "input_ids", "labels", "position_ids", "padding_mask",
                "loss_mask", "cu_seqlens", "max_seqlen", "qkv_format",
                "cp_size", "cp_rank"})
            self.assertEqual(made["cu_seqlens"].tolist(), [0, 8, 12, 24])
            self.assertEqual(int(made["max_seqlen"]), 12)
            self.assertEqual(made["cp_rank"], rank)
            if rank == 0:
                self.assertEqual(made["input_ids"].tolist(), self.RANK0)
                self.assertEqual(made["padding_mask"].tolist(),
                                 [False] * 2 + [True] * 2 + [False] * 8)

    def test_automodel_chunks(self):
        batch = self.packed(num_chunks=2)[0]
        made = automodel.make_cp_batch_for_te(Mesh(CP, 0), batch, num_chunks=2)
        self.assertEqual(made["input_ids"].tolist(),
                         [self.RANK0[:6], self.RANK0[6:]])
        self.assertEqual(made["cu_seqlens"].tolist(),
                         [[0, 8, 12], [0, 12, -1000]])
        self.assertEqual(made["max_seqlen"].tolist(), [8, 12])

    def test_automodel_refuses_what_does_not_fit(self):
        batch = self.packed()[1]
        make = automodel.make_cp_batch_for_te
        with self.assertRaises(cpfeed.TopologyMismatch):
            make(Mesh(CP, 0), batch)
        with self.assertRaises(cpfeed.TopologyMismatch):
            make(None, batch)
        with self.assertRaisesRegex(cpfeed.UsageError, "num_chunks is 4"):
            make(Mesh(CP, 1), batch, num_chunks=4)
        with self.assertRaisesRegex(cpfeed.UsageError, "has no plan"):
            make(Mesh(CP, 1), {"input_ids": torch.ones(1, 4)})
        with self.assertRaisesRegex(ValueError, "got: bshd"):
            make(Mesh(CP, 1), batch, "bshd")
        for options in ({"use_te": False}, {"loss_mask": torch.ones(2)}):
            with self.assertRaises(cpfeed.UsageError):
                automodel.make_cp_batch_and_ctx(Mesh(CP, 1), batch, **options)

    def test_megatron(self):
        made = megatron.get_batch(iter(self.packed()), CP, 0)
        self.assertEqual(made["tokens"].tolist(), [self.RANK0])
        self.assertEqual(made["labels"].tolist(),
                         [[1, 2, 0, 0, 9, 12, 13, 14, 15, 22, 23, 24]])
        self.assertEqual(made["loss_mask"].tolist(),
                         [[0.5] * 2 + [0.0] * 2 + [0.5] * 8])
        self.assertEqual(made["position_ids"].tolist(),
                         [[0, 1, 6, 7, 0, 3, 0, 1, 2, 9, 10, 11]])
        self.assertIsNone(made["attention_mask"])
        self.assertEqual(made["num_label_tokens"], 21)
        fields = made["packed_seq_params"]
        for side in ("q", "kv"):
            self.assertEqual(fields[f"cu_seqlens_{side}"].tolist(),
                             [0, 6, 10, 22])
            self.assertEqual(fields[f"cu_seqlens_{side}_padded"].tolist(),
                             [0, 8, 12, 24])
            self.assertEqual(fields[f"cu_seqlens_{side}"].dtype, torch.int32)
            self.assertEqual(fields[f"max_seqlen_{side}"], 12)
        self.assertEqual(fields["qkv_format"], "thd")

    def test_megatron_refuses_what_does_not_fit(self):
        ranks = self.packed(num_chunks=2)
        with self.assertRaisesRegex(cpfeed.TopologyMismatch,
                                    "cp_rank 0; the mesh has 1"):
            megatron.get_batch(iter(ranks), CP, 1)
        with self.assertRaisesRegex(cpfeed.UsageError, "has 2 chunks"):
            megatron.get_batch(iter(ranks))

    def test_torchtitan(self):
        ids = torch.arange(24).reshape(2, 12)
        batch = {"input_ids": ids, "labels": ids + 1, "weight": ids.double()}
        ranks = self.batches(batch, layout="HEAD_TAIL_PER_ROW")
        for rank, (inputs, labels) in enumerate(
                torchtitan.TitanBatches(ranks)):
            chunks = ids.chunk(2 * CP, dim=1)
            expected = torch.cat([chunks[rank], chunks[2 * CP - 1 - rank]], 1)
            self.assertTrue(torch.equal(inputs["input"], expected))
            self.assertTrue(torch.equal(labels, expected + 1))
            self.assertTrue(torch.equal(inputs["positions"], expected % 12))
            self.assertTrue(torch.equal(inputs["weight"], expected.double()))
            self.assertEqual(set(inputs), {"input", "positions", "weight"})

    def test_torchtitan_wants_its_layout(self):
        with self.assertRaisesRegex(cpfeed.UsageError,
                                    "must be HEAD_TAIL_PER_ROW"):
            torchtitan.to_torchtitan(self.packed()[0])


class SizeTest(unittest.TestCase):

    def test_adapters_are_short(self):
        for module in (automodel, megatron, torchtitan):
            lines = pathlib.Path(module.__file__).read_text().count("\n")
            self.assertLessEqual(lines, 100, module.__name__)


if __name__ == "__main__":
    unittest.main()
