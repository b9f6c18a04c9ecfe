"""That idle_bench runs and says what its head promises."""

import unittest

from tests.bench import bench_output


class IdleBenchTest(unittest.TestCase):

    def test_one_line_has_both_quantiles_of_both_servers(self):
        report = bench_output.run_smoke("tests/bench/idle_bench")
        self.assertEqual(report["bench"], "idle")
        self.assertEqual(report["calls"], 4)
        for name in ("p50", "p99"):
            figures = report[name]
            self.assertGreater(figures["bare_ms"], 0)
            self.assertAlmostEqual(figures["over_bare"],
                                   figures["ms"] / figures["bare_ms"])
        self.assertGreaterEqual(report["p99"]["ms"], report["p50"]["ms"])


if __name__ == "__main__":
    unittest.main()
