"""docs/python.md: its blocks run, and print what it shows."""

import contextlib
import importlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PAGE = pathlib.Path("docs/python.md")
EXAMPLE = pathlib.Path("examples/python")


def blocks(*languages):
    """Pairs of language and text, in order."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    return [(language, text) for language, text in found
            if language in languages]


def apply(diff, text):
    """The text with the hunks of a diff applied, each at its one place."""
    for hunk in diff.split("@@\n")[1:]:
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        new = "".join(line[1:] for line in lines if line[0] in " +")
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def train(folder):
    """What two ranks print."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone",
         "--nproc-per-node", "2", os.path.join(folder, "train.py")],
        text=True, capture_output=True, timeout=110,
        env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class DocsTest(unittest.TestCase):

    def test_python_prints_what_is_shown(self):
        page = blocks("python", "output")
        names = {}
        for number, (language, text) in enumerate(page):
            if language == "output":
                continue
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, f"{PAGE} block {number}", "exec"), names)
            self.assertEqual(page[number + 1][0], "output")
            self.assertEqual(out.getvalue(), page[number + 1][1], text)
        self.check_doctor(names["server"].address)
        names["client"].close()
        self.assertEqual(names["server"].stop(), 0)

    def check_doctor(self, server):
        command, = (text for _, text in blocks("sh") if "doctor" in text)
        done = subprocess.run(
            command.replace("python", sys.executable, 1), shell=True, text=True,
            capture_output=True, timeout=60,
            env={**os.environ, "CPFEED_SERVER": server})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("ok   session: sessions/saved", done.stdout)

    def test_training_loop_changes_only_its_data(self):
        diff, = (text for _, text in blocks("diff") if "train.py" in text)
        with tempfile.TemporaryDirectory() as folder:
            before = (EXAMPLE / "train.py").read_text()
            # The example with the change differs in its comment alone.
            self.assertEqual(
                apply(diff, before).split('"""')[2],
                (EXAMPLE / "train_cp.py").read_text().split('"""')[2])
            for name, text in (("toy.py", (EXAMPLE / "toy.py").read_text()),
                               ("train.py", apply(diff, before))):
                pathlib.Path(folder, name).write_text(text)
            losses = train(folder)
        self.assertEqual(losses, train(EXAMPLE))
        self.assertEqual(losses.count("step "), 6)
        self.assertNotIn("nan", losses)

    def test_adapters_of_the_diffs_are_there(self):
        imports = [line for _, text in blocks("diff")
                   for line in re.findall(r"^\+ *from (cpfeed\S*) import (\S+)",
                                          text, re.M)]
        self.assertEqual(len(imports), 4)
        for module, name in imports:
            self.assertTrue(hasattr(importlib.import_module(module), name))


if __name__ == "__main__":
    unittest.main()
