"""The wheel cpfeed-torch-ops, made of the built library and unpacked."""

import atexit
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

LIBRARY = "client/torch_ops/libcpfeed_torch_ops.so"


def unpacked():
    """A folder for PYTHONPATH, and the wheel in it."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    env = dict(os.environ)
    env.setdefault("CPFEED_TORCH_OPS_LIB", LIBRARY)
    done = subprocess.run(
        [sys.executable, "client/torch_ops/make_wheel", folder.name], env=env,
        text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel = pathlib.Path(done.stdout.strip())
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder.name)
    return folder.name, wheel
