"""That planner_bench runs and says what its README promises."""

import unittest

from tests.bench import bench_output


class PlannerBenchTest(unittest.TestCase):

    def test_every_layout_is_measured_in_every_case(self):
        report = bench_output.run_smoke("tests/bench/planner_bench")
        self.assertEqual(report["bench"], "planner")
        self.assertEqual(len(report["cases"]), 12)
        for case in report["cases"]:
            self.assertEqual(
                [row["layout"] for row in case["layouts"]],
                ["BALANCED area", "BALANCED tile", "HEAD_TAIL_PER_SEQUENCE",
                 "HEAD_TAIL_PER_ROW", "CHUNK_GREEDY 128", "PTRR 128"])
            for row in case["layouts"][:2]:
                self.assertEqual(row["token_errors"], 0)
                self.assertEqual(row["padding"], 0)
        self.assertEqual([row["layout"] for row in report["summary"]],
                         ["BALANCED area", "BALANCED tile"])


if __name__ == "__main__":
    unittest.main()
