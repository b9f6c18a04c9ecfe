"""Runs the `$ command` lines of the documents and compares what they print.

A block that begins with ```console holds commands and their true output.
"""

import os
import re
import subprocess
import unittest

DOCUMENTS = ["README.md"]
PROGRAMS = ["client/cli", "server", "client/worker"]


def console_blocks(path):
    text = open(path, encoding="utf-8").read()
    return re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S)


def commands(block):
    """Pairs of a command and what is shown below it."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.M)
    return zip(parts[1::2], parts[2::2])


class ConsoleTest(unittest.TestCase):
    """All documents."""

    def test_commands_print_what_the_documents_show(self):
        folders = [os.path.abspath(p) for p in PROGRAMS]
        path = os.pathsep.join(folders + [os.environ["PATH"]])
        for document in DOCUMENTS:
            blocks = console_blocks(document)
            self.assertTrue(blocks, f"{document} shows no command")
            for command, shown in (c for b in blocks for c in commands(b)):
                with self.subTest(command):
                    done = subprocess.run(
                        command, shell=True, text=True, timeout=60,
                        capture_output=True, env={**os.environ, "PATH": path})
                    self.assertEqual(done.stdout, shown, done.stderr)


if __name__ == "__main__":
    unittest.main()
