"""That attention_bench runs and says what its README promises."""

import unittest

from tests.bench import bench_output


class AttentionBenchTest(unittest.TestCase):

    def test_one_line_has_every_exchange(self):
        report = bench_output.run_smoke("tests/bench/attention_bench")
        self.assertEqual(report["bench"], "attention")
        self.assertEqual(set(report["efficiency"]),
                         {"ring", "allgather", "alltoall", "hierarchical",
                          "planned"})
        for name in report["efficiency"]:
            self.assertGreater(report["efficiency"][name]["cpu"], 0, name)
            self.assertGreater(report["ms"][name]["cpu"], 0, name)
        self.assertGreater(report["one_process_ms"]["cpu"], 0)


if __name__ == "__main__":
    unittest.main()
