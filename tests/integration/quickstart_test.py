"""tools/quickstart: the main job as processes, and faults that it must find."""

import os
import re
import subprocess
import sysconfig
import unittest

DOCUMENTS = os.path.join(sysconfig.get_path("stdlib"), "json")


def quickstart(*options):
    return subprocess.run(
        ["tools/quickstart", "--docs", DOCUMENTS, "--row_width", "512",
         *options],
        capture_output=True, text=True, timeout=240,
        env={**os.environ, "CPFEED_BIN": "."})


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

    def test_a_model_trains_as_on_one_device(self):
        done = quickstart("--job=model", "--ranks", "2", "--steps", "50",
                          "--row_width", "640")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        match = re.fullmatch(
            r"OK: 50 steps, 2 ranks, loss (\S+) -> (\S+), max relative "
            r"difference (\S+) of losses, (\S+) of gradients", lines[-1])
        self.assertTrue(match, lines[-1])
        first, last, of_losses, of_gradients = map(float, match.groups())
        self.assertLessEqual(last, first / 2)
        self.assertLess(of_losses, 1e-5)
        self.assertLess(of_gradients, 1e-5)
        # float32 beside float64: no difference would mean that nothing was
        # compared.
        self.assertGreater(of_gradients, 0)
        # The headings, a line a step, the summary.
        self.assertEqual(len(lines), 52)
        self.assertEqual([int(line.split()[0]) for line in lines[1:-1]],
                         list(range(50)))

    def test_faults_in_training_are_found(self):
        for fault in ["swap", "drop", "stale_kv"]:
            with self.subTest(fault):
                done = quickstart("--job=model", "--ranks", "2", "--steps", "3",
                                  "--row_width", "128", "--inject", fault)
                self.assertNotEqual(done.returncode, 0)
                self.assertNotIn("OK:", done.stdout)

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
