"""Manifests as processes: a rolling restart while the job runs loses nothing,
and certificates, roles and flags of the hardened overlay work."""

import pathlib
import shutil
import signal
import sysconfig
import tempfile
import unittest

from deploy.manifests import build
from deploy.rehearse import Failure, Rehearsal, place

KUBECTL = "../python/kubectl"
# An overlay of an overlay, with smaller steps.
SMALL = """
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - ../{overlay}
configMapGenerator:
  - name: cpfeed-session
    behavior: merge
    literals:
      - |
        session.toml=[feed]
        cp_size = {cp_size}
        layout = "BALANCED"
        row_width = 1024
        long_documents = "cut"
"""


class RehearseTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cpfeed-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copytree("deploy", self.root / "deploy")

    def rehearsal(self, overlay, cp_size, documents, change=lambda text: text):
        small = self.root / "deploy/kustomize/overlays/small"
        small.mkdir()
        (small / "kustomization.yaml").write_text(
            SMALL.format(overlay=overlay, cp_size=cp_size), "utf-8")
        said = []
        rehearsal = Rehearsal(
            change(build(KUBECTL, small)), ".",
            str(pathlib.Path(sysconfig.get_path("stdlib"), documents)),
            self.root / "volumes", said.append)
        self.addCleanup(rehearsal.stop)
        rehearsal.said = said
        rehearsal.start()
        return rehearsal

    def run_through(self, number):
        """A rolling restart by a signal, early in the job."""
        rehearsal = self.rehearsal("ha", 2, "logging")
        rehearsal.wait_for_steps(2)
        before = [len(leader.output) for leader in rehearsal.leaders()]
        rehearsal.restart(number)
        groups = rehearsal.finish()
        self.assertEqual(len(groups), 2)
        for begin, steps in zip(before, groups):
            self.assertGreater(len(steps), begin)
            self.assertEqual(steps, list(range(len(steps))))
        # Both read the same documents.
        self.assertEqual(groups[0], groups[1])
        # Loaders and workers went on by themselves.
        self.assertEqual([job.restarts for job in rehearsal.jobs], [0] * 6)
        return rehearsal

    def test_killed_servers_lose_nothing(self):
        self.run_through(signal.SIGKILL)

    def test_rolling_restart_loses_nothing(self):
        rehearsal = self.run_through(signal.SIGTERM)
        self.assertEqual(rehearsal.said[:2],
                         ["cpfeed-0 is ready", "cpfeed-1 is ready"])
        self.assertRegex(" ".join(rehearsal.said[2:]),
                         r"cpfeed-1 went .* cpfeed-1 is ready again "
                         r"cpfeed-0 went .* cpfeed-0 is ready again")

    def test_hardened_overlay_works(self):
        rehearsal = self.rehearsal("hardened", 4, "json")
        groups = rehearsal.finish()
        self.assertGreater(len(groups[0]), 5)
        self.assertEqual(groups[0], list(range(len(groups[0]))))

    def test_role_that_is_missing_is_found(self):
        def no_worker(text):
            self.assertIn('"roles": ["worker"]', text)
            return text.replace('"roles": ["worker"]', '"roles": ["loader"]'
                                ).replace("--timeout=300", "--timeout=5"
                                          ).replace("OnFailure", "Never")

        rehearsal = self.rehearsal("hardened", 4, "json", no_worker)
        with self.assertRaisesRegex(Failure, "cpfeed-worker-.*exit status 1"):
            rehearsal.finish()

    def test_probe_that_does_not_succeed_is_found(self):
        with self.assertRaisesRegex(Failure, "startupProbe does not succeed"):
            self.rehearsal("hardened", 4, "json", lambda text: text.replace(
                "tls_cert=/etc/cpfeed-tls/tls.crt", "tls_cert=/etc/none"))

    def test_paths_are_replaced_whole(self):
        mounts = {"/etc/cpfeed": "/a", "/etc/cpfeed-tls": "/b"}
        self.assertEqual(
            place("--x=/etc/cpfeed/y,/etc/cpfeed-tls/z /etc/cpfeeds\n0.0.0.0:1",
                  mounts, "127.1.2.3"),
            "--x=/a/y,/b/z /etc/cpfeeds\n127.1.2.3:1")


if __name__ == "__main__":
    unittest.main()
