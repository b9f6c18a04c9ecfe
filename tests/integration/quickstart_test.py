"""tools/quickstart: the main job as processes, and faults that it must find."""

import re
import unittest

from tests.integration.run_quickstart import quickstart


class QuickstartTest(unittest.TestCase):
    """Small documents, few steps."""

    def assert_ok(self, done, steps, ranks):
        self.assertEqual(done.returncode, 0, done.stderr)
        last = done.stdout.splitlines()[-1]
        match = re.fullmatch(
            rf"OK: {steps} steps, {ranks} ranks, max difference (\S+)", last)
        self.assertTrue(match, last)
        self.assertLess(float(match[1]), 1e-5)

    def test_four_ranks_equal_one_device(self):
        self.assert_ok(quickstart("--steps", "3"), 3, 4)
        self.assert_ok(quickstart("--steps", "3", "--layout",
                                  "head_tail_per_sequence"), 3, 4)

    def test_balanced_takes_odd_lengths_on_odd_ranks(self):
        done = quickstart("--steps", "2", "--ranks", "3", "--row_width", "510")
        self.assert_ok(done, 2, 3)
        self.assertIn("layout BALANCED, exchange planned", done.stderr)
        self.assert_ok(quickstart("--steps", "2", "--ranks", "5", "--row_width",
                                  "510", "--exchange", "allgather"), 2, 5)

    def test_other_layouts_and_odd_ranks(self):
        self.assert_ok(quickstart("--steps", "2", "--ranks", "3", "--row_width",
                                  "768", "--layout", "striped"), 2, 3)
        self.assert_ok(quickstart("--steps", "2", "--ranks", "2", "--layout",
                                  "contiguous"), 2, 2)

    def test_injected_faults_are_found(self):
        for fault in ["swap", "drop", "stale_kv"]:
            with self.subTest(fault):
                done = quickstart("--steps", "3", "--ranks", "2", "--inject",
                                  fault)
                self.assertNotEqual(done.returncode, 0)
                self.assertNotIn("OK:", done.stdout)

    def test_wrong_option_is_a_usage_error(self):
        self.assertEqual(quickstart("--nonsense").returncode, 2)


if __name__ == "__main__":
    unittest.main()
