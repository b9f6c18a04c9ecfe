"""python -m cpfeed doctor finds what is wrong."""

import json
import os
import subprocess
import sys
import unittest

import cpfeed
from tests.client.python.serving import ServerTest

GOOD = {"CPFEED_SERVER": "h{ordinal}:1", "CPFEED_REPLICAS": "2",
        "CPFEED_MESH": "pp=2,dp=3,cp=4,tp=5", "CPFEED_JOB": "j"}


class DoctorTest(ServerTest):

    def doctor(self, *options, **environment):
        done = subprocess.run(
            [sys.executable, "-m", "cpfeed", "doctor", *options], text=True,
            capture_output=True, timeout=60, env={**os.environ, **environment})
        return done.returncode, done.stdout, done.stderr

    def test_all_is_well(self):
        self.create(2, layout="STRIPED")
        status, out, _ = self.doctor(
            "--server", self.server.address, "--session", "train", "--cp_size",
            "2", "--layout", "striped")
        self.assertEqual(status, 0, out)
        self.assertNotIn("FAIL", out)
        self.assertIn("sessions/train is READY, at step 0, cp_size 2", out)
        self.assertIn("not connected: producer default, cp_rank 0 consumer 0",
                      out)

    def test_job_of_the_environment(self):
        self.create(2, "mine-dp1", consumers_per_cp_rank=3)
        environment = {"CPFEED_SERVER": self.server.address, "RANK": "9",
                       "CPFEED_MESH": "dp=2,cp=2,tp=3", "CPFEED_JOB": "mine"}
        status, out, _ = self.doctor(**environment)
        self.assertEqual(status, 0, out)
        self.assertIn("rank 9 of 12 is cp_rank 1 of 2, consumer 0 of 3, in "
                      "session mine-dp1", out)
        status, out, _ = self.doctor(**environment | {
            "CPFEED_MESH": "dp=2,cp=6"})
        self.assertEqual(status, 1)
        self.assertIn("FAIL session: sessions/mine-dp1 is READY, at step 0, "
                      "cp_size 2; cp_size is 2; must be 6; "
                      "consumers_per_cp_rank is 3; must be 1", out)

    def test_what_is_wrong_fails(self):
        self.create(2)
        server = ("--server", self.server.address)
        for options, text in (
            ((*server, "--session", "other"), "there is no session"),
            ((*server, "--session", "a b"), "names: session 'a b'; must be"),
            ((*server, "--session", "train", "--layout", "PTRR"),
             "layout: HEAD_TAIL_PER_SEQUENCE; must be PTRR"),
            (("--server", "127.0.0.1:1", "--timeout", "0.2"),
             "server: the server does not answer within 0.2 s"),
        ):
            status, out, _ = self.doctor(*options)
            self.assertEqual(status, 1)
            self.assertIn("FAIL", out)
            self.assertIn(text, out)

    def test_json(self):
        status, out, _ = self.doctor("--server", self.server.address, "--json")
        self.assertEqual(status, 0)
        self.assertEqual([finding["name"] for finding in json.loads(out)],
                         ["versions", "torch", "server"])

    def test_usage(self):
        self.assertEqual(self.doctor("--nonsense")[0], 2)
        status, out, _ = self.doctor(CPFEED_MESH="cp=2,cp=2")
        self.assertEqual(status, 1)
        self.assertIn("CPFEED_SERVER is not set", out)


class JobTest(unittest.TestCase):

    def test_place_in_the_mesh(self):
        #  rank = ((pp * 3 + dp) * 4 + cp) * 5 + tp
        job = cpfeed.Job.from_environment(
            GOOD | {"RANK": str(((1 * 3 + 2) * 4 + 3) * 5 + 4)})
        self.assertEqual((job.dp_rank, job.dp_size), (2, 3))
        self.assertEqual((job.cp_rank, job.cp_size), (3, 4))
        self.assertEqual((job.consumer, job.consumers_per_cp_rank), (9, 10))
        self.assertEqual((job.session, job.server), ("j-dp2", "h0:1"))
        self.assertFalse(job.is_leader)

    def test_each_consumer_is_there_once(self):
        seen = set()
        for rank in range(120):
            job = cpfeed.Job.from_environment(GOOD | {"RANK": str(rank)})
            seen.add((job.session, job.cp_rank, job.consumer))
        self.assertEqual(len(seen), 120)
        self.assertIn(("j-dp1", 0, 0), seen)

    def test_wrong_environments(self):
        for change, text in (
            ({"CPFEED_MESH": ""}, "CPFEED_MESH is not set"),
            ({"CPFEED_MESH": "cp=0"}, "'cp=0'"),
            ({"CPFEED_MESH": "cp"}, "'cp'"),
            ({"CPFEED_SERVER": "h:1"}, "must have {ordinal}"),
            ({"WORLD_SIZE": "8"}, "WORLD_SIZE is 8; the mesh has 120 ranks"),
            ({"RANK": "x"}, "RANK is 'x'; must be a number"),
        ):
            with self.assertRaises(cpfeed.UsageError) as caught:
                cpfeed.Job.from_environment(GOOD | change)
            self.assertIn(text, str(caught.exception))
        job = cpfeed.Job.from_environment(GOOD | {"RANK": "120"})
        with self.assertRaisesRegex(cpfeed.UsageError, "rank is 120"):
            job.mesh.coordinates(job.rank)


if __name__ == "__main__":
    unittest.main()
