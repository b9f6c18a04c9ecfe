"""What those who run the server see of its inside."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import cpfeed
from tests.integration.raw_streams import RawLoader, RawRank, batch_of
from tests.integration.real_server import GRPCURL, SERVER, RealServer, until

EXPORT = "cpfeed.v1.AdminService/ExportState"
CHANNELZ = "grpc.channelz.v1.Channelz"


class ExportTest(unittest.TestCase):
    """One server."""

    @classmethod
    def setUpClass(cls):
        cls.server = RealServer()
        cls.addClassCleanup(cls.server.stop)
        cls.client = cpfeed.Client(cls.server.address)
        cls.addClassCleanup(cls.client.close)

    def export(self, **request):
        code, answer = self.server.call(EXPORT, request)
        self.assertEqual(code, "OK", answer)
        return answer

    def test_all_but_bytes_is_told_of_a_session(self):
        self.client.create_session("train", cpfeed.session_spec(
            2, producers=["a", "b"], max_batch_bytes=1000,
            memory_budget_bytes=100_000))
        loader = RawLoader(self.server.address, producer="a", incarnation=7)
        self.addCleanup(loader.close)
        loader.opened()
        for number in range(2):  # The second waits for b.
            loader.put(number, batch_of(number))
        loader.put(2, batch_of(2), most=10)  # Under way.
        loader.receipt()
        rank = RawRank(self.server.address, cp_rank=1, incarnation=9)
        self.addCleanup(rank.close)
        self.assertEqual(rank.next_step()[0], 0)
        rank.ack(0)
        name = {"session": "sessions/train"}
        until(lambda: self.export(**name)["sessions"][0]["consumers"][1].get(
            "next_step") == "1" and len(
                self.export(**name)["sessions"][0]["producers"][0].get(
                    "waiting", [])) == 1)
        session, = self.export(**name)["sessions"]
        self.assertEqual(session["session"]["name"], "sessions/train")
        self.assertEqual(session["turn"], "b")
        self.assertNotIn("inconsistency", session)
        a, b = session["producers"]
        self.assertEqual((a["producer"], a["incarnation"], a["next_sequence"]),
                         ("a", "7", "2"))
        self.assertEqual([batch["sequence"] for batch in a["waiting"]], ["1"])
        self.assertEqual([batch["sequence"] for batch in a["receiving"]],
                         ["2"])
        self.assertEqual((b["producer"], b.get("connection")), ("b", None))
        held, = session["steps"]
        self.assertEqual((held["producer"], held["plan_digests"] != []),
                         ("a", True))
        self.assertGreater(int(held["payload_bytes"]), 0)
        # Neither payload nor the loader's state.
        self.assertNotIn("payload\":", json.dumps(session))

    def test_sessions_come_in_pages(self):
        for number in range(3):
            self.client.create_session(f"page{number}", cpfeed.session_spec(
                1, max_batch_bytes=1000, memory_budget_bytes=100_000))
        names, token = [], ""
        while True:
            page = self.export(page_size=1, page_token=token)
            names += [s["session"]["name"] for s in page["sessions"]]
            token = page.get("next_page_token", "")
            if not token:
                break
        self.assertEqual([n for n in names if "page" in n],
                         [f"sessions/page{number}" for number in range(3)])
        self.assertEqual(
            self.server.call(EXPORT, {"session": "sessions/none"})[0],
            "NotFound")


class ChannelzTest(unittest.TestCase):
    """gRPC's own view, for people on the machine."""

    def grpcurl(self, address, *arguments):
        return subprocess.run(
            [GRPCURL, "-plaintext", "-max-time", "20", *arguments[:-1],
             address, *arguments[-1:]],
            capture_output=True, text=True, timeout=60)

    def check(self, server, address, *flags):
        # A call, so that there is something to see.
        with cpfeed.Client(server.address) as client:
            client.create_session("train", cpfeed.session_spec(1))
        done = self.grpcurl(address, *flags, "list")
        self.assertEqual(set(done.stdout.split()),
                         {CHANNELZ, "grpc.reflection.v1alpha.ServerReflection"})
        done = self.grpcurl(address, *flags, CHANNELZ + "/GetServers")
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = [int(one["data"].get("calls_started", 0))
                 for one in json.loads(done.stdout)["server"]]
        self.assertGreater(sum(calls), 0)

    def test_it_is_on_loopback(self):
        server = RealServer("--channelz_listen=127.0.0.1:0")
        self.addCleanup(server.stop)
        self.check(server, "127.0.0.1:" + server.ports["channelz"])
        # And nowhere else.
        for method in ["GetServers", "GetTopChannels"]:
            code, text = server.call(f"{CHANNELZ}/{method}", {})
            self.assertEqual(code, "Unimplemented", text)

    def test_it_is_on_a_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "channelz.sock")
            server = RealServer(f"--channelz_listen=unix:{path}")
            self.addCleanup(server.stop)
            self.check(server, str(path), "-unix")

    def test_other_machines_do_not_reach_it(self):
        done = subprocess.run(
            [SERVER, "--listen=127.0.0.1:0", "--channelz_listen=0.0.0.0:0"],
            capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--channelz_listen=0.0.0.0:0 can be reached from other "
                      "machines", done.stderr)


if __name__ == "__main__":
    unittest.main()
