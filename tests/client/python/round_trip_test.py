"""What loaders put in comes out at the ranks, bit for bit."""

import unittest

import numpy as np
import torch

import cpfeed
from tests.client.python.serving import ServerTest, unshard

ROWS, WIDTH = 4, 64
TOKENS = ROWS * WIDTH


def random_bytes(generator, shape, dtype):
    """Any bits, NaN and infinities too; of bool 0 and 1."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    data = generator.integers(0, 256, size, np.uint8)
    if dtype == np.bool_:
        data &= 1
    return data.view(dtype).reshape(shape)


class RoundTripTest(ServerTest):

    def setUp(self):
        super().setUp()
        self.generator = np.random.default_rng(7)
        ids = self.generator.integers(0, 1 << 40, (ROWS, WIDTH))
        self.batch = {"input_ids": ids, "labels": ids + 1,
                      "seq_lens": [[64], [30, 20], [8] * 8, [1, 50]],
                      "seq_lens_padded": [[64], [40, 24], [8] * 8, [8, 56]]}

    def send(self, batch, cp_size, form=cpfeed.BatchFormat(), **spec):
        self.create(cp_size, **spec)
        self.feeder([batch], form=form).run()
        return [steps[0].chunks for steps in self.read_ranks(cp_size)]

    def test_every_dtype_of_numpy(self):
        names = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16",
                 "float32", "float64")
        for name in names:
            self.batch["x_" + name] = random_bytes(
                self.generator, (ROWS, WIDTH, 3), np.dtype(name))
        ranks = self.send(self.batch, 2)
        for name in names:
            back = unshard([chunks[0] for chunks in ranks], "x_" + name)
            self.assertEqual(back.dtype, np.dtype(name))
            self.assertEqual(back.tobytes(),
                             self.batch["x_" + name].tobytes(), name)

    def test_tensors_and_bfloat16(self):
        bits = torch.from_numpy(random_bytes(self.generator, (ROWS, WIDTH, 2),
                                             np.int16))
        batch = {key: torch.from_numpy(value)
                 for key, value in self.batch.items()
                 if isinstance(value, np.ndarray)}
        batch["x"] = bits.view(torch.bfloat16).requires_grad_()
        ranks = self.send(batch, 4)
        self.assertEqual(ranks[0][0].dtypes["x"], "bfloat16")
        back = unshard([chunks[0] for chunks in ranks], "x")
        self.assertEqual(back.tobytes(), bits.numpy().tobytes())

    def test_what_is_not_contiguous(self):
        ids = self.batch["input_ids"]
        wide = np.zeros((ROWS, 2 * WIDTH), ids.dtype)
        wide[:, ::2] = ids
        self.batch["input_ids"] = wide[:, ::2]
        self.batch["labels"] = np.asfortranarray(ids)
        self.batch["big_endian"] = ids.astype(">i4")
        chunks = [chunks[0] for chunks in self.send(self.batch, 2)]
        for name in ("input_ids", "labels"):
            np.testing.assert_array_equal(unshard(chunks, name), ids.ravel())
        np.testing.assert_array_equal(unshard(chunks, "big_endian"),
                                      ids.astype(np.int32).ravel())

    def test_embeddings_and_positions_of_several_components(self):
        batch = {
            "input_ids": self.generator.normal(size=(2, 16, 5)).astype("f4"),
            "labels": np.ones((2, 16), np.int64),
            "position_ids": np.arange(96).reshape(3, 2, 16),
            "weights": np.arange(96).reshape(3, 2, 16)}
        form = cpfeed.BatchFormat(sequence_axes={"weights": 2})
        chunks = [chunks[0] for chunks in self.send(batch, 2, form)]
        np.testing.assert_array_equal(unshard(chunks, "input_ids"),
                                      batch["input_ids"].reshape(32, 5))
        for name in ("position_ids", "weights"):
            np.testing.assert_array_equal(unshard(chunks, name, 1),
                                          batch[name].reshape(3, 32))

    def test_chunks_are_independent(self):
        ranks = self.send(self.batch, 2, num_chunks=2)
        for number in range(2):
            back = unshard([chunks[number] for chunks in ranks], "input_ids")
            np.testing.assert_array_equal(
                back, self.batch["input_ids"][2 * number:2 * number + 2].ravel())

    def test_lengths_are_those_of_the_batch(self):
        plans = [chunks[0].plan for chunks in self.send(self.batch, 2)]
        real = [64, 30, 20] + [8] * 8 + [1, 50]
        slots = [64, 40, 24] + [8] * 8 + [8, 56]
        local = np.zeros(len(real) + 1, int)
        for plan in plans:
            self.assertEqual(plan.digest, plans[0].digest)
            self.assertEqual(plan.layout, "HEAD_TAIL_PER_SEQUENCE")
            self.assertEqual((plan.max_seqlen, plan.max_seqlen_padded),
                             (64, 64))
            np.testing.assert_array_equal(plan.cu_seqlens, np.cumsum([0] + real))
            np.testing.assert_array_equal(plan.cu_seqlens_padded,
                                          np.cumsum([0] + slots))
            local += plan.local_cu_seqlens
        np.testing.assert_array_equal(local, plans[0].cu_seqlens)

    def test_large_batch_of_many_messages(self):
        ids = self.generator.integers(0, 1 << 60, (2, 1 << 18))
        batch = {"input_ids": ids, "labels": ids + 1,
                 "seq_lens": [[1 << 18], [1 << 18]]}
        chunks = [chunks[0] for chunks in self.send(
            batch, 3, layout="CONTIGUOUS", uneven=True,
            max_message_bytes=100_000)]
        np.testing.assert_array_equal(unshard(chunks, "input_ids"), ids.ravel())

    def test_tensors_are_aligned(self):
        self.batch["one_byte"] = np.ones((ROWS, WIDTH), np.bool_)
        self.batch["then_eight"] = np.ones((ROWS, WIDTH), np.float64)
        for chunks in self.send(self.batch, 2):
            for tensor in chunks[0].tensors.values():
                self.assertEqual(tensor.ctypes.data % 64, 0)


if __name__ == "__main__":
    unittest.main()
