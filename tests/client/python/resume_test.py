"""Connections that break and servers that are exchanged: loaders and ranks go
on by themselves, and every rank has every step once."""

import signal
import threading
import unittest

import cpfeed
from cpfeed.history import StepHistory
from tests.client.python.serving import Proxy, ServerTest, batch_of

STEPS = 40
WIDTH = 4096
SPEC = {"max_batch_bytes": 70_000, "memory_budget_bytes": 2 << 20,
        "max_step_skew": 3}


def batches(changed_from=STEPS):
    return [batch_of(number if number < changed_from else 1000 + number,
                     width=WIDTH) for number in range(STEPS)]


class Rank(threading.Thread):
    """Reads all steps, and says when it has had some."""

    def __init__(self, address, cp_rank, spec, pause_at=()):
        super().__init__(daemon=True)
        self.steps = []
        self.error = None
        self.pauses = {step: (threading.Event(), threading.Event())
                       for step in pause_at}
        self.reader = cpfeed.ShardReader(address, "train", cp_rank=cp_rank,
                                         spec=spec)

    def run(self):
        try:
            for step in self.reader:
                self.steps.append(
                    (step.step, int(step.chunks[0].tensors["input_ids"][0])))
                self.reader.ack(step.step)
                if step.step in self.pauses:
                    reached, go_on = self.pauses[step.step]
                    reached.set()
                    go_on.wait(60)
        except cpfeed.CpfeedError as error:
            self.error = error
        self.reader.close()


class ResumeTest(ServerTest):

    def start(self, source, pauses=(), **options):
        spec = cpfeed.session_spec(2, **SPEC)
        self.client.create_session("train", spec)
        self.ranks = [Rank(self.server.address, rank, spec, pauses)
                      for rank in range(2)]
        self.feeder_thread = self.feeder(source, stay=True,
                                         **options).start()
        for rank in self.ranks:
            rank.start()

    def exchange_server(self, number):
        """At a pause of both ranks."""
        self.server._process.send_signal(number)
        if number == signal.SIGTERM:
            # It goes when the ranks have what it has.
            self.release()
        self.server._process.wait(60)
        self.server = cpfeed.LocalServer(f"--listen={self.server.address}",
                                         "--drain_budget=1s")
        self.addCleanup(self.server.stop)

    def reach(self, step):
        for rank in self.ranks:
            self.assertTrue(rank.pauses[step][0].wait(60), rank.error)
        self.at = step

    def release(self):
        for rank in self.ranks:
            rank.pauses[self.at][1].set()

    def finish(self):
        for rank in self.ranks:
            rank.join(60)
            self.assertFalse(rank.is_alive())

    def assert_whole(self):
        for number, rank in enumerate(self.ranks):
            self.assertIsNone(rank.error)
            self.assertEqual([step for step, _ in rank.steps],
                             list(range(STEPS)))
            begin = number * WIDTH // 4
            self.assertEqual([value for _, value in rank.steps],
                             [1000 * step + begin for step in range(STEPS)])

    def test_killed_servers_cost_no_step(self):
        self.start(batches(), pauses=(0, 7, 23))
        for step in (0, 7, 23):
            self.reach(step)
            self.exchange_server(signal.SIGKILL)
            self.release()
        self.finish()
        self.assert_whole()
        self.assertGreaterEqual(self.ranks[0].reader.reconnects, 3)
        progress = self.feeder_thread.join(60)
        self.assertEqual(progress.num_steps, STEPS)
        self.assertGreaterEqual(progress.rewinds, 3)

    def test_drained_servers_cost_no_step(self):
        self.start(batches(), pauses=(5, 20))
        for step in (5, 20):
            self.reach(step)
            self.exchange_server(signal.SIGTERM)
        self.finish()
        self.assert_whole()

    def test_server_that_dies_when_the_loader_is_done(self):
        self.start(batches(), pauses=(STEPS - 2,))
        self.reach(STEPS - 2)
        while self.feeder_thread.progress.num_steps < 0:
            pass
        self.exchange_server(signal.SIGKILL)
        self.release()
        self.finish()
        self.assert_whole()
        self.feeder_thread.join(60)

    def test_loader_that_gives_other_batches_is_found(self):
        # The second pass over the source differs from batch 9 on.
        class Unsteady:
            passes = 0

            def __iter__(self):
                self.passes += 1
                return iter(batches(9 if self.passes > 1 else STEPS))

        self.start(Unsteady(), pauses=(12,))
        self.reach(12)
        self.exchange_server(signal.SIGKILL)
        self.release()
        self.finish()
        for rank in self.ranks:
            self.assertIsInstance(rank.error, cpfeed.SequenceConflict)
            self.assertIn("comes again with other content", str(rank.error))
        self.client.delete_session("train", force=True)

    def test_broken_connections_cost_no_step(self):
        proxy = Proxy(self.server.address)
        self.addCleanup(proxy.close)
        self.create(**SPEC)
        feeder = cpfeed.Feeder(batches(), server=proxy.address,
                               session="train").start()
        steps = []
        with cpfeed.ShardReader(proxy.address, "train", cp_rank=0) as reader:
            for step in reader:
                steps.append(step.step)
                if step.step % 2:  # Some are acknowledged late.
                    reader.ack(step.step)
                if step.step % 9 == 4:
                    proxy.cut()
        self.assertEqual(steps, list(range(STEPS)))
        self.assertGreater(reader.reconnects, 2)
        self.assertGreater(reader.data_wait_seconds, 0)
        progress = feeder.join(60)
        self.assertEqual(progress.num_steps, STEPS)
        self.assertGreater(progress.wait_seconds, 0)

    def test_who_does_not_want_to_wait_does_not(self):
        self.create(**SPEC)
        reader = self.reader(reconnect_wait=0)
        self.server.kill()
        with self.assertRaises(cpfeed.Unavailable):
            next(iter(reader))
        reader.close()

    def test_trainer_that_goes_back_meanwhile_is_noticed(self):
        proxy = Proxy(self.server.address)
        self.addCleanup(proxy.close)
        self.create(**SPEC)
        self.feeder(batches()[:8]).start()
        reader = cpfeed.ShardReader(proxy.address, "train", cp_rank=0)
        self.addCleanup(reader.close)
        steps = iter(reader)
        first = next(steps)
        reader.ack(first.step)
        next(steps)
        proxy.cut()
        self.client.seek("train", first.cursor)
        with self.assertRaises(cpfeed.Rewound):
            for _ in steps:
                pass


class StepHistoryTest(unittest.TestCase):

    def test_safe_cursor_is_the_skew_behind(self):
        history = StepHistory(5, b"4", 2)
        self.assertEqual(history.safe_cursor, b"4")
        for step, safe in [(5, b"4"), (6, b"4"), (7, b"5"), (8, b"6")]:
            self.assertTrue(history.take(step, step, b"%d" % step))
            self.assertEqual(history.safe_cursor, safe)
        self.assertFalse(history.take(7, 7, b"7"))
        self.assertEqual(history.next_step, 9)
        with self.assertRaises(cpfeed.SequenceConflict):
            history.take(7, 8)


if __name__ == "__main__":
    unittest.main()
