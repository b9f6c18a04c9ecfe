"""The budget is a cap: a rank that stands still and eight loaders that send all
they may, or all they can, do not take more memory than was given."""

import threading
import time
import unittest

import numpy as np

import cpfeed
from cpfeed import api
from cpfeed.batches import encode_batch
from cpfeed.channel import open_channel
from cpfeed.producer import ProducerStream
from tests.integration.raw_streams import RawLoader, RawRank, batch_of
from tests.integration.real_server import RealServer, until
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


def settles(server):
    """Whether the server's memory still moves."""
    before = sample(server.process.pid)["rss_bytes"]
    time.sleep(0.2)
    return sample(server.process.pid)["rss_bytes"] != before


class Flood:
    """A loader of a session of its own that the server cannot read: one batch
    waits for memory that a rank which stands still holds, and behind it as many
    as the converter takes. It sends on without regard to credit."""

    SESSION_BUDGET = 4 << 16
    WAITING = 16  # Batches that a stream takes up while one is converted.

    def __init__(self, server, client, session):
        client.create_session(session, cpfeed.session_spec(
            16, auto_pad=True, max_batch_bytes=1 << 16,
            memory_budget_bytes=self.SESSION_BUDGET))
        self.rank = RawRank(server.address, session)
        self.rank.read_kind("attached")
        self.loader = RawLoader(server.address, session)
        self.loader.opened()
        self.loader.put(0, batch_of(0, width=2048))
        self.loader.receipt()
        # Each token becomes a slot of 32.
        ones = np.arange(200).reshape(1, 200)
        self.loader.put(1, encode_batch(
            {"input_ids": ones, "labels": ones, "seq_lens": [[1] * 200]}))
        for number in range(self.WAITING):
            self.loader.put(2 + number, batch_of(number, width=32))

    def begin(self):
        request = api.PutBatchesRequest()
        request.chunk.offset = 0
        request.payload = bytes(1 << 20)
        message = request.SerializeToString()
        threading.Thread(target=self._pour, args=(message,),
                         daemon=True).start()

    def _pour(self, message):
        for _ in range(64):
            self.loader.send_bytes(message)

    def close(self):
        self.loader.close()
        self.rank.close()


class MemoryCapTest(unittest.TestCase):
    """Each test has a server of its own."""

    def most_under_flood(self, *flags):
        """By how many bytes a server grows that eight loaders flood."""
        server = RealServer(*flags)
        self.addCleanup(server.stop)
        with cpfeed.Client(server.address) as client:
            floods = [Flood(server, client, name) for name in LOADERS]
        until(lambda: not settles(server))
        at_rest = sample(server.process.pid)["rss_bytes"]
        for flood in floods:
            flood.begin()
        most = at_rest
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < 3:
            now = sample(server.process.pid)["rss_bytes"]
            if now > most:
                most, quiet_since = now, time.monotonic()
            time.sleep(0.02)
        for flood in floods:
            flood.close()
        return most - at_rest

    def test_loaders_that_pay_no_heed_to_credit_take_a_window_each(self):
        self.assertLess(self.most_under_flood(), SLACK)

    def test_by_default_grpc_would_take_more(self):
        # What the cap rests on: without the window the test before fails.
        self.assertGreater(self.most_under_flood("--stream_window_bytes=0"),
                           SLACK)

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
