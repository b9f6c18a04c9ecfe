"""Streams that are cancelled, killed, or over their deadline give their slot
back, and the rank attaches again."""

import json
import signal
import subprocess
import time
import unittest

import cpfeed
from tests.integration.raw_streams import RawLoader, RawRank, batch_of
from tests.integration.real_server import GRPCURL, RealServer, until
from tests.integration.soak import sample

STREAM = "cpfeed.v1.ShardService/StreamShards"


class CancelTest(unittest.TestCase):
    """One server with a session of four steps."""

    @classmethod
    def setUpClass(cls):
        cls.server = RealServer()
        cls.addClassCleanup(cls.server.stop)
        with cpfeed.Client(cls.server.address) as client:
            client.create_session("train", cpfeed.session_spec(2))
        loader = RawLoader(cls.server.address)
        loader.opened()
        for number in range(4):
            loader.put(number, batch_of(number))
            loader.receipt()
        loader.close()

    def streams(self):
        code, answer = self.server.call("cpfeed.v1.AdminService/GetStatistics",
                                        {})
        self.assertEqual(code, "OK", answer)
        return answer.get("consumer_streams", 0)

    def attach(self, incarnation):
        rank = RawRank(self.server.address, cp_rank=1, incarnation=incarnation)
        rank.read_kind("attached")
        return rank

    def test_a_hundred_cancelled_streams_leave_nothing(self):
        self.attach(1).close()
        before = sample(self.server.process.pid)["threads"]
        for number in range(100):
            rank = self.attach(2 + number)
            for step in range(4 if number % 2 else 0):
                self.assertEqual(rank.next_step()[0], step)
            rank.close()
        until(lambda: self.streams() == 0, seconds=5)
        self.assertLessEqual(
            sample(self.server.process.pid)["threads"] - before, 8)
        rank = self.attach(1000)
        self.assertEqual(rank.next_step()[0], 0)
        rank.close()

    def client(self, *flags):
        """A rank as a process of its own, attached."""
        process = subprocess.Popen(
            [GRPCURL, "-plaintext", *flags, "-d", "@", self.server.address,
             STREAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(self.kill, process)
        process.stdin.write(json.dumps({"attach": {
            "session": "sessions/train", "cp_rank": 0,
            "incarnation": time.time_ns()}}))
        process.stdin.flush()
        while "attached" not in (line := process.stdout.readline()):
            self.assertTrue(line)
        self.assertEqual(self.streams(), 1)
        return process

    @staticmethod
    def kill(process):
        process.kill()
        process.communicate()

    def test_a_killed_client_gives_its_slot_back(self):
        self.kill(self.client())
        until(lambda: self.streams() == 0, seconds=5)

    def test_a_deadline_ends_a_stream_whose_client_stands_still(self):
        process = self.client("-max-time", "3")
        process.send_signal(signal.SIGSTOP)  # No cancellation comes from it.
        until(lambda: self.streams() == 0, seconds=9)


if __name__ == "__main__":
    unittest.main()
