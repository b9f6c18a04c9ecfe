"""That stream_bench runs and says what its README promises."""

import unittest

from tests.bench import bench_output


class StreamBenchTest(unittest.TestCase):

    def test_one_line_has_every_ratio_of_every_case(self):
        report = bench_output.run_smoke("tests/bench/stream_bench")
        self.assertEqual(report["bench"], "stream")
        self.assertEqual([(case["chunk_kib"], case["receivers"])
                          for case in report["cases"]],
                         [(1024, 1), (1024, 4), (4096, 1), (4096, 4)])
        for case in report["cases"]:
            for name in ("throughput_over_raw", "cpu_over_raw",
                         "throughput_over_bytes", "cpu_over_bytes"):
                self.assertGreater(case[name], 0, name)


if __name__ == "__main__":
    unittest.main()
