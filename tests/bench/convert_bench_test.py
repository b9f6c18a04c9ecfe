"""That convert_bench runs and says what its README promises."""

import unittest

from tests.bench import bench_output


class ConvertBenchTest(unittest.TestCase):

    def test_one_line_has_every_ratio_of_every_case(self):
        report = bench_output.run_smoke("tests/bench/convert_bench")
        self.assertEqual(report["bench"], "convert")
        self.assertEqual([case["cp_size"] for case in report["cases"]],
                         [8, 64, 8, 64])
        for case in report["cases"]:
            # Three int64 tensors and the mask.
            self.assertEqual(case["bytes"], 25 * report["tokens"])
            for name in ("convert_over_memcpy", "verify_over_memcpy",
                         "encode_over_memcpy"):
                self.assertEqual(set(case[name]), {"wall", "cpu"}, name)
                self.assertGreater(case[name]["cpu"], 0, name)
        self.assertGreater(report["cp_64_over_cp_8"]["cpu"], 0)


if __name__ == "__main__":
    unittest.main()
