"""`pip install client/python` gives a whole package, and nothing of the
machine that built it."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCES = pathlib.Path("client/python")
API = pathlib.Path("proto/cpfeed.binpb")


def run(*command, **options):
    done = subprocess.run([sys.executable, *command], text=True, timeout=240,
                          capture_output=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class WheelTest(unittest.TestCase):
    """One wheel for all tests, from a copy of what a clone has."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.folder.name)
        for path in [API, *SOURCES.rglob("*")]:
            if path.is_file() and "__pycache__" not in path.parts:
                copy = root / path
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(path.read_bytes())
        cls.sources = root / SOURCES
        # As in a clone: one file with two names.
        api = cls.sources / "cpfeed/api.binpb"
        api.unlink()
        api.symlink_to("../../../proto/cpfeed.binpb")
        run("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index",
            "--no-build-isolation", "--wheel-dir", str(root), cls.sources)
        cls.wheel, = root.glob("*.whl")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_is_pure_and_complete(self):
        self.assertTrue(self.wheel.name.startswith("cpfeed-"))
        self.assertTrue(self.wheel.name.endswith("-py3-none-any.whl"))
        with zipfile.ZipFile(self.wheel) as wheel:
            names = set(wheel.namelist())
        sources = {path.relative_to(self.sources).as_posix()
                   for path in (self.sources / "cpfeed").rglob("*")
                   if path.suffix in (".py", ".typed", ".binpb")}
        self.assertLess({"cpfeed/py.typed", "cpfeed/api.binpb"}, sources)
        self.assertLessEqual(sources, names)

    def test_has_the_api_of_the_tree(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            self.assertEqual(wheel.read("cpfeed/api.binpb"), API.read_bytes())

    def test_has_no_path_of_the_build_machine(self):
        paths = {self.folder.name, os.getcwd(), sys.prefix,
                 os.path.expanduser("~")} - {"/"}
        with zipfile.ZipFile(self.wheel) as wheel:
            for name in wheel.namelist():
                data = wheel.read(name)
                for path in paths:
                    self.assertNotIn(path.encode(), data, name)
                self.assertNotIn(b"/home/", data, name)

    def test_works_where_it_is_installed(self):
        target = pathlib.Path(self.folder.name, "site")
        run("-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
            "--target", str(target), self.wheel)
        out = run("-c", "import sys, cpfeed; print(cpfeed.__file__, "
                  "cpfeed.__version__, cpfeed.session_spec(2).topology.cp_size,"
                  " 'torch' in sys.modules)",
                  env={"PYTHONPATH": str(target)}, cwd=self.folder.name)
        where, version, cp_size, torch = out.split()
        self.assertTrue(where.startswith(str(target)))
        self.assertIn(f"-{version}-", self.wheel.name)
        self.assertEqual((cp_size, torch), ("2", "False"))


if __name__ == "__main__":
    unittest.main()
