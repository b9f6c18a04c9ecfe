"""The budget is a cap: a rank that stands still and eight loaders that send all
they may do not take more memory than the session was given."""

import threading
import time
import unittest

import numpy as np

import cpfeed
from cpfeed.batches import encode_batch
from cpfeed.channel import open_channel
from cpfeed.producer import ProducerStream
from tests.integration.real_server import RealServer
from tests.integration.soak import sample

LOADERS = [f"loader{i}" for i in range(8)]
BUDGET = 64 << 20
# What gRPC holds of a stream, and what the process is larger by than at rest:
# docs/operations.md.
SLACK = (4 << 20) * (len(LOADERS) + 2) + (16 << 20)


class Loader(threading.Thread):
    """Puts batches of half a MiB until the stream ends."""

    def __init__(self, address, producer):
        super().__init__()
        self.channel = open_channel(address)
        self.stream = ProducerStream(self.channel, "train", producer)
        self.sent = 0

    def run(self):
        ids = np.arange(1 << 15).reshape(1, 1 << 15)
        batch = encode_batch({"input_ids": ids, "labels": ids})
        try:
            while True:
                self.stream.put(batch)
                self.sent += 1
        except cpfeed.CpfeedError:
            pass
        self.channel.close()


class MemoryCapTest(unittest.TestCase):
    """One server with one session."""

    def test_a_rank_that_stands_still_costs_no_more_than_the_budget(self):
        server = RealServer()
        self.addCleanup(server.stop)
        with cpfeed.Client(server.address) as client:
            client.create_session("train", cpfeed.session_spec(
                2, producers=LOADERS, memory_budget_bytes=BUDGET,
                max_batch_bytes=1 << 20))
        at_rest = sample(server.process.pid)["rss_bytes"]
        loaders = [Loader(server.address, name) for name in LOADERS]
        # Both ranks attach; neither reads or acknowledges.
        ranks = [cpfeed.ShardReader(server.address, "train", cp_rank=rank)
                 for rank in range(2)]
        for loader in loaders:
            loader.start()
        most = self.watch(server, loaders)
        self.assertGreater(most - at_rest, BUDGET / 8)  # They did send.
        self.assertLess(most - at_rest, BUDGET + SLACK)
        server.stop()
        for loader in loaders:
            loader.join(60)
        for rank in ranks:
            rank.close()

    def watch(self, server, loaders):
        """The most resident bytes until nobody sends any more for a while."""
        most = 0
        sent, quiet_since = -1, time.monotonic()
        while time.monotonic() - quiet_since < 2:
            most = max(most, sample(server.process.pid)["rss_bytes"])
            now = sum(loader.sent for loader in loaders)
            if now != sent:
                sent, quiet_since = now, time.monotonic()
            time.sleep(0.01)
        return most


if __name__ == "__main__":
    unittest.main()
