"""SIGTERM under load, and draining by hand: nothing that was accepted is lost,
and clients see UNAVAILABLE or nothing."""

import signal
import threading
import time
import unittest

import numpy as np

import cpfeed
from cpfeed import api
from cpfeed.batches import encode_batch
from cpfeed.channel import open_channel
from cpfeed.producer import ProducerStream
from tests.integration.real_server import RealServer, until

ADMIN = "cpfeed.v1.AdminService/"


class Loader(threading.Thread):
    """Puts batches until the stream ends."""

    def __init__(self, address, producer="default"):
        super().__init__()
        self.channel = open_channel(address)
        self.steps = []  # Of receipts.
        self.error = None
        self.stream = ProducerStream(
            self.channel, "train", producer,
            on_receipt=lambda receipt: self.steps.append(receipt.step))

    def run(self):
        ids = np.arange(4096).reshape(1, 4096)
        batch = {"input_ids": ids, "labels": ids}
        try:
            while True:
                self.stream.put(encode_batch(batch))
        except cpfeed.CpfeedError as error:
            self.error = error
        self.channel.close()


class NoticingReader(cpfeed.ShardReader):
    """Remembers the notice, which the reader itself passes over."""

    notice = None
    cursor = b""

    def _read(self):
        response, payload = super()._read()
        if response.WhichOneof("message") == "drain":
            self.notice = response.drain
            self.cursor = bytes(payload)
        return response, payload


class Rank(threading.Thread):
    """Reads and acknowledges until the stream ends."""

    def __init__(self, address, cp_rank, enough, acks=True, consumer=0):
        super().__init__()
        self.enough = enough
        self.acks = acks
        self.steps = []
        self.error = None
        self.some = threading.Event()
        self.reader = NoticingReader(address, "train", cp_rank=cp_rank,
                                     consumer=consumer, reconnect_wait=0)

    def run(self):
        try:
            for step in self.reader:
                self.steps.append(step.step)
                if len(self.steps) >= self.enough:
                    self.some.set()
                if self.acks:
                    self.reader.ack(step.step)
        except cpfeed.CpfeedError as error:
            self.error = error
        self.reader.close()


class DrainTest(unittest.TestCase):
    """Each test has a server of its own."""

    def start(self, *flags, acks=True):
        self.server = RealServer("--probe_listen=127.0.0.1:0", *flags)
        self.addCleanup(self.server.stop)
        self.client = cpfeed.Client(self.server.address)
        self.addCleanup(self.client.close)
        self.probe = cpfeed.Client("127.0.0.1:" + self.server.ports["probe"])
        self.addCleanup(self.probe.close)
        self.client.create_session("train", cpfeed.session_spec(2))
        # Where one stands still the others get no further than the skew.
        self.ranks = [Rank(self.server.address, rank, 20 if acks else 1,
                           acks=acks or rank == 0) for rank in range(2)]
        self.loader = Loader(self.server.address)
        for thread in [*self.ranks, self.loader]:
            thread.start()
        for rank in self.ranks:
            self.assertTrue(rank.some.wait(60))

    def join(self):
        for thread in [*self.ranks, self.loader]:
            thread.join(60)
            self.assertFalse(thread.is_alive())

    def signalled(self):
        """Sends SIGTERM; returns when readiness is off."""
        self.server.process.send_signal(signal.SIGTERM)
        until(lambda: not self.probe.is_serving("readiness"))

    def assert_unavailable(self):
        for thread in [*self.ranks, self.loader]:
            self.assertEqual(thread.error.code, "UNAVAILABLE", thread.error)

    def test_what_is_accepted_is_delivered_to_all_ranks(self):
        self.start("--drain_budget=40s")
        begin = time.monotonic()
        self.server.process.send_signal(signal.SIGTERM)
        self.join()
        self.assertEqual(self.server.process.wait(60), 0)
        self.assertLess(time.monotonic() - begin, 40)
        self.assert_unavailable()
        for thread in [*self.ranks, self.loader]:
            self.assertEqual(thread.error.reason, "DRAINING")
        self.assertGreater(len(self.loader.steps), 0)
        accepted = list(range(len(self.loader.steps)))
        self.assertEqual(self.loader.steps, accepted)
        for rank in self.ranks:
            self.assertEqual(rank.steps, accepted)
        # In band: how long, and where to go on.
        leader, other = (rank.reader for rank in self.ranks)
        self.assertGreater(leader.notice.deadline.seconds, 20)
        cursor = api.Cursor.FromString(leader.cursor)
        self.assertGreaterEqual(cursor.step, 20)
        self.assertLess(cursor.step, len(accepted))
        self.assertEqual(cursor.producers[0].next_sequence, cursor.step + 1)
        self.assertEqual(other.cursor, b"")

    def test_several_loaders_and_ranks_lose_nothing_under_load(self):
        server = RealServer("--drain_budget=40s")
        self.addCleanup(server.stop)
        names = ["a", "b", "c"]
        with cpfeed.Client(server.address) as client:
            client.create_session("train", cpfeed.session_spec(
                4, consumers_per_cp_rank=2, producers=names))
        ranks = [Rank(server.address, number // 2, 20, consumer=number % 2)
                 for number in range(8)]
        loaders = [Loader(server.address, name) for name in names]
        for thread in [*ranks, *loaders]:
            thread.start()
        for rank in ranks:
            self.assertTrue(rank.some.wait(60))
        begin = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - begin, 40)
        for thread in [*ranks, *loaders]:
            thread.join(60)
            self.assertEqual((thread.error.code, thread.error.reason),
                             ("UNAVAILABLE", "DRAINING"))
        # Every consumer has each step, and what has a receipt is among them. A
        # batch that waited for another loader's turn may lack its receipt.
        delivered = list(range(len(ranks[0].steps)))
        for rank in ranks:
            self.assertEqual(rank.steps, delivered)
            self.assertIsNotNone(rank.reader.notice)
        accepted = {step for loader in loaders for step in loader.steps}
        self.assertLessEqual(accepted, set(delivered))
        self.assertLess(len(delivered) - len(accepted), len(names))
        cursor = api.Cursor.FromString(ranks[0].reader.cursor)
        self.assertEqual([p.producer for p in cursor.producers], names)
        self.assertEqual(sum(p.next_sequence for p in cursor.producers),
                         cursor.step + 1)

    def test_readiness_goes_first_and_liveness_stays(self):
        # A rank that acknowledges nothing keeps the server from ending.
        self.start("--drain_budget=60s", acks=False)
        self.signalled()
        self.assertTrue(self.probe.is_serving("liveness"))
        with self.assertRaises(cpfeed.CpfeedError) as refused:
            self.client.create_session("more", cpfeed.session_spec(1))
        self.assertEqual((refused.exception.code, refused.exception.reason),
                         ("UNAVAILABLE", "DRAINING"))
        begin = time.monotonic()
        self.assertIsNone(self.server.process.poll())
        # The second one does not wait.
        self.assertEqual(self.server.stop(), 0)
        self.assertLess(time.monotonic() - begin, 20)
        self.join()
        self.assert_unavailable()

    def test_the_budget_is_kept_where_a_rank_does_not_move(self):
        self.start("--drain_budget=3s", acks=False)
        begin = time.monotonic()
        self.assertEqual(self.server.stop(), 0)
        self.assertLess(time.monotonic() - begin, 20)
        self.join()
        self.assert_unavailable()

    def test_an_operator_drains_and_takes_back(self):
        self.start("--drain_budget=5s")
        for _ in range(2):
            self.assertEqual(self.server.call(ADMIN + "Drain", {})[0], "OK")
        self.join()
        self.assert_unavailable()
        self.assertFalse(self.probe.is_serving("readiness"))
        info = self.server.call(ADMIN + "GetServerInfo", {})[1]
        self.assertIs(info["draining"], True)
        statistics = self.server.call(ADMIN + "GetStatistics", {})[1]
        self.assertEqual(int(statistics["published_steps"]),
                         len(self.loader.steps))
        self.assertEqual(
            {stage["stage"] for stage in statistics["stages"]
             if int(stage.get("count", 0)) >= 20},
            {"receive", "decode", "plan", "shard", "send"})
        for _ in range(2):
            self.assertEqual(self.server.call(ADMIN + "Undrain", {})[0], "OK")
        self.assertTrue(self.probe.is_serving("readiness"))
        # Sessions go on where they were.
        loader = Loader(self.server.address)
        self.assertEqual(loader.stream.next_sequence, len(self.loader.steps))
        loader.start()
        until(lambda: len(loader.steps) > 0)
        self.assertEqual(loader.steps[0], len(self.loader.steps))
        self.assertEqual(self.server.stop(), 0)
        loader.join(60)
        self.assertEqual(loader.error.code, "UNAVAILABLE")

    def test_the_log_tells_streams_and_traces_and_its_level_is_set(self):
        self.start("--drain_budget=5s")
        trace = "0af7651916cd43dd8448eb211c80319c"
        code, answer = self.server.call(
            ADMIN + "SetLogLevel", {"level": "info"}, "-H",
            f"traceparent: 00-{trace}-b7ad6b7169203331-01")
        self.assertEqual((code, answer), ("OK", {"previous_level": "info"}))
        until(lambda: any(
            "event=log_level_set level=info trace_id=" + trace in line
            for line in self.server.log))
        code, _ = self.server.call(ADMIN + "SetLogLevel", {"level": "loud"})
        self.assertEqual(code, "InvalidArgument")
        self.assertEqual(self.server.stop(), 0)
        self.join()
        log = "".join(self.server.log)
        self.assertIn("event=stream_opened kind=consumer "
                      "session=sessions/train cp_rank=1 consumer=0 step=0",
                      log)
        self.assertIn("event=stream_ended kind=producer "
                      "session=sessions/train producer=default "
                      "code=UNAVAILABLE reason=DRAINING", log)
        self.assertIn("event=stopped", log)


if __name__ == "__main__":
    unittest.main()
