"""Metrics and the status page of the real server."""

import unittest

from tests.integration.real_server import RealServer

CREATE = "cpfeed.v1.SessionService/CreateSession"
DELETE = "cpfeed.v1.SessionService/DeleteSession"
PUT = "cpfeed.v1.IngestService/PutBatch"


def rows(ids):
    """One row of two sequences: 6 tokens in a slot of 8, and 8."""
    return [{"input_ids": ids, "labels": ids, "seq_lens": [6, 8],
             "seq_lens_padded": [8, 8]}]


class MetricsTest(unittest.TestCase):
    """Each test has a server of its own: it counts from 0."""

    def setUp(self):
        self.server = RealServer(
            "--metrics_listen=127.0.0.1:0", "--status_listen=127.0.0.1:0",
            "--metrics_max_sessions=1")
        self.addCleanup(self.server.stop)

    def ok(self, method, data):
        code, answer = self.server.call(method, data)
        self.assertEqual(code, "OK", answer)
        return answer

    def create(self, name, cp_size=2):
        self.ok(CREATE, {"session_id": name,
                         "session": {"topology": {"cp_size": cp_size}}})

    def test_a_batch_is_counted_and_a_deleted_session_leaves_nothing(self):
        self.create("one")
        self.ok(PUT, {"session": "sessions/one", "rows": rows([7] * 16)})
        now = self.server.metrics()
        expected = {
            'cpfeed_batches_total{outcome="accepted"}': 1,
            'cpfeed_tokens_total{kind="real"}': 14,
            'cpfeed_tokens_total{kind="pad"}': 2,
            "cpfeed_steps_published_total": 1,
            "cpfeed_steps_retained": 1,
            'cpfeed_sessions{state="RUNNING"}': 1,
            'cpfeed_session_next_step{session="one"}': 1,
            'cpfeed_consumer_ack_lag_steps{session="one",cp_rank="1",'
            'consumer="0"}': 1,
            'cpfeed_producer_expected_sequence{session="one",'
            'producer="default"}': 1,
            # Head and tail of each sequence: even but for rounding.
            "cpfeed_plan_imbalance_ratio_count": 1,
            'cpfeed_newest_plan{session="one",figure="max_tokens"}': 8,
            'cpfeed_newest_plan_bound{session="one",figure="max_tokens"}': 7,
            'cpfeed_newest_plan{session="one",figure="padding_tokens"}': 2,
        }
        for name, value in expected.items():
            self.assertEqual(now.get(name), value, name)
        self.assertGreater(now['cpfeed_memory_bytes{pool="held"}'], 0)
        self.assertGreater(now["cpfeed_memory_limit_bytes"], 0)
        self.ok(DELETE, {"name": "sessions/one", "force": True})
        after = self.server.metrics()
        for name, value in after.items():
            if name.startswith(("cpfeed_memory", "cpfeed_ingest_queue",
                                "cpfeed_credit", "cpfeed_steps_retained",
                                "cpfeed_sessions", "cpfeed_streams")):
                self.assertEqual(value, 0, name)
            self.assertNotIn('session="one"', name)
        self.assertEqual(after["cpfeed_steps_published_total"], 1)

    def test_refused_and_repeated_batches_are_told_apart(self):
        self.create("one")
        put = {"session": "sessions/one", "rows": rows([7] * 16),
               "sequence": 0}
        self.ok(PUT, put)
        self.ok(PUT, put)
        code, _ = self.server.call(
            PUT, {"session": "sessions/one",
                  "rows": [{"input_ids": [1] * 6, "labels": [1] * 6,
                            "seq_lens": [6]}]})
        self.assertEqual(code, "InvalidArgument")
        now = self.server.metrics()
        for outcome in ["accepted", "duplicate", "rejected"]:
            name = f'cpfeed_batches_total{{outcome="{outcome}"}}'
            self.assertEqual(now[name], 1, outcome)
        handled = ('grpc_server_handled_total{grpc_code="%s",'
                   'grpc_method="PutBatch",'
                   'grpc_service="cpfeed.v1.IngestService",'
                   'grpc_type="unary"}')
        self.assertEqual(now[handled % "OK"], 2)
        self.assertEqual(now[handled % "InvalidArgument"], 1)

    def test_batches_of_the_same_lengths_are_planned_once(self):
        self.create("one")
        for _ in range(3):
            self.ok(PUT, {"session": "sessions/one", "rows": rows([7] * 16)})
        now = self.server.metrics()
        lookups = 'cpfeed_plan_cache_lookups_total{result="%s"}'
        self.assertEqual(now[lookups % "miss"], 1)
        self.assertEqual(now[lookups % "hit"], 2)
        self.assertGreater(now["cpfeed_plan_cache_bytes"], 0)

    def test_only_so_many_sessions_have_labels_but_all_are_in_the_sums(self):
        self.create("a")
        self.create("b")
        now = self.server.metrics()
        self.assertIn('cpfeed_session_next_step{session="a"}', now)
        self.assertNotIn('cpfeed_session_next_step{session="b"}', now)
        self.assertEqual(now['cpfeed_sessions{state="READY"}'], 2)

    def test_status_page_shows_positions_and_the_plan(self):
        self.create("one")
        self.ok(PUT, {"session": "sessions/one", "rows": rows([7] * 16)})
        status, page = self.server.get("status", "/statusz")
        self.assertEqual(status, 200)
        # Two slots of 8 in chunks of 2: rank 0 has the first and the last.
        for line in ["sessions/one: RUNNING, cp_size 2, generation 1",
                     "  producer default: next batch 1, not connected",
                     "  consumer 1.0: sent -1, acknowledged -1, lag 1, not "
                     "connected",
                     "    rank 0  ##....####....##",
                     "    rank 1  ..####....####.."]:
            self.assertIn(line + "\n", page)
        self.assertIn("  step 0: 16 tokens, plan ", page)

    def test_listeners_serve_their_page_and_nothing_else(self):
        for listener, path in [("metrics", "/statusz"), ("metrics", "/"),
                               ("status", "/metrics"),
                               ("metrics", "/metrics/../../etc/passwd")]:
            self.assertEqual(self.server.get(listener, path)[0], 404, path)
        self.assertEqual(
            self.server.get("metrics", "/metrics", method="POST")[0], 405)


if __name__ == "__main__":
    unittest.main()
