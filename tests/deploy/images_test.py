"""Container files: what they build, how large it is, and that it runs."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

from deploy.manifests import PROGRAMS

DOCKER = pathlib.Path("deploy/docker")
MB = 10**6
# Traces of a machine that builds.
BUILD_PATHS = [b"/execroot/", b"/.cache/bazel", b"/sandbox/", b"site-packages",
               b"/proc/self/cwd", b"/.venv"]


def instructions(name):
    """Pairs of a container file: ("COPY", ". .")."""
    text = (DOCKER / f"{name}.Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", "")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line]


def programs(name):
    """The programs that its image gets, as in bazel-bin."""
    command, = [text for word, text in instructions(name)
                if word == "RUN" and "tools/bundle" in text]
    return re.findall(r"bazel-bin/(\S+)", command)


class ImagesTest(unittest.TestCase):
    """Built without Docker: its steps are few."""

    def make(self, name):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name, "image")
        subprocess.run(["tools/bundle", "--root", root, *programs(name)],
                       check=True, timeout=120)
        return root

    def test_files_say_what_manifests_rely_on(self):
        for name in ["server", "worker"]:
            with self.subTest(name):
                lines = instructions(name)
                # Nothing but the bundle: no shell, no package manager.
                self.assertEqual([text for word, text in lines
                                  if word == "FROM"],
                                 ["debian:12-slim AS build", "scratch"])
                last = dict(lines[lines.index(("FROM", "scratch")):])
                self.assertEqual(last["COPY"], "--from=build /image/ /")
                self.assertEqual(last["USER"], "65532:65532")
                self.assertEqual(json.loads(last["ENTRYPOINT"]),
                                 [PROGRAMS[name]])
                build, = [text for word, text in lines
                          if word == "RUN" and "bazel build" in text]
                targets = re.findall(r"//(\S+):(\S+)", build)
                self.assertEqual(["/".join(target) for target in targets],
                                 programs(name))
                # With and without a GPU; by options that there are.
                setup, = [text for word, text in lines
                          if word == "RUN" and "tools/setup" in text]
                known = subprocess.run(["tools/setup", "--help"], text=True,
                                       capture_output=True, timeout=60).stdout
                for option in re.findall(r"--\w+", setup):
                    self.assertIn(f"  {option} ", known)
                ignored = DOCKER / f"{name}.Dockerfile.dockerignore"
                self.assertIn("bazel-*", ignored.read_text("utf-8").split())

    def test_images_are_as_large_as_they_say_and_run(self):
        for name, most in [("server", 100), ("worker", 500)]:
            with self.subTest(name):
                root = self.make(name)
                size = sum(path.stat().st_size for path in root.rglob("*")
                           if path.is_file()) / MB
                self.assertLess(size, most)
                text = (DOCKER / f"{name}.Dockerfile").read_text("utf-8")
                said = int(re.search(r"(\d+) MB", text)[1])
                self.assertAlmostEqual(size, said, delta=said / 10)
                for program in programs(name):
                    self.check(root, pathlib.Path(program).name)

    def check(self, root, program):
        """It runs with the image's libraries alone, and has no trace of where
        it was built."""
        path = root / "usr/bin" / program
        loader = [root / "lib64/ld-linux-x86-64.so.2", "--library-path",
                  root / "usr/lib/cpfeed"]
        done = subprocess.run([*loader, path, "--help"], capture_output=True,
                              text=True, timeout=60)
        self.assertIn("--", done.stdout, done.stderr)
        listed = subprocess.run([*loader, "--list", path], text=True,
                                capture_output=True, timeout=60)
        libraries = re.findall(r"=> (\S+)", listed.stdout)
        self.assertGreater(len(libraries), 10)
        for library in libraries:
            self.assertTrue(library.startswith(str(root)), library)
        content = path.read_bytes()
        here = pathlib.Path("server/cpfeed_server").resolve().parents[5]
        for trace in [*BUILD_PATHS, str(here).encode()]:
            self.assertNotIn(trace, content, program)

    def test_what_moves_runs_too(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        first = pathlib.Path(folder.name, "first")
        subprocess.run(["tools/bundle", first, "server/cpfeed_server"],
                       check=True, timeout=120)
        moved = first.rename(first.with_name("second"))
        self.assertFalse(list(moved.rglob("libc.so*")))
        done = subprocess.run([moved / "bin/cpfeed_server", "--version"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        listed = subprocess.run(["ldd", moved / "bin/cpfeed_server"],
                                capture_output=True, text=True, timeout=60)
        grpc = re.search(r"libgrpc\+\+\.\S* => (\S+)", listed.stdout)[1]
        self.assertTrue(pathlib.Path(grpc).resolve().is_relative_to(
            moved.resolve()), grpc)
        self.assertEqual(subprocess.run(["tools/bundle", "--nonsense"],
                                        capture_output=True).returncode, 2)


if __name__ == "__main__":
    unittest.main()
