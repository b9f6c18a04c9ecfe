"""What became of a step: ExplainStep by grpcurl, and `cpfeed explain`."""

import json
import os
import subprocess
import tempfile
import unittest

from tests.integration import real_server

CPFEED = "client/cli/cpfeed"
CREATE = "cpfeed.v1.SessionService/CreateSession"
DELETE = "cpfeed.v1.SessionService/DeleteSession"
PUT = "cpfeed.v1.IngestService/PutBatch"
EXPLAIN = "cpfeed.v1.PlanService/ExplainStep"
SHARD = "cpfeed.v1.ShardService/GetShard"


class ExplainTest(unittest.TestCase):

    def setUp(self):
        self.server = real_server.RealServer("--explain_history=2")
        self.addCleanup(self.server.stop)
        self.ok(CREATE, {"session_id": "one", "session": {
            "topology": {"cp_size": 2},
            "sharding": {"layout": "LAYOUT_HEAD_TAIL_PER_SEQUENCE"}}})

    def ok(self, method, data):
        code, answer = self.server.call(method, data)
        self.assertEqual(code, "OK", answer)
        return answer

    def put(self, lengths, slots, batch_id=""):
        tokens = sum(slots)
        self.ok(PUT, {"session": "sessions/one", "batch_id": batch_id,
                      "data_epoch": 3,
                      "rows": [{"input_ids": [5] * tokens,
                                "labels": [5] * tokens, "seq_lens": lengths,
                                "seq_lens_padded": slots}]})

    def explain(self, *flags):
        return subprocess.run(
            [CPFEED, "explain", "--server", self.server.address, *flags],
            capture_output=True, text=True, timeout=60)

    def test_a_step_tells_where_it_came_from_and_who_got_what(self):
        self.put([7, 4], [8, 4], "monday")
        answer = self.ok(EXPLAIN, {"session": "sessions/one", "step": 0,
                                   "include_segments": True,
                                   "include_lengths": True})
        self.assertEqual(answer["producer"], "default")
        self.assertEqual(answer["batch_id"], "monday")
        self.assertEqual(answer["data_epoch"], "3")
        self.assertEqual(answer["cp_size"], 2)
        self.assertTrue(answer["held"])
        chunk, = answer["chunks"]
        self.assertEqual(chunk["seq_lens"], ["7", "4"])
        self.assertEqual(chunk["seq_lens_padded"], ["8", "4"])
        self.assertEqual(chunk["sequences_per_row"], ["2"])
        ranks = chunk["plan"]["ranks"]
        # Sequence, begin, length: chunks 0 and 3 of four, of each sequence.
        self.assertEqual(ranks[0]["segments"],
                         [0, 0, 2, 0, 6, 2, 1, 0, 1, 1, 3, 1])
        self.assertEqual(chunk["plan"]["metrics"]["padding_tokens"], "1")
        self.assertEqual(chunk["plan"]["bounds"]["max_tokens"], "6")
        shard = self.ok(SHARD, {"session": "sessions/one", "step": 0,
                                "cp_rank": 1})
        self.assertEqual(shard["chunks"][0]["header"]["plan_digest"],
                         chunk["plan"]["plan_digest"])

    def test_what_is_forgotten_and_what_is_to_come_are_told_apart(self):
        code, text = self.server.call(EXPLAIN, {"session": "sessions/one"})
        self.assertEqual(code, "NotFound")
        self.assertIn("no step is published", text)
        for _ in range(3):
            self.put([8], [8])
        code, text = self.server.call(EXPLAIN, {"session": "sessions/one",
                                                "step": 3})
        self.assertEqual(code, "NotFound")
        self.assertIn("step 3 is not published; the last one is 2", text)
        code, text = self.server.call(EXPLAIN, {"session": "sessions/one",
                                                "step": 0})
        self.assertEqual(code, "OutOfRange")
        self.assertIn("step 0 is not remembered", text)
        code, _ = self.server.call(EXPLAIN, {"session": "sessions/two"})
        self.assertEqual(code, "NotFound")

    def test_the_command_answers_for_people(self):
        self.put([7, 4], [8, 4], "monday")
        done = self.explain("one", "--rank", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in ["step 0 is batch 0 of default, epoch 3, id monday; its "
                     "bytes are held",
                     "2 sequences in 1 rows",
                     "rank 0: 0[0,2) 0[6,8) 1[0,1) 1[3,4)"]:
            self.assertIn(line + "\n", done.stdout)
        self.assertNotIn("rank 1:", done.stdout)
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "step.html")
            done = self.explain("one", "--step", "0", "--html", page)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(page, encoding="utf-8") as file:
                self.assertIn("one, step 0 on 2 ranks", file.read())

    def test_the_command_answers_for_scripts(self):
        self.put([7, 4], [8, 4])
        done = self.explain("one", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["chunks"][0]["seq_lens"], [7, 4])
        self.assertEqual(answer["chunks"][0]["ranks"][1]["segments"],
                         [[0, 2, 4], [1, 1, 2]])
        for flags in [("two",), ("one", "--step", "9"),
                      ("one", "--rank", "2")]:
            done = self.explain(*flags, "--json")
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("message", json.loads(done.stdout))


if __name__ == "__main__":
    unittest.main()
