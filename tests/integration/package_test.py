"""tools/package: what is in the archive runs, builds and completes; and says the
same version everywhere."""

import os
import pathlib
import re
import subprocess
import tarfile
import tempfile
import unittest

from tests.integration import real_server

# Traces of a machine that builds.
BUILD_PATHS = [b"/execroot/", b"/.cache/bazel", b"/sandbox/", b"site-packages",
               b"/proc/self/cwd", b"/.venv"]


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=240,
                          **options)


class PackageTest(unittest.TestCase):
    """One archive, taken apart in a folder of another name."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        done = run("tools/package", "--output", folder.name,
                   env={**os.environ, "CPFEED_BIN": "."})
        assert done.returncode == 0, done.stderr
        archive, = pathlib.Path(folder.name).glob("*.tar.gz")
        cls.name = archive.name
        with tarfile.open(archive) as tar:
            cls.members = tar.getmembers()
            tar.extractall(folder.name)
        unpacked, = [path for path in pathlib.Path(folder.name).iterdir()
                     if path.is_dir()]
        cls.root = unpacked.rename(unpacked.with_name("elsewhere"))

    def test_programs_run_from_any_folder(self):
        for program in ["cpfeed", "cpfeed_server"]:
            done = run(self.root / "bin" / program, "--version")
            self.assertEqual(done.returncode, 0, done.stderr)
        server = real_server.SERVER
        self.addCleanup(setattr, real_server, "SERVER", server)
        real_server.SERVER = self.root / "bin/cpfeed_server"
        running = real_server.RealServer()
        self.addCleanup(running.stop)
        done = run(self.root / "bin/cpfeed", "inspect", "--server",
                   running.address)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_client_library_builds_without_bazel(self):
        environment = {**os.environ, "PKG_CONFIG_PATH":
                       str(self.root / "lib/pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "cpfeed",
                    env=environment)
        self.assertEqual(flags.returncode, 0, flags.stderr)
        program = self.root / "feed_and_read"
        done = run("g++", "-O1", "examples/cpp/feed_and_read.cc",
                   *flags.stdout.split(), "-o", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        server = real_server.RealServer()
        self.addCleanup(server.stop)
        done = run(program, server.address)
        self.assertEqual((done.returncode, done.stdout),
                         (0, "rank 0 step 0: 100 103 104 107\n"
                             "rank 1 step 0: 101 102 105 106\n"), done.stderr)
        self.assertEqual(run(program).returncode, 2)

    def test_nothing_tells_where_it_was_built(self):
        here = pathlib.Path("server/cpfeed_server").resolve().parents[5]
        looked_at = 0
        for path in self.root.rglob("*"):
            # The libraries of Debian and LibTorch are others' work.
            if path.is_file() and path.parent != self.root / "lib/cpfeed":
                content = path.read_bytes()
                looked_at += 1
                for trace in [*BUILD_PATHS, str(here).encode()]:
                    self.assertNotIn(trace, content, path)
        self.assertGreater(looked_at, 80)
        for member in self.members:
            self.assertEqual((member.uid, member.gid), (0, 0))

    def test_api_is_there(self):
        share = self.root / "share/cpfeed"
        for path in ["proto/cpfeed/v1/ingest.proto", "cpfeed.binpb",
                     "proto/google/rpc/status.proto"]:
            self.assertTrue((share / path).stat().st_size, path)
        server = real_server.RealServer("--noreflection")
        self.addCleanup(server.stop)
        code, answer = server.call(
            "cpfeed.v1.AdminService/GetServerInfo", {}, "-protoset",
            str(share / "cpfeed.binpb"))
        self.assertEqual(code, "OK", answer)
        code, answer = server.call(
            "cpfeed.v1.AdminService/GetServerInfo", {}, "-import-path",
            str(share / "proto"), "-proto", "cpfeed/v1/admin.proto")
        self.assertEqual(code, "OK", answer)

    def complete(self, program, *words):
        """What bash offers for the last of the words."""
        script = (self.root / "share/bash-completion/completions" / program)
        quoted = " ".join(f"'{word}'" for word in (program, *words))
        done = run("bash", "-c", f"source {script}; COMP_WORDS=({quoted}); "
                   f"COMP_CWORD={len(words)}; _{program} 2>/dev/null; "
                   "printf '%s\\n' \"${COMPREPLY[@]}\"")
        return done.stdout.split()

    def test_bash_completes(self):
        self.assertEqual(self.complete("cpfeed", "fe"), ["feed"])
        self.assertIn("plan", self.complete("cpfeed", ""))
        self.assertEqual(self.complete("cpfeed", "feed", "--lay"),
                         ["--layout"])
        self.assertEqual(self.complete("cpfeed", "inspect", "--lay"), [])
        self.assertEqual(self.complete("cpfeed_server", "--drain"),
                         ["--drain_budget", "--drain_delay"])
        # All of them, and no other.
        help_text = run("server/cpfeed_server", "--help").stdout
        self.assertEqual(
            set(self.complete("cpfeed_server", "--")),
            set(re.findall(r"^ +(--\w+) \(", help_text, re.M)) | {"--help"})

    def test_version_is_one(self):
        version = run("client/cli/cpfeed", "--version").stdout.split()[-1]
        self.assertRegex(version, r"^\d+\.\d+\.\d+$")
        self.assertEqual(self.name, f"cpfeed-{version}-linux-x86_64.tar.gz")
        self.assertEqual(run("server/cpfeed_server", "--version").stdout,
                         f"cpfeed_server {version}\n")
        for path, pattern in [
                ("client/python/cpfeed/version.py", r'= "(.+)"'),
                ("CHANGELOG.md", r"## (\S+)"),
                ("deploy/kustomize/base/kustomization.yaml", r"newTag: (\S+)"),
                (self.root / "lib/pkgconfig/cpfeed.pc", r"Version: (\S+)")]:
            text = pathlib.Path(path).read_text("utf-8")
            self.assertEqual(re.search(pattern, text)[1], version, path)

    def test_wrong_options_are_told(self):
        self.assertEqual(run("tools/package", "--nonsense").returncode, 2)
        self.assertEqual(run("tools/completion").returncode, 2)
        self.assertIn("--worker", run("tools/package", "--help").stdout)


if __name__ == "__main__":
    unittest.main()
