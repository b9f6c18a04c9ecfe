"""Wrong use gives errors of a type and with a reason."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import time
import unittest
from unittest import mock

import grpc
import numpy as np

import cpfeed
from cpfeed import api, errors
from tests.client.python.serving import ServerTest, batch_of


def is_running(pid):
    try:
        return ") Z " not in pathlib.Path("/proc", pid, "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


class ErrorsTest(ServerTest):

    def assert_raises(self, kind, reason, text, act):
        with self.assertRaisesRegex(kind, text) as caught:
            act()
        self.assertIs(type(caught.exception), kind)
        self.assertEqual(caught.exception.reason, reason)
        return caught.exception

    def test_call_that_a_stopping_server_cut_may_be_tried_again(self):
        for code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
            error = errors.error_from_status(api.Status(code=code.value[0]))
            self.assertIs(type(error), cpfeed.Unavailable)
        error = errors.error_from_status(
            api.Status(code=grpc.StatusCode.INTERNAL.value[0]))
        self.assertIs(type(error), cpfeed.ServerError)

    def test_call_that_no_thread_was_free_for_is_made_again(self):
        calls = []

        def get(request, context):
            calls.append(request)
            if len(calls) < 3:
                # What gRPC says for a server that is full.
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED,
                              "Server Threadpool Exhausted")
            return api.GetSessionResponse(session={"name": "sessions/a"})

        busy = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
        self.addCleanup(busy.stop, None)
        busy.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "cpfeed.v1.SessionService",
            {"GetSession": grpc.unary_unary_rpc_method_handler(
                get, api.GetSessionRequest.FromString,
                api.GetSessionResponse.SerializeToString)}),))
        port = busy.add_insecure_port("127.0.0.1:0")
        busy.start()
        with cpfeed.Client(f"127.0.0.1:{port}") as client:
            self.assertEqual(client.get_session("a").name, "sessions/a")
        self.assertEqual(len(calls), 3)

    def test_rejected_batch_names_itself(self):
        self.create(2)
        wrong = batch_of(1, width=6)
        feeder = self.feeder([batch_of(0), wrong, batch_of(2)],
                             batch_id=lambda batch: f"w{batch['labels'].shape}")
        error = self.assert_raises(
            cpfeed.BatchRejected, "NOT_DIVISIBLE",
            "batch 1: row 0: 6 .* multiple of 4", feeder.run)
        self.assertEqual((error.sequence, error.batch_id, error.code),
                         (1, "w(1, 6)", "INVALID_ARGUMENT"))
        self.assertIsInstance(error, ValueError)

    def test_errors_of_batches_by_reason(self):
        ids = np.arange(16).reshape(2, 8)
        good = {"input_ids": ids, "labels": ids[::-1]}
        for number, (change, reason, text) in enumerate((
            ({"seq_lens": [[9], [8]]}, "LENGTHS_INCONSISTENT", "9"),
            ({"labels": ids[:, :4]}, "SHAPE_MISMATCH", "labels"),
            ({"attention_mask": np.array([[0, 1] * 4] * 2)},
             "MASK_NOT_SUPPORTED", "row 0"),
            ({"index": ids}, "BATCH_MALFORMED", "reserved"),
        )):
            session = f"s{number}"
            self.create(session=session, memory_budget_bytes=16 << 20,
                        max_batch_bytes=1 << 20)
            self.assert_raises(cpfeed.BatchRejected, reason, text,
                               self.feeder([good | change], session).run)

    def test_too_large_batch_is_not_sent(self):
        self.create(max_batch_bytes=100)
        error = self.assert_raises(
            cpfeed.BatchError, "BATCH_TOO_LARGE",
            "128 bytes; must be at most 100", self.feeder([batch_of(0)]).run)
        self.assertEqual(error.code, "INVALID_ARGUMENT")

    def test_no_session(self):
        text = "there is no session sessions/train"
        self.assert_raises(cpfeed.SessionNotFound, "SESSION_NOT_FOUND", text,
                           self.feeder([], session_wait=0).run)
        self.assert_raises(cpfeed.SessionNotFound, "SESSION_NOT_FOUND", text,
                           lambda: self.reader(session_wait=0))
        self.assert_raises(cpfeed.SessionNotFound, "SESSION_NOT_FOUND", text,
                           lambda: self.client.get_session("train", wait=0.1))

    def test_wrong_rank(self):
        self.create(2)
        self.assert_raises(cpfeed.TopologyMismatch, "TOPOLOGY_MISMATCH",
                           "expects cp_size = 4; the session has 2",
                           lambda: self.reader(cp_size=4))
        self.assert_raises(cpfeed.TopologyMismatch, "TOPOLOGY_MISMATCH",
                           "cp_rank must be below 2", lambda: self.reader(2))

    def test_newer_ones_fence_older_ones(self):
        self.create()
        with self.reader(incarnation=1) as older:
            with self.reader(incarnation=2):
                self.assert_raises(cpfeed.Fenced, "FENCED", "",
                                   lambda: next(iter(older)))
                self.assert_raises(cpfeed.Fenced, "FENCED", "incarnation is 1",
                                   lambda: self.reader(incarnation=1))
        channel = cpfeed.channel.open_channel(self.server.address)
        old = cpfeed.ProducerStream(channel, "train", incarnation=1)
        new = cpfeed.ProducerStream(channel, "train", incarnation=2)
        self.assert_raises(cpfeed.Fenced, "FENCED", "", old.finish)
        old.close()
        new.close()
        self.assert_raises(cpfeed.Fenced, "FENCED", "",
                           self.feeder([], incarnation=1).run)

    def test_sessions_of_other_specs(self):
        self.create(2)
        self.create(2)
        self.assert_raises(cpfeed.SessionExists, "SESSION_EXISTS", "train",
                           lambda: self.create(4))
        self.assert_raises(cpfeed.UsageError, "BAD_OPTION",
                           "layout is 'zigzag'; must be one of CONTIGUOUS",
                           lambda: cpfeed.session_spec(2, layout="zigzag"))

    def test_changed_cursor(self):
        self.create()
        self.feeder([batch_of(0)]).run()
        cursor = cpfeed.api.Cursor.FromString(self.read_all()[0].cursor)
        cursor.step = 7
        changed = cursor.SerializeToString()
        for act in (self.client.seek, self.client.commit):
            self.assert_raises(cpfeed.CursorError, "CURSOR_MISMATCH", "",
                               lambda act=act: act("train", changed))

    def test_server_is_away(self):
        self.server.kill()
        client = cpfeed.Client(self.server.address, timeout=0.2)
        self.assert_raises(cpfeed.Unavailable, "", "does not answer",
                           client.is_serving)
        client.close()
        with self.assertRaises(cpfeed.Unavailable):
            self.feeder([], reconnect_wait=0.1).run()
        with self.assertRaises(cpfeed.Unavailable):
            self.reader(session_wait=0.1)

    def test_binary_is_missing(self):
        with mock.patch.dict(os.environ, CPFEED_SERVER_BIN="/no/such/server"):
            self.assert_raises(cpfeed.UsageError, "",
                               "CPFEED_SERVER_BIN=/no/such/server",
                               cpfeed.LocalServer)

    def test_server_ends_with_the_process_that_made_it(self):
        code = "import cpfeed, os; print(cpfeed.LocalServer().pid, flush=True)"
        code += "; os.kill(os.getpid(), 9)"
        done = subprocess.run([sys.executable, "-c", code], text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, -9, done.stderr)
        deadline = time.monotonic() + 30
        while is_running(done.stdout.strip()):
            self.assertLess(time.monotonic(), deadline)

    def test_nothing_is_opened_before_a_feeder_runs(self):

        class Untouched:
            def __iter__(self):
                raise AssertionError("iterated")

        feeder = cpfeed.Feeder(Untouched(), server="127.0.0.1:1", session="x")
        feeder.close()
        self.assertEqual(feeder.run().batches_sent, 0)

    def test_server_that_does_not_start_tells_why(self):
        with self.assertRaisesRegex(cpfeed.Unavailable, "no TLS"):
            cpfeed.LocalServer("--listen=0.0.0.0:0")


class PlanTest(ServerTest):
    """Dry runs."""

    def test_layouts_side_by_side(self):
        head_tail, contiguous = self.client.plan(
            2, [8, 6], shardings=[
                cpfeed.sharding_spec("HEAD_TAIL_PER_SEQUENCE"),
                cpfeed.sharding_spec("contiguous")], include_segments=True)
        self.assertIn("sequence 1: 6", head_tail.status.message)
        self.assertEqual([list(rank.segments) for rank in contiguous.ranks],
                         [[0, 0, 7], [0, 7, 1, 1, 0, 6]])

    def test_sessions_are_listed(self):
        for number in range(3):
            self.create(session=f"s{number}", memory_budget_bytes=8 << 20,
                        max_batch_bytes=1 << 20)
        self.assertEqual([s.name for s in self.client.list_sessions()],
                         ["sessions/s0", "sessions/s1", "sessions/s2"])
        self.client.delete_session("s1")
        self.client.delete_session("s1", allow_missing=True)
        self.assertEqual(len(list(self.client.list_sessions())), 2)


if __name__ == "__main__":
    unittest.main()
