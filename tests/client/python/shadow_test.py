"""The existing sharding beside ours: what differs is said."""

import unittest

import torch

import cpfeed
from cpfeed.torch import ShardDataset, compare_batches, shadow
from tests.client.python.serving import ServerTest, batch_of


def head_tail(batch, cp_rank, cp_size):
    """In-rank sharding as a training loop may have it: rows of one sequence."""
    width = batch["input_ids"].shape[1]
    chunk = width // (2 * cp_size)
    index = torch.cat([torch.arange(chunk) + chunk * part
                       for part in (cp_rank, 2 * cp_size - 1 - cp_rank)])
    return {key: torch.from_numpy(value)[:, index].flatten()
            for key, value in batch.items()}


class ShadowTest(ServerTest):

    def setUp(self):
        super().setUp()
        self.create(2)
        self.batches = [batch_of(number, rows=2) for number in range(5)]
        self.feeder(self.batches).run()
        self.ours = ShardDataset(self.server.address, "train", cp_rank=1)
        self.addCleanup(self.ours.close)

    def existing(self):
        return [head_tail(batch, 1, 2) for batch in self.batches]

    def test_equal_batches(self):
        equal = []
        existing = self.existing()
        yielded = list(shadow(existing, self.ours, steps=3,
                              on_equal=equal.append))
        self.assertEqual(equal, [3])
        self.assertTrue(all(a is b for a, b in zip(yielded, existing)))
        self.assertEqual(len(yielded), 5)

    def test_first_difference_is_told(self):
        existing = self.existing()
        existing[2]["labels"][5] += 1
        existing[3]["labels"][0] += 1
        found = []
        list(shadow(existing, self.ours, on_difference=found.append))
        self.assertEqual(len(found), 1)
        self.assertEqual(str(found[0]), "step 2: labels[5]: existing is 2013, "
                         "ours is 2012; 1 of 8 differ")
        self.assertEqual(found[0].place, (5,))

    def test_difference_raises(self):
        existing = self.existing()
        existing[0].pop("labels")
        existing[0]["loss_mask"] = torch.ones(8)
        with self.assertRaisesRegex(cpfeed.ChecksumMismatch,
                                    "step 0: loss_mask: ours has none"):
            list(shadow(existing, self.ours))

    def test_ours_ends_early(self):
        found = []
        existing = self.existing() + self.existing()[:1]
        list(shadow(existing, self.ours, on_difference=found.append))
        self.assertEqual(str(found[0]), "step 5: : ours has ended")


class CompareTest(unittest.TestCase):

    def test_what_cannot_be_compared(self):
        one = torch.ones(2)
        for existing, ours, text in (
            (one, torch.ones(3), "shape [2], ours has [3]"),
            (one, one.double(), "torch.float32, ours has torch.float64"),
            ("thd", "bshd", "existing is 'thd', ours is 'bshd'"),
            (2, torch.tensor(3), "existing is 2, ours is 3"),
        ):
            found = compare_batches(0, {"x": existing}, {"x": ours})
            self.assertIn(text, str(found))
        nan = torch.tensor([1.0, float("nan")])
        self.assertIsNone(compare_batches(0, {"x": nan}, {"x": nan.clone()}))
        self.assertIsNotNone(compare_batches(0, {"x": nan}, {"x": one}))


if __name__ == "__main__":
    unittest.main()
