"""That load_bench runs and says what its head promises."""

import unittest

from tests.bench import bench_output


class LoadBenchTest(unittest.TestCase):

    def test_one_line_has_every_figure_of_every_case(self):
        report = bench_output.run_smoke("tests/bench/load_bench")
        self.assertEqual(report["bench"], "load")
        self.assertEqual(
            [(case["case"], case["sessions"], case["consumers_per_session"])
             for case in report["cases"]], [("one", 1, 8), ("many", 4, 2)])
        for case in report["cases"]:
            self.assertGreater(case["latency_ms_p50"], 0)
            self.assertGreaterEqual(case["latency_ms_p99"],
                                    case["latency_ms_p50"])
            self.assertGreater(case["fewest_over_most_steps"], 0)
            self.assertLessEqual(case["fewest_over_most_steps"], 1)
            self.assertGreater(case["server_most_resident_bytes"], 1 << 20)
            self.assertGreater(case["server_cpu_s_per_step"], 0)


if __name__ == "__main__":
    unittest.main()
