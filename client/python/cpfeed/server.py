"""A server of this machine's own, for one node and for tests."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

from cpfeed.errors import Unavailable, UsageError

# Becomes the server, after asking the kernel for SIGTERM (15) when the thread
# that started it ends: trainers are killed more often than they exit.
_RUN = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15)
os.execv(sys.argv[1], sys.argv[1:])
"""


def server_binary() -> str:
    """The path of cpfeed_server: CPFEED_SERVER_BIN, or from PATH.

    Raises:
      UsageError: there is none.
    """
    named = os.environ.get("CPFEED_SERVER_BIN")
    found = shutil.which(named or "cpfeed_server")
    if found is None:
        where = (f"CPFEED_SERVER_BIN={named} is no program" if named else
                 "there is no cpfeed_server in PATH")
        raise UsageError(f"{where}; set CPFEED_SERVER_BIN to the binary",
                         code="NOT_FOUND")
    return found


class LocalServer:
    """A cpfeed_server on a free port of 127.0.0.1. A context manager.

    It ends with the thread that made it, however that ends.

    Attributes:
      address: such as "127.0.0.1:40123".
      pid: of the process.
    """

    def __init__(self, *flags: str, wait: float = 30.0):
        """Starts it and waits until it serves.

        Args:
          *flags: further ones, such as "--memory_budget=1000000000".
          wait: seconds.

        Raises:
          UsageError: there is no binary.
          Unavailable: it ended, or does not serve in time; with its last words.
        """
        binary = server_binary()
        self._log: list[str] = []
        self._serves = threading.Event()
        self._folder = tempfile.TemporaryDirectory(prefix="cpfeed-")
        port_file = pathlib.Path(self._folder.name, "port")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _RUN, binary,
             "--listen=127.0.0.1:0",
             f"--port_file={port_file}", *flags],
            stderr=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read_log, args=(port_file,),
                                        daemon=True, name="cpfeed-server-log")
        self._reader.start()
        self._serves.wait(wait)
        if not port_file.exists():
            self.stop()
            raise Unavailable("cpfeed_server does not serve: " +
                              " ".join(self._log[-3:]), code="UNAVAILABLE")
        self.address = "127.0.0.1:" + port_file.read_text().strip()

    def _read_log(self, port_file: pathlib.Path) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._log = self._log[-99:] + [line.rstrip()]
            if "serving on" in line:
                self._wait_for(port_file)
                self._serves.set()
        self._serves.set()

    def _wait_for(self, port_file: pathlib.Path) -> None:
        """It is written right behind the log's line."""
        while not port_file.exists() and self._process.poll() is None:
            pass

    @property
    def log(self) -> list[str]:
        """The last lines that it wrote."""
        return list(self._log)

    def __enter__(self) -> "LocalServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def kill(self) -> None:
        """Ends it at once, as a crash would."""
        self._process.kill()
        self._process.wait()

    def stop(self, wait: float = 60.0) -> int:
        """Ends it in peace; returns its exit status."""
        self._process.terminate()
        try:
            status = self._process.wait(wait)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._reader.join()
        if self._process.stderr is not None:
            self._process.stderr.close()
        self._folder.cleanup()
        return status
