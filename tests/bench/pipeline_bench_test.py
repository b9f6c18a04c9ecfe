"""That pipeline_bench runs and says what its README promises."""

import unittest

from tests.bench import bench_output


class PipelineBenchTest(unittest.TestCase):

    def test_one_line_has_every_figure_of_every_case(self):
        report = bench_output.run_smoke("tests/bench/pipeline_bench")
        self.assertEqual(report["bench"], "pipeline")
        self.assertEqual([(case["case"], case["cp_size"])
                          for case in report["cases"]],
                         [("step", 2), ("pipeline", 8)])
        for case in report["cases"]:
            for name in ("steps_per_s", "loader_cpu_s_per_step",
                         "server_cpu_s_per_step", "ranks_cpu_s_per_step",
                         "throughput_over_raw", "cpu_over_raw"):
                self.assertGreater(case[name], 0, name)


if __name__ == "__main__":
    unittest.main()
