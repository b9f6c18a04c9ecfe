"""docs/tutorial.md: from nothing to a trained model."""

import os
import unittest

from tests.docs import console_test


class TutorialTest(console_test.ConsoleTest):
    """Every command, in order, beside a server."""

    def test_commands_print_what_the_documents_show(self):
        os.environ["PYTHONPATH"] = os.path.abspath("client/python")
        # tools/quickstart is to build nothing.
        os.environ["CPFEED_BIN"] = "."
        self.check("docs/tutorial.md")


if __name__ == "__main__":
    unittest.main()
