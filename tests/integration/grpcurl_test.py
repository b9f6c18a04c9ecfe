"""The real grpcurl against the real server, without any proto file."""

import json
import pathlib
import subprocess
import tempfile
import unittest

SERVER = "server/cpfeed_server"
GRPCURL = "../python/grpcurl"

SERVICES = {
    "cpfeed.v1.IngestService",
    "cpfeed.v1.PlanService",
    "cpfeed.v1.SessionService",
    "cpfeed.v1.ShardService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1alpha.ServerReflection",
}


class GrpcurlTest(unittest.TestCase):
    """One server for all tests."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        port = pathlib.Path(cls.folder.name, "port")
        cls.server = subprocess.Popen(
            [SERVER, "--listen=127.0.0.1:0", f"--port_file={port}"],
            stderr=subprocess.PIPE, text=True)
        # The server says when it serves; no line means that it ended.
        while "serving on" not in (line := cls.server.stderr.readline()):
            assert line, "the server ended"
        while not port.exists():
            pass
        cls.address = "127.0.0.1:" + port.read_text().strip()

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        status = cls.server.wait(timeout=30)
        cls.server.stderr.close()
        cls.folder.cleanup()
        assert status == 0, f"the server exits with {status} on SIGTERM"

    def grpcurl(self, *arguments, data=None, status=0):
        command = [GRPCURL, "-plaintext"]
        if data is not None:
            command += ["-d", json.dumps(data)]
        done = subprocess.run(command + [self.address, *arguments],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def call(self, method, data):
        return json.loads(self.grpcurl(method, data=data))

    def test_lists_and_describes_all_services(self):
        self.assertLessEqual(SERVICES, set(self.grpcurl("list").split()))
        for service in SERVICES - {"grpc.reflection.v1alpha.ServerReflection"}:
            self.assertIn("rpc ", self.grpcurl("describe", service))
        row = self.grpcurl("describe", "cpfeed.v1.BatchRow")
        for field in ["input_ids", "labels", "seq_lens", "seq_lens_padded"]:
            self.assertIn(field, row)
        self.assertIn("cp_size",
                      self.grpcurl("describe", "cpfeed.v1.Topology"))

    def test_batch_of_two_sequences_becomes_shards(self):
        created = self.call("cpfeed.v1.SessionService/CreateSession", {
            "session_id": "two", "session": {"topology": {"cp_size": 2}}})
        self.assertEqual(created["session"]["name"], "sessions/two")
        put = self.call("cpfeed.v1.IngestService/PutBatch", {
            "session": "sessions/two",
            "rows": [{"input_ids": list(range(100, 108)),
                      "labels": list(range(101, 108)) + [-100],
                      "seq_lens": [4, 3], "seq_lens_padded": [4, 4]}]})
        self.assertEqual(put["receipt"]["outcome"], "OUTCOME_ACCEPTED")
        # Chunks 1 and 2 of each slot of four are rank 1's.
        shard = self.call("cpfeed.v1.ShardService/GetShard", {
            "session": "sessions/two", "cp_rank": 1, "as_numbers": True})
        values = {t["spec"]["name"]: t["integers"]
                  for t in shard["chunks"][0]["tensors"]}
        self.assertEqual(values["input_ids"], ["101", "102", "105", "106"])
        self.assertEqual(values["labels"], ["102", "103", "106", "107"])
        self.assertEqual(values["position_ids"], ["1", "2", "1", "2"])
        self.assertEqual(values["index"], ["1", "2", "5", "6"])
        self.assertEqual(values["cu_seqlens"], ["0", "4", "7"])
        self.assertEqual(values["cu_seqlens_padded"], ["0", "4", "8"])
        self.assertEqual(shard["step"]["num_label_tokens_global"], "7")

    def test_wrong_batch_is_refused_with_its_reason(self):
        self.call("cpfeed.v1.SessionService/CreateSession", {
            "session_id": "odd", "session": {"topology": {"cp_size": 2}}})
        error = self.grpcurl(
            "cpfeed.v1.IngestService/PutBatch", status=64 + 3, data={
                "session": "sessions/odd",
                "rows": [{"input_ids": [1] * 6, "labels": [1] * 6,
                          "seq_lens": [6]}]})
        for part in ["InvalidArgument", "row 0", "sequence 0: 6",
                     "multiple of 4", "NOT_DIVISIBLE", "cpfeed.dev"]:
            self.assertIn(part, error)

    def test_plan_needs_no_session(self):
        answer = self.call("cpfeed.v1.PlanService/PlanBatch", {
            "cp_size": 2, "seq_lens": [8, 6],
            "shardings": [{"layout": "LAYOUT_HEAD_TAIL_PER_SEQUENCE"},
                          {"layout": "LAYOUT_CONTIGUOUS"}]})
        refused, planned = answer["plans"]
        self.assertIn("sequence 1: 6", refused["status"]["message"])
        self.assertEqual(planned["metrics"]["max_tokens"], "7")

    def test_health_by_name(self):
        for service in ["", "readiness", "liveness", "startup",
                        "cpfeed.v1.ShardService"]:
            answer = self.call("grpc.health.v1.Health/Check",
                               {"service": service})
            self.assertEqual(answer["status"], "SERVING", service)
        self.grpcurl("grpc.health.v1.Health/Check", status=64 + 5,
                     data={"service": "unknown"})


if __name__ == "__main__":
    unittest.main()
