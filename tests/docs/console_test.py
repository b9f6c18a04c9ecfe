"""Runs the `$ command` lines of the documents and compares what they print.

A block that begins with ```console holds commands and their true output. A
command may go on in lines behind a backslash or inside quotes. An output line
`...` stands for any lines; of times, differences of floats and losses only the
first digits count. A document that says 127.0.0.1:8470 gets a server of
its own in that place.
"""

import os
import re
import subprocess
import tempfile
import unittest

from tests.integration.real_server import GRPCURL, RealServer

DOCUMENTS = ["README.md", "docs/inspection.md"]
PROGRAMS = ["client/cli", "server", "client/worker"]
ADDRESS = "127.0.0.1:8470"


def console_blocks(path):
    text = open(path, encoding="utf-8").read()
    return re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S)


def commands(block):
    """Pairs of a command and what is shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        lines = part.splitlines(keepends=True)
        size = 1
        while (lines[size - 1].endswith("\\\n") or
               "".join(lines[:size]).count("'") % 2):
            size += 1
        yield "".join(lines[:size]).rstrip("\n"), "".join(lines[size:])


def steady(text):
    """Without what differs from run to run."""
    text = re.sub(r"\b\d(?:\.\d+)?e-0\d\b", "#e-0#", text)
    text = re.sub(r"(\d+\.\d\d)\d\d+", r"\1", text)
    # A plan's milliseconds, before its digest.
    return re.sub(r"\d\.\d{3}  ([0-9a-f]{16})$", r"#  \1", text, flags=re.M)


def pattern(shown):
    """A regular expression of an output."""
    parts = re.split(r"^\.\.\.\n", shown, flags=re.M)
    return r"(?:.*\n)*?".join(map(re.escape, parts))


class ConsoleTest(unittest.TestCase):
    """All documents."""

    def check(self, document):
        blocks = console_blocks(document)
        self.assertTrue(blocks, f"{document} shows no command")
        address = ADDRESS
        if any(f"-plaintext {ADDRESS}" in block or f"--server {ADDRESS}" in block
               for block in blocks):
            server = RealServer()
            self.addCleanup(server.stop)
            address = server.address
        folders = [os.path.abspath(p) for p in PROGRAMS]
        folders.append(os.path.dirname(os.path.abspath(GRPCURL)))
        environment = {**os.environ, "NO_COLOR": "1", "PATH": os.pathsep.join(
            folders + [os.environ["PATH"]])}
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        # What commands write goes there.
        for name in os.listdir("."):
            os.symlink(os.path.abspath(name), os.path.join(folder.name, name))
        for command, shown in (c for b in blocks for c in commands(b)):
            with self.subTest(command):
                done = subprocess.run(
                    command.replace(ADDRESS, address), shell=True, text=True,
                    timeout=120, capture_output=True, env=environment,
                    cwd=folder.name)
                printed = steady(done.stdout.replace(address, ADDRESS))
                if not re.fullmatch(pattern(steady(shown)), printed):
                    self.assertEqual(printed, steady(shown), done.stderr)

    def test_commands_print_what_the_documents_show(self):
        for document in DOCUMENTS:
            with self.subTest(document):
                self.check(document)

    def test_what_differs_is_found(self):
        self.assertTrue(re.fullmatch(pattern("a\n...\nd\n"), "a\nb\nc\nd\n"))
        self.assertTrue(re.fullmatch(pattern("a\n...\nd\n"), "a\nd\n"))
        for other in ["a\nb\nd\ne\n", "b\nd\n", "a\nb\n", "a\nb d\n"]:
            self.assertFalse(re.fullmatch(pattern("a\n...\nd\n"), other))
        self.assertEqual(
            list(commands("$ a \\\n  b\nc\n$ d '{\n}'\n$ e\nf\n")),
            [("a \\\n  b", "c\n"), ("d '{\n}'", ""), ("e", "f\n")])


if __name__ == "__main__":
    unittest.main()
