"""docs/operations.md, alerts and dashboard name what the server has, and all
of it."""

import json
import pathlib
import re
import subprocess
import unittest

from tests.integration.real_server import SERVER, RealServer

OPERATIONS = pathlib.Path("docs/operations.md").read_text(encoding="utf-8")
ALERTS = pathlib.Path("deploy/monitoring/alerts.yml").read_text(
    encoding="utf-8")
DASHBOARD = pathlib.Path("deploy/monitoring/dashboard.json")

# Counters and histograms of calls have no sample before the first call.
NAME = re.compile(r"\b(?:cpfeed|grpc_server)_[a-z_]+\b")


def section(title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", OPERATIONS,
                     re.M | re.S).group(1)


def first_cells(text):
    return "\n".join(re.findall(r"^\|([^|]+)\|", text, re.M))


class OperationsTest(unittest.TestCase):
    """One server for all tests."""

    @classmethod
    def setUpClass(cls):
        cls.server = RealServer("--metrics_listen=127.0.0.1:0")
        cls.addClassCleanup(cls.server.stop)
        # A refused call and one that is answered: every metric is there.
        cls.server.call("cpfeed.v1.PlanService/PlanBatch",
                        {"cp_size": 2, "seq_lens": [8]})
        text = cls.server.get("metrics", "/metrics")[1]
        cls.metrics = set(re.findall(r"^# TYPE (\S+) ", text, re.M))
        cls.histograms = set(
            re.findall(r"^# TYPE (\S+) histogram", text, re.M))

    def series(self):
        return self.metrics | {name + end for name in self.histograms
                               for end in ["_bucket", "_sum", "_count"]}

    def test_every_flag_is_documented_and_every_documented_one_is_there(self):
        done = subprocess.run([SERVER, "--help"], capture_output=True,
                              text=True, timeout=60)
        flags = set(re.findall(r"^ +(--\w+) \(", done.stdout, re.M))
        self.assertIn("--listen", flags)
        documented = set(re.findall(
            r"`(--\w+)`", first_cells(section("Flags of `cpfeed_server`"))))
        self.assertEqual(documented, flags)

    def test_exit_statuses_are_as_documented(self):
        rows = dict(re.findall(r"^\| `([\w -]+?)` \| (.*) \|$",
                               section("Exit status"), re.M))
        self.assertIn("cpfeed_server", rows)
        for status, flags in [(0, ["--version"]), (1, ["--nonsense"]),
                              (1, ["--listen=nowhere"]),
                              (1, ["--flagfile=/none"])]:
            done = subprocess.run([SERVER, *flags], capture_output=True,
                                  timeout=60)
            self.assertEqual(done.returncode, status, flags)

    def test_every_metric_is_documented_and_every_documented_one_is_there(self):
        documented = set(re.findall(
            r"`((?:cpfeed|grpc)_\w+)", first_cells(section("Metrics"))))
        self.assertEqual(documented, self.metrics)

    def test_alerts_use_metrics_that_are_there_and_each_has_its_remedy(self):
        expressions = re.sub(r"^ *(summary|- name):.*$", "", ALERTS, flags=re.M)
        used = set(NAME.findall(expressions))
        self.assertGreater(len(used), 8)
        self.assertLessEqual(used, self.series())
        alerts = re.findall(r"alert: (\w+)", ALERTS)
        documented = re.findall(r"Cpfeed\w+", first_cells(section("Alerts")))
        self.assertEqual(documented, alerts)

    def test_dashboard_uses_metrics_that_are_there(self):
        panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
        self.assertGreater(len(panels), 10)
        for panel in panels:
            for target in panel["targets"]:
                used = set(NAME.findall(target["expr"]))
                self.assertTrue(used, panel["title"])
                self.assertLessEqual(used, self.series(), panel["title"])


if __name__ == "__main__":
    unittest.main()
