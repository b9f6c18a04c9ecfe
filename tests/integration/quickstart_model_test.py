"""tools/quickstart --job=model: a model trains as it does on one device, and
faults that this must find."""

import re
import unittest

from tests.integration.run_quickstart import quickstart


class QuickstartModelTest(unittest.TestCase):
    """Small documents, two ranks."""

    def test_a_model_trains_as_on_one_device(self):
        done = quickstart("--job=model", "--ranks", "2", "--steps", "50",
                          "--row_width", "512")
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

    def test_injected_faults_are_found(self):
        for fault in ["swap", "drop", "stale_kv"]:
            with self.subTest(fault):
                done = quickstart("--job=model", "--ranks", "2", "--steps", "3",
                                  "--row_width", "128", "--inject", fault)
                self.assertNotEqual(done.returncode, 0)
                self.assertNotIn("OK:", done.stdout)

    def test_unknown_jobs_are_refused(self):
        done = quickstart("--job=training")
        self.assertEqual(done.returncode, 2)
        self.assertIn("attention or model", done.stderr)


if __name__ == "__main__":
    unittest.main()
