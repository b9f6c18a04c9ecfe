"""A loader that is ahead of its ranks holds a bounded number of batches."""

import gc
import time
import unittest
import weakref

import numpy as np

import cpfeed
from tests.client.python.serving import ServerTest

MIB = 1 << 20
BUDGET = 32 * MIB
BATCHES = 150


class Loader:
    """One-MiB batches; knows how many of them are alive."""

    def __init__(self):
        self.taken = 0
        self.alive = weakref.WeakSet()

    def __iter__(self):
        for number in range(BATCHES):
            self.taken += 1
            batch = Batch(input_ids=np.full((1, 1 << 16), number),
                          labels=np.full((1, 1 << 16), number + 1))
            batch["input_ids"][0, 0] = -number
            self.alive.add(batch)
            yield batch


class Batch(dict):
    """A dict that weak references may point to."""

    __hash__ = object.__hash__


class MemoryTest(ServerTest):

    def test_loader_is_held_back(self):
        self.create(memory_budget_bytes=BUDGET, max_batch_bytes=MIB)
        loader = Loader()
        feeder = self.feeder(loader).start()
        deadline = time.monotonic() + 30
        # Nobody reads: the session fills, and the loader stands still.
        while self.client.get_session("train").next_step < 5:
            self.assertLess(time.monotonic(), deadline)
        bound = BUDGET // MIB + 2
        with self.reader(credit_bytes=2 * MIB) as reader:
            for step in reader:
                self.assertLessEqual(loader.taken - step.step, bound)
                self.assertLessEqual(
                    self.client.get_session("train").memory_bytes, BUDGET)
                reader.ack(step.step)
        self.assertEqual(feeder.join(30).num_steps, BATCHES)

    def test_sent_batches_are_let_go(self):
        self.create(memory_budget_bytes=BUDGET, max_batch_bytes=MIB)
        loader = Loader()
        most = 0

        def count(progress):
            nonlocal most
            most = max(most, progress.batches_sent - progress.batches_accepted)

        feeder = self.feeder(loader, on_progress=count).start()
        self.read_all()
        feeder.join(30)
        self.assertLessEqual(most, BUDGET // MIB)
        gc.collect()
        self.assertLessEqual(len(loader.alive), 1)


if __name__ == "__main__":
    unittest.main()
