"""Who may do what, over real TLS: certificates, tokens, roles, prefixes."""

import hashlib
import json
import os
import pathlib
import re
import ssl
import socket
import subprocess
import tempfile
import unittest

from tests.integration.certificates import Authority
from tests.integration.real_server import GRPCURL, SERVER, RealServer, until

CLI = "client/cli/cpfeed"
TOKENS = {name: f"{name}-token-of-the-test" for name in
          ["loader", "worker", "controller", "operator", "other"]}
SPIFFE = "spiffe://test/ns/train/sa/rank"

SESSIONS = "cpfeed.v1.SessionService/"
# Who may call what. A method that is not here fails the test.
ROLES = {
    SESSIONS + "CreateSession": {"controller"},
    SESSIONS + "DeleteSession": {"controller"},
    SESSIONS + "SeekSession": {"controller"},
    SESSIONS + "CommitCursor": {"controller"},
    SESSIONS + "UpdateSession": {"controller"},
    SESSIONS + "RenewSession": {"controller"},
    SESSIONS + "WatchSession": "all",
    SESSIONS + "GetSession": "all",
    SESSIONS + "ListSessions": "all",
    "cpfeed.v1.IngestService/PutBatches": {"loader"},
    "cpfeed.v1.IngestService/PutBatch": {"loader"},
    "cpfeed.v1.ShardService/StreamShards": {"worker"},
    "cpfeed.v1.ShardService/GetShard": {"worker"},
    "cpfeed.v1.PlanService/PlanBatch": "all",
    "cpfeed.v1.PlanService/ExplainStep": "all",
    "cpfeed.v1.AdminService/GetServerInfo": {"operator"},
    "cpfeed.v1.AdminService/GetStatistics": {"operator"},
    "cpfeed.v1.AdminService/Drain": {"operator"},
    # Behind Drain, whose effect it ends.
    "cpfeed.v1.AdminService/Undrain": {"operator"},
    "cpfeed.v1.AdminService/SetLogLevel": {"operator"},
    "cpfeed.v1.AdminService/ExportState": {"operator"},
    "grpc.health.v1.Health/Check": "open",
    "grpc.health.v1.Health/Watch": "open",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": "all",
}
REFUSED = {"Unauthenticated", "PermissionDenied"}


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


def auth_file():
    return {"principals": [
        *({"name": role, "token_sha256": digest(TOKENS[role]),
           "roles": [role], "session_prefix": "train-",
           "quota": {"streams": 1}}
          for role in ["loader", "worker", "operator"]),
        {"name": "controller", "token_sha256": digest(TOKENS["controller"]),
         "roles": ["controller"], "session_prefix": "train-",
         "quota": {"sessions": 2}},
        {"name": "other", "token_sha256": digest(TOKENS["other"]),
         "roles": ["controller", "worker", "loader"],
         "session_prefix": "eval-", "quota": {"bytes": 1 << 20}},
        {"name": "rank", "san": SPIFFE, "roles": ["worker", "controller"],
         "session_prefix": "train-"},
    ]}


class SecurityTest(unittest.TestCase):
    """One server with TLS, an auth file and a probe listener."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.authority = Authority(cls.folder)
        cls.certificate, cls.key = cls.authority.issue("server",
                                                       "IP:127.0.0.1")
        cls.rank = cls.authority.issue("rank", f"URI:{SPIFFE}")
        cls.auth = cls.folder / "auth.json"
        cls.auth.write_text(json.dumps(auth_file()))
        cls.server = RealServer(
            f"--tls_cert={cls.certificate}", f"--tls_key={cls.key}",
            f"--tls_client_ca={cls.authority.certificate}",
            f"--auth_file={cls.auth}", "--credentials_refresh=1s",
            "--probe_listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0")
        cls.addClassCleanup(cls.server.stop)

    def call(self, method, data, *flags, token=None, certificate=None):
        flags = ["-cacert", self.authority.certificate, *flags,
                 "-reflect-header",
                 "authorization: Bearer " + TOKENS["operator"]]
        if token:
            flags += ["-rpc-header", "authorization: Bearer " + token]
        if certificate:
            flags += ["-cert", certificate[0], "-key", certificate[1]]
        return self.server.call(method, data, *flags, plaintext=False)

    def listing(self, *arguments):
        return subprocess.run(
            [GRPCURL, "-cacert", self.authority.certificate, "-H",
             "authorization: Bearer " + TOKENS["operator"],
             self.server.address, "list", *arguments],
            check=True, capture_output=True, text=True,
            timeout=60).stdout.split()

    def raw(self, address, method, *flags):
        """Calls a method with an empty message, described or not."""
        service, name = method.rsplit("/", 1)
        package, service = service.rsplit(".", 1)
        pathlib.Path(self.folder, "raw.proto").write_text(
            f'syntax = "proto3"; package {package}; message Nothing {{}} '
            f"service {service} {{ rpc {name}(Nothing) returns (Nothing); }}",
            encoding="utf-8")
        return subprocess.run(
            [GRPCURL, *flags, "-max-time", "10", "-import-path",
             str(self.folder), "-proto", "raw.proto", address, method],
            capture_output=True, text=True, timeout=60)

    def create(self, name, token=TOKENS["controller"], **limits):
        return self.call(
            SESSIONS + "CreateSession",
            {"session_id": name, "session": {"topology": {"cp_size": 1},
                                             "limits": limits}}, token=token)

    def test_every_method_asks_who_calls_and_for_a_role(self):
        methods = [m[::-1].replace(".", "/", 1)[::-1]
                   for service in self.listing()
                   for m in self.listing(service)]
        self.assertEqual(set(methods), set(ROLES))
        for method, allowed in ROLES.items():
            with self.subTest(method):
                # Nothing in the request is right: who may call gets to know.
                code, text = self.call(method, {}, "-max-time", "3")
                if allowed == "open":
                    self.assertNotIn(code, REFUSED, text)
                    continue
                self.assertEqual(code, "Unauthenticated", text)
                code, text = self.call(method, {}, token="of nobody")
                self.assertEqual(code, "Unauthenticated", text)
                for role in ["loader", "worker", "controller", "operator"]:
                    code, text = self.call(method, {}, "-max-time", "3",
                                           token=TOKENS[role])
                    if allowed == "all" or role in allowed:
                        self.assertNotIn(code, REFUSED, (role, text))
                    else:
                        self.assertEqual(code, "PermissionDenied",
                                         (role, text))

    def test_methods_that_nobody_knows_are_refused(self):
        for token, status in [("of nobody", 16), (TOKENS["operator"], 7)]:
            done = self.raw(self.server.address, "none.S/M", "-cacert",
                            self.authority.certificate, "-H",
                            "authorization: Bearer " + token)
            self.assertEqual(done.returncode, 64 + status, done.stderr)

    def test_other_peoples_sessions_are_not_there(self):
        self.assertEqual(self.create("train-secret")[0], "OK")
        name = {"name": "sessions/train-secret"}
        none = {"name": "sessions/train-none"}
        code, text = self.call(SESSIONS + "GetSession", name,
                               token=TOKENS["other"])
        self.assertEqual(code, "NotFound")
        # Nothing tells one that is there from one that is not.
        absent = self.call(SESSIONS + "GetSession", none,
                           token=TOKENS["other"])[1]
        self.assertEqual(text.replace("secret", "none"), absent)
        for method, data in [
                (SESSIONS + "DeleteSession", {**name, "force": True}),
                (SESSIONS + "UpdateSession",
                 {"session": name, "update_mask": {"paths": ["labels"]}}),
                (SESSIONS + "RenewSession", name),
                (SESSIONS + "WatchSession", name),
                ("cpfeed.v1.ShardService/GetShard",
                 {"session": name["name"]}),
                ("cpfeed.v1.IngestService/PutBatch",
                 {"session": name["name"]}),
                ("cpfeed.v1.IngestService/PutBatches",
                 {"open": {"session": name["name"]}}),
                ("cpfeed.v1.ShardService/StreamShards",
                 {"attach": {"session": name["name"]}})]:
            code, text = self.call(method, data, token=TOKENS["other"])
            self.assertEqual(code, "NotFound", (method, text))
        code, answer = self.call(SESSIONS + "ListSessions", {},
                                 token=TOKENS["other"])
        self.assertEqual((code, answer), ("OK", {}))
        code, answer = self.call(SESSIONS + "GetSession", name,
                                 token=TOKENS["worker"])
        self.assertEqual(code, "OK", answer)
        code, text = self.create("train-mine", token=TOKENS["other"])
        self.assertEqual(code, "PermissionDenied")
        self.assertIn("eval-", text)
        self.assertEqual(
            self.call(SESSIONS + "DeleteSession", {**name, "force": True},
                      token=TOKENS["controller"])[0], "OK")

    def test_quotas_bound_sessions_and_bytes(self):
        for name in ["train-a", "train-b"]:
            self.assertEqual(self.create(name)[0], "OK")
        code, text = self.create("train-c")
        self.assertEqual(code, "ResourceExhausted")
        self.assertIn("its quota is 2", text)
        # The same one again is none more.
        self.assertEqual(self.create("train-a")[0], "OK")
        code, text = self.create("eval-a", token=TOKENS["other"],
                                 memory_budget_bytes=2 << 20,
                                 max_batch_bytes=1000)
        self.assertEqual(code, "ResourceExhausted")
        self.assertIn("its quota is 1048576", text)
        for name in ["train-a", "train-b"]:
            self.call(SESSIONS + "DeleteSession",
                      {"name": "sessions/" + name, "force": True},
                      token=TOKENS["controller"])

    def test_a_quota_bounds_streams_and_is_given_back(self):
        self.assertEqual(self.create("train-q")[0], "OK")
        attach = {"attach": {"session": "sessions/train-q"}}
        method = "cpfeed.v1.ShardService/StreamShards"
        first = subprocess.Popen(
            [GRPCURL, "-cacert", self.authority.certificate, "-H",
             "authorization: Bearer " + TOKENS["worker"], "-d", "@",
             self.server.address, method],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        first.stdin.write(json.dumps(attach))
        first.stdin.flush()
        while "attached" not in (line := first.stdout.readline()):
            self.assertTrue(line)
        code, text = self.call(method, attach, token=TOKENS["worker"])
        self.assertEqual(code, "ResourceExhausted", text)
        self.assertIn("worker has 1 streams", text)
        first.kill()
        first.communicate()
        # The next one is let in: it gets as far as its error.
        until(lambda: self.call(method, {}, token=TOKENS["worker"])[0]
              == "InvalidArgument")
        self.call(SESSIONS + "DeleteSession",
                  {"name": "sessions/train-q", "force": True},
                  token=TOKENS["controller"])

    def test_large_headers_are_refused_and_take_no_memory(self):
        def resident():
            status = pathlib.Path(
                f"/proc/{self.server.process.pid}/status").read_text()
            return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10

        before = resident()
        for _ in range(10):
            code, _ = self.call(
                SESSIONS + "ListSessions", {}, "-rpc-header",
                "large: " + 100_000 * "x", token=TOKENS["operator"])
            self.assertNotEqual(code, "OK")
        self.assertLess(resident() - before, 64 << 20)
        self.assertEqual(self.call(SESSIONS + "ListSessions", {},
                                   token=TOKENS["operator"])[0], "OK")

    def test_refused_calls_are_counted(self):
        name = 'cpfeed_calls_refused_total{grpc_code="%s"}'
        before = self.server.metrics()
        self.call(SESSIONS + "ListSessions", {}, token="of nobody")
        self.call(SESSIONS + "CreateSession", {}, token=TOKENS["loader"])
        now = self.server.metrics()
        for code in ["Unauthenticated", "PermissionDenied"]:
            self.assertEqual(now[name % code] - before[name % code], 1)

    def test_a_certificate_is_a_principal_and_a_strange_one_is_nobody(self):
        list_all = SESSIONS + "ListSessions"
        self.assertEqual(self.call(list_all, {}, certificate=self.rank)[0],
                         "OK")
        self.assertEqual(
            self.call("cpfeed.v1.IngestService/PutBatch", {},
                      certificate=self.rank)[0], "PermissionDenied")
        stranger = self.authority.issue("stranger", "URI:spiffe://test/other")
        self.assertEqual(self.call(list_all, {}, certificate=stranger)[0],
                         "Unauthenticated")
        # A token decides where there are both.
        self.assertEqual(
            self.call(list_all, {}, certificate=self.rank, token="wrong")[0],
            "Unauthenticated")
        folder = self.folder / "forged"
        folder.mkdir()
        forged = Authority(folder, "ca").issue("rank", f"URI:{SPIFFE}")
        self.assertIn(self.call(list_all, {}, certificate=forged)[0],
                      ["failed", "Unavailable", "DeadlineExceeded"])

    def test_plaintext_gets_nothing_but_probes(self):
        code, _ = self.server.call(SESSIONS + "ListSessions", {}, "-max-time",
                                   "3")
        self.assertNotEqual(code, "OK")
        probe = "127.0.0.1:" + self.server.ports["probe"]
        done = subprocess.run(
            [GRPCURL, "-plaintext", "-max-time", "5", probe, "list"],
            capture_output=True, text=True, timeout=60)
        self.assertIn("does not support the reflection API", done.stderr)
        for method, status in [("grpc.health.v1.Health/Check", 0),
                               (SESSIONS + "ListSessions", 64 + 12)]:
            done = self.raw(probe, method, "-plaintext")
            self.assertEqual(done.returncode, status, done.stderr)

    def test_the_command_line_client_says_who_it_is(self):
        token = self.folder / "token"
        token.write_text(TOKENS["operator"] + "\n")

        def inspect(*flags):
            return subprocess.run(
                [CLI, "inspect", "--server", self.server.address, *flags],
                capture_output=True, text=True, timeout=60)

        done = inspect("--tls_ca", self.authority.certificate, "--token_file",
                       str(token))
        self.assertEqual(done.returncode, 0, done.stderr)
        done = inspect("--tls_ca", self.authority.certificate, "--tls_cert",
                       self.rank[0], "--tls_key", self.rank[1])
        self.assertEqual(done.returncode, 0, done.stderr)
        done = inspect("--tls_ca", self.authority.certificate)
        self.assertIn("no certificate or token", done.stderr)
        done = inspect("--token_file", str(token))
        self.assertEqual(done.returncode, 2)
        self.assertIn("a token needs TLS", done.stderr)

    def test_tokens_and_certificates_are_exchanged_without_a_restart(self):
        changed = auth_file()
        changed["principals"].append(
            {"name": "operator", "token_sha256": digest("newer token"),
             "roles": ["operator"]})
        self.addCleanup(self.replace_auth, auth_file())
        list_all = SESSIONS + "ListSessions"
        self.assertEqual(self.call(list_all, {}, token="newer token")[0],
                         "Unauthenticated")
        self.replace_auth(changed)
        until(lambda: self.call(list_all, {}, token="newer token")[0] == "OK")
        # A broken file changes nothing but the log.
        self.replace_auth({"principals": [{"name": "x", "rolls": []}]})
        def refused():
            self.call(list_all, {}, token="newer token")  # Looks at the file.
            return any("auth_file_refused" in line for line in self.server.log)

        until(refused)
        self.assertEqual(self.call(list_all, {}, token="newer token")[0],
                         "OK")
        before = self.served_certificate()
        self.authority.issue("server", "IP:127.0.0.1")
        until(lambda: self.served_certificate() != before)
        self.assertEqual(self.call(list_all, {}, token="newer token")[0],
                         "OK")

    def replace_auth(self, content):
        new = self.folder / "auth.json.new"
        new.write_text(json.dumps(content))
        os.replace(new, self.auth)

    def served_certificate(self):
        context = ssl.create_default_context(
            cafile=self.authority.certificate)
        context.set_alpn_protocols(["h2"])
        host, port = self.server.address.split(":")
        with socket.create_connection((host, int(port)), 10) as plain:
            with context.wrap_socket(plain, server_hostname=host) as secure:
                return secure.getpeercert(binary_form=True)

    def test_a_log_has_no_token(self):
        self.call(SESSIONS + "ListSessions", {}, token="of nobody at all")
        log = "".join(self.server.log)
        for secret in [*TOKENS.values(), "of nobody at all",
                       digest(TOKENS["loader"])]:
            self.assertNotIn(secret, log)


class StartTest(unittest.TestCase):
    """What the server refuses to start with."""

    def refused(self, *flags):
        done = subprocess.run([SERVER, *flags], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr

    def test_a_routable_address_must_ask_who_calls(self):
        self.assertIn("has no TLS", self.refused("--listen=0.0.0.0:0"))
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Authority(folder).issue("server",
                                                       "IP:127.0.0.1")
            self.assertIn("asks nobody who they are", self.refused(
                "--listen=0.0.0.0:0", f"--tls_cert={certificate}",
                f"--tls_key={key}"))

    def test_an_auth_file_needs_tls_and_must_be_right(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "auth.json")
            path.write_text('{"principals": []}')
            self.assertIn("needs TLS", self.refused(
                "--listen=127.0.0.1:0", f"--auth_file={path}"))
            certificate, key = Authority(folder).issue("server",
                                                       "IP:127.0.0.1")
            path.write_text('{"principals": [{"name": "a"}]}')
            self.assertIn("principal 0: one of san and token_sha256",
                          self.refused("--listen=127.0.0.1:0",
                                       f"--auth_file={path}",
                                       f"--tls_cert={certificate}",
                                       f"--tls_key={key}"))
            self.assertIn("cannot read /none", self.refused(
                "--listen=127.0.0.1:0", "--tls_cert=/none",
                f"--tls_key={key}"))

    def test_the_status_page_is_for_loopback(self):
        self.assertIn("must be a loopback address", self.refused(
            "--listen=127.0.0.1:0", "--status_listen=0.0.0.0:0"))


if __name__ == "__main__":
    unittest.main()
