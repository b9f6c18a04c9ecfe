"""TLS, tokens and trace context of the Python clients."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import cpfeed
from cpfeed import trace
from cpfeed.torch import ShardDataset, launch
from tests.client.python.serving import batch_of
from tests.integration.certificates import Authority

TOKEN = "a token of the test"


class SecureTest(unittest.TestCase):
    """A server that takes certificates, and a token."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.authority = Authority(cls.folder)
        server = cls.authority.issue("server", "IP:127.0.0.1")
        client = cls.authority.issue("client", "URI:spiffe://test/client")
        roles = ["loader", "worker", "controller", "operator"]
        auth = cls.folder / "auth.json"
        auth.write_text(json.dumps({"principals": [
            {"name": "client", "san": "spiffe://test/client", "roles": roles},
            {"name": "token", "roles": roles, "token_sha256":
                hashlib.sha256(TOKEN.encode()).hexdigest()}]}))
        cls.token_file = cls.folder / "token"
        cls.token_file.write_text(TOKEN + "\n")
        cls.flags = (f"--tls_cert={server[0]}", f"--tls_key={server[1]}",
                     f"--tls_client_ca={cls.authority.certificate}",
                     f"--auth_file={auth}")
        cls.server = cpfeed.LocalServer(*cls.flags)
        cls.addClassCleanup(cls.server.stop)
        cls.certificate = cpfeed.Security(cls.authority.certificate, *client)
        cls.token = cpfeed.Security(tls_ca=cls.authority.certificate,
                                    token_file=str(cls.token_file))

    def environment(self, security):
        return {"CPFEED_TLS_CA": security.tls_ca,
                "CPFEED_TLS_CERT": security.tls_cert,
                "CPFEED_TLS_KEY": security.tls_key,
                "CPFEED_TOKEN_FILE": security.token_file}

    def run_session(self, name, **options):
        """Creates, feeds and reads a session; the ids read."""
        with cpfeed.Client(self.server.address, **options) as client:
            client.create_session(name, cpfeed.session_spec(1))
        cpfeed.Feeder([batch_of(1)], server=self.server.address, session=name,
                      **options).run()
        dataset = ShardDataset(self.server.address, name, cp_rank=0, **options)
        ids = [int(batch["input_ids"][0]) for batch in dataset]
        self.assertGreaterEqual(dataset.data_wait_seconds, 0)
        dataset.close()
        return ids

    def test_certificate_and_token_are_taken(self):
        for name in ("certificate", "token"):
            self.assertEqual(self.run_session(
                name, credentials=getattr(self, name)), [1000])

    def test_environment_is_the_default(self):
        with mock.patch.dict(os.environ, self.environment(self.token)):
            self.assertEqual(self.run_session("environment"), [1000])

    def test_strangers_are_refused(self):
        with self.assertRaises(cpfeed.CpfeedError) as refused:
            self.run_session("stranger", credentials=cpfeed.Security(
                tls_ca=self.authority.certificate))
        self.assertEqual(refused.exception.code, "UNAUTHENTICATED")
        self.token_file.write_text("another")
        self.addCleanup(self.token_file.write_text, TOKEN)
        with self.assertRaises(cpfeed.CpfeedError) as refused:
            self.run_session("stranger", credentials=self.token)
        self.assertEqual(refused.exception.code, "UNAUTHENTICATED")

    def test_wrong_options_are_named(self):
        for options, text in (
                ({"tls_cert": "a"}, "one of tls_cert and tls_key is missing"),
                ({"token_file": "a"}, "token_file is given without TLS"),
                ({"tls_ca": "/none"}, "cannot read /none: No such file")):
            with self.assertRaisesRegex(cpfeed.UsageError, text):
                cpfeed.Client("127.0.0.1:1",
                              credentials=cpfeed.Security(**options))

    def test_launch_serves_with_tls(self):
        with launch([batch_of(2)], "cp=1", server_flags=self.flags,
                    credentials=self.certificate) as batches:
            self.assertEqual([int(batch["input_ids"][0]) for batch in batches],
                             [2000])
        # Its own server has none, whatever the environment says.
        with mock.patch.dict(os.environ, self.environment(self.token)):
            with launch([batch_of(3)], "cp=1") as batches:
                self.assertEqual(len(list(batches)), 1)

    def doctor(self, *options, **environment):
        done = subprocess.run(
            [sys.executable, "-m", "cpfeed", "doctor", "--server",
             self.server.address, *options], text=True, capture_output=True,
            timeout=60, env={**os.environ, **environment})
        return done.returncode, done.stdout

    def test_doctor_uses_them(self):
        status, text = self.doctor("--tls_ca", self.certificate.tls_ca,
                                   "--tls_cert", self.certificate.tls_cert,
                                   "--tls_key", self.certificate.tls_key)
        self.assertEqual(status, 0, text)
        status, text = self.doctor(**self.environment(self.token))
        self.assertEqual(status, 0, text)
        status, text = self.doctor("--timeout", "2")
        self.assertEqual(status, 1)
        self.assertIn("FAIL server", text)
        status, text = self.doctor("--tls_ca", "/none")
        self.assertEqual(status, 1)
        self.assertIn("FAIL tls: BAD_OPTION: cannot read /none", text)


class TraceTest(unittest.TestCase):

    def test_server_logs_the_trace_of_its_callers(self):
        server = cpfeed.LocalServer()
        self.addCleanup(server.stop)
        trace_id = "0af7651916cd43dd8448eb211c80319c"
        with mock.patch.dict(os.environ, TRACEPARENT=(
                f"00-{trace_id}-b7ad6b7169203331-01")):
            with cpfeed.Client(server.address) as client:
                client.create_session("train", cpfeed.session_spec(1))
            feeder = cpfeed.Feeder([batch_of(0)], server=server.address,
                                   session="train").start()
            with cpfeed.ShardReader(server.address, "train",
                                    cp_rank=0) as reader:
                for step in reader:
                    reader.ack(step.step)
            feeder.join(30)
        server.stop()
        opened = [line for line in server.log if "stream_opened" in line]
        self.assertEqual(len(opened), 2, server.log)
        spans = set()
        for line in opened:
            self.assertIn(f"trace_id={trace_id}", line)
            spans.add(line.split("span_id=")[1].split()[0])
        self.assertEqual(len(spans - {"b7ad6b7169203331"}), 2)

    def test_process_has_a_trace_of_its_own(self):
        with mock.patch.dict(os.environ, TRACEPARENT="nonsense"):
            (_, one), = trace.metadata()
            (_, two), = trace.metadata()
        self.assertRegex(one, "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$")
        self.assertEqual(one.split("-")[1], two.split("-")[1])
        self.assertNotEqual(one, two)


if __name__ == "__main__":
    unittest.main()
