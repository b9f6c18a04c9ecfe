"""A twentieth of tools/soak."""

import unittest

from tests.integration import soak


class SoakTest(unittest.TestCase):
    """5,000 small steps, five checkpoints."""

    def test_small_steps_leave_nothing_behind(self):
        result = soak.soak(5000)
        self.assertLess(result["rss_growth_bytes"], soak.MOST_GROWTH_BYTES)
        self.assertLessEqual(result["threads"][-1] - result["threads"][0],
                             soak.MOST_SPARE_THREADS, result)
        self.assertEqual(len(result["descriptors"]), 1, result)
        self.assertEqual(result["left_after_delete"], {})


if __name__ == "__main__":
    unittest.main()
